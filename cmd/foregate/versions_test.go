package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// lastRevision is what a fleet is upgraded from as long as there is no tag.
const lastRevision = "aad17720"

// limitsAreShared says whether the last version counts limits in keys that this one reads. If not, each version enforces
// them by itself during an upgrade.
const limitsAreShared = true

// lastBinary builds the last version from the repository's history.
func lastBinary(t *testing.T) string {
	t.Helper()
	tag, _ := exec.CommandContext(t.Context(), "git", "describe", "--tags", "--abbrev=0", "HEAD~1").Output() // "" is none
	revision := cmp.Or(strings.TrimSpace(string(tag)), lastRevision)
	dir := t.TempDir()
	source := "git -C ../.. archive " + revision + " | tar -x -C " + dir
	if out, err := exec.CommandContext(t.Context(), "bash", "-c", "set -o pipefail; "+source).CombinedOutput(); err != nil {
		t.Skipf("no history: that settings, drains, purges and limits hold beside the last version is not checked: %s", out)
	}
	exe := filepath.Join(dir, "last")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", exe, "./cmd/foregate")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// upgraded are a replica of the last version and one of this, at one Redis.
type upgraded struct {
	redis     *redis.Client
	replicas  map[string]*server
	backend   string
	everybody []string // their names
}

// TestTwoVersionsShareOneRedis runs the last and this version beside each other, as a rolling upgrade does.
func TestTwoVersionsShareOneRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	exe := lastBinary(t)
	n := redistest.StartWith(t, &redis.Options{})
	config := fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
identity: {mode: keys}
tenants:
  - {id: acme, keys_sha256: ["%x"]}
  - {id: small, keys_sha256: ["%x"], rpm: 10}
pools: {p: {model: m, backends: [%q, %q]}}
routes: [{model: m, target: p}]
drain: {delay: 0s, grace: 2s}
`, n.Addr, sha256.Sum256([]byte("acme")), sha256.Sum256([]byte("small")),
		vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: 1, TimeScale: 50}).URL(),
		vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: 1, TimeScale: 50}).URL())
	u := &upgraded{redis: n.Client, replicas: map[string]*server{"last": serveBy(t, exe, config), "this": serve(t, config)}, everybody: []string{"last", "this"}}
	for _, s := range u.replicas {
		s.ready(t)
	}
	u.backend = u.backends(t, "this")[0].ID
	apptest.Eventually(t, "they are one fleet", func() bool {
		return u.redis.ZCard(t.Context(), "foregate:{fg}:replicas").Val() == 2
	})
	t.Run("settings", u.settings)
	t.Run("drains", u.drains)
	t.Run("purges", u.purges)
	t.Run("limits", u.limits)
}

// backend is one of GET /admin/backends.
type backend struct{ ID, State string }

func (u *upgraded) backends(t *testing.T, at string) []backend {
	t.Helper()
	var is struct {
		Pools []struct{ Backends []backend }
	}
	_, page := apptest.Get(t, u.replicas[at].admin+"/admin/backends")
	if err := json.Unmarshal([]byte(page), &is); err != nil || len(is.Pools) != 1 {
		t.Fatalf("%v: %s", err, page)
	}
	return is.Pools[0].Backends
}

// within waits until all replicas are as wanted: one second, and some of a busy machine.
func (u *upgraded) within(t *testing.T, what string, ok func(at string) bool) {
	t.Helper()
	for _, at := range u.everybody {
		apptest.Within(t, 3*time.Second, what+", at the version "+at, func() bool { return ok(at) })
	}
}

func (u *upgraded) settings(t *testing.T) {
	url := "redis://" + u.redis.Options().Addr + "/0"
	inForce := func(want string) func(string) bool {
		return func(at string) bool {
			_, page := apptest.Get(t, u.replicas[at].admin+"/admin/settings")
			return strings.Contains(page, `"name":"shed.low","value":"`+want+`"`)
		}
	}
	if status, _, errs := call(t, "settings", "set", "shed.low=0.7", "--redis", url); status != 0 {
		t.Fatal(errs)
	}
	u.within(t, "the setting is in force", inForce("0.7"))
	if status, _, errs := call(t, "settings", "unset", "shed.low", "--redis", url); status != 0 {
		t.Fatal(errs)
	}
	u.within(t, "the default is in force", inForce("0.85"))
}

func (u *upgraded) drains(t *testing.T) {
	for _, by := range u.everybody {
		is := func(state string) func(string) bool {
			return func(at string) bool {
				for _, b := range u.backends(t, at) {
					if b.ID == u.backend {
						return b.State == state
					}
				}
				return false
			}
		}
		if status, _, body := apptest.Send(t, http.MethodPost, u.replicas[by].admin+"/admin/drain?backend="+u.backend, ""); status != http.StatusOK {
			t.Fatalf("%s: %d %s", by, status, body)
		}
		u.within(t, "drained by the version "+by, is("drained"))
		if status, _, body := apptest.Send(t, http.MethodPost, u.replicas[by].admin+"/admin/undrain?backend="+u.backend, ""); status != http.StatusOK {
			t.Fatalf("%s: %d %s", by, status, body)
		}
		u.within(t, "undrained by the version "+by, is("up"))
	}
}

// ask sends a request, and returns its status and what X-Cache says.
func (u *upgraded) ask(t *testing.T, at, key, text string) (status int, cached string) {
	t.Helper()
	body := `{"model":"m","temperature":0,"max_tokens":2,"messages":[{"role":"user","content":"` + text + `"}]}`
	status, head, _ := apptest.Send(t, http.MethodPost, u.replicas[at].base+chat, body, "Authorization", "Bearer "+key)
	return status, head.Get("X-Cache")
}

func (u *upgraded) purges(t *testing.T) {
	for _, by := range u.everybody {
		hit := func(at string) bool { // who asks afterwards must not find what another has generated anew
			_, cached := u.ask(t, at, "acme", "what "+by+" purges and "+at+" asks")
			return cached == "HIT"
		}
		u.within(t, "the answer is cached", hit)
		u.within(t, "it is still cached", hit)
		if status, _, body := apptest.Send(t, http.MethodPost, u.replicas[by].admin+"/admin/cache/purge?tenant=acme", ""); status != http.StatusOK {
			t.Fatalf("%s: %d %s", by, status, body)
		}
		<-time.After(time.Second) // by then it is in force everywhere
		for _, at := range u.everybody {
			if hit(at) {
				t.Errorf("what the version %s purged is served by the version %s", by, at)
			}
		}
	}
}

func (u *upgraded) limits(t *testing.T) {
	admitted := map[string]int{}
	for i := range 15 {
		for _, at := range u.everybody {
			if status, _ := u.ask(t, at, "small", fmt.Sprintf("%s %d", at, i)); status == http.StatusOK {
				admitted[at]++
			}
		}
	}
	most, each := 12, 0 // ten a minute, and what the seconds of the test give back; one of them may get all
	if !limitsAreShared {
		most, each = 24, 1
	}
	if sum := admitted["last"] + admitted["this"]; sum == 0 || sum > most || min(admitted["this"], admitted["last"]) < each {
		t.Errorf("admitted %v", admitted)
	}
}
