package config

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway/identity"
)

// reloadBase is a file that a replica runs with.
const reloadBase = `
listen: 127.0.0.1:8080
pools:
  small: {model: s, backends: ["http://127.0.0.1:1"]}
  big: {model: b, backends: ["http://127.0.0.1:2"]}
routes:
  - {model: chat, draft: small, target: big}
tenants:
  - {id: acme, rpm: 10}
`

func TestAReloadTakesOverPoolsRoutesAndTenants(t *testing.T) {
	running := parsed(t, reloadBase)
	next := parsed(t, `
listen: 127.0.0.1:8080
pools:
  big: {model: b, backends: ["http://127.0.0.1:2", "http://127.0.0.1:3"]}
  fresh: {model: f, backends: ["http://127.0.0.1:4"]}
routes:
  - {model: chat, target: big}
  - {model: code, target: fresh}
tenants:
  - {id: acme, rpm: 20}
  - {id: beta}
identity: {unlisted_tenants: default, default_tenant: {rpm: 5}}
`)
	r := Reload(running, next)
	want := []string{
		"pools.big: changed", "pools.fresh: added", "pools.small: removed", "routes.chat: changed", "routes.code: added",
		"tenants.acme: changed", "tenants.beta: added", "identity.default_tenant: changed", "identity.unlisted_tenants: changed",
	}
	if diff := cmp.Diff(want, r.Changes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(r.Restart) > 0 {
		t.Errorf("a restart is wanted for %v", r.Restart)
	}
	if diff := cmp.Diff(next, r.File); diff != "" {
		t.Errorf("-file +in force:\n%s", diff)
	}
}

func TestWhatARunningProcessCannotTakeOverKeepsItsValue(t *testing.T) {
	running := parsed(t, reloadBase)
	next := parsed(t, reloadBase+"limits: {in_flight: 7}\nredis: {url: embedded}\n")
	next.Listen = "127.0.0.1:9999"
	next.Pools["small"] = Pool{Model: "other", Backends: []string{"http://127.0.0.1:1"}, Scheduler: "fcfs"}
	r := Reload(running, next)
	if diff := cmp.Diff([]string{"limits", "listen", "redis"}, r.Restart); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pools.small: changed"}, r.Changes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r.File.Listen != running.Listen || r.File.Limits.InFlight != running.Limits.InFlight || !cmp.Equal(r.File.Redis, running.Redis) {
		t.Errorf("in force: %+v", r.File)
	}
	if running.Pools["small"].Model != "s" {
		t.Error("the running configuration was changed")
	}
}

// TestTenantsOfAnotherModeAreNotTakenOver guards against keys that nobody checks: tenants with keys are written for mode
// keys, and a process that runs without a mode would serve everybody under their names.
func TestTenantsOfAnotherModeAreNotTakenOver(t *testing.T) {
	running := parsed(t, reloadBase)
	next := parsed(t, reloadBase)
	next.Identity.Mode, next.Tenants = identity.Keys, []identity.Tenant{{ID: "beta", KeySHA256: [][32]byte{{}}}}
	r := Reload(running, next)
	if len(r.Changes) > 0 || !cmp.Equal(r.File, running) {
		t.Errorf("changes %v, in force %+v", r.Changes, r.File)
	}
	if diff := cmp.Diff([]string{"identity", "tenants"}, r.Restart); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestTenantsThatMoveIntoAFileStayUntilTheRestart guards against a list that is empty for a while: the file is read after
// the restart only.
func TestTenantsThatMoveIntoAFileStayUntilTheRestart(t *testing.T) {
	running, next := parsed(t, reloadBase), parsed(t, reloadBase)
	next.TenantsFile, next.Tenants = "/run/tenants.yaml", nil
	for _, r := range []Reloaded{Reload(running, next), Reload(next, running)} {
		if len(r.Changes) > 0 || !cmp.Equal(r.Restart, []string{"tenants", "tenants_file"}) {
			t.Errorf("changes %v, restart %v", r.Changes, r.Restart)
		}
	}
	if r := Reload(running, next); !cmp.Equal(r.File, running) {
		t.Errorf("in force: %+v", r.File)
	}
}

// TestEveryFieldIsReloadedOrWaitsForARestart changes each field of a file, and expects that the difference is reported.
func TestEveryFieldIsReloadedOrWaitsForARestart(t *testing.T) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[File]()) {
		running, next := &File{}, &File{}
		other(t, reflect.ValueOf(next).Elem().FieldByIndex(f.Index))
		if r := Reload(running, next); len(r.Changes)+len(r.Restart) == 0 {
			t.Errorf("a change of %s is not reported", f.Name)
		}
	}
}

// other changes a value.
func other(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("other")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("other"), reflect.Zero(v.Type().Elem()))
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Struct:
		other(t, v.Field(0))
	default:
		t.Fatalf("a field is a %s", v.Kind())
	}
}

func parsed(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
