package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// reloadWorld is a replica with a configuration file that the test changes.
type reloadWorld struct {
	*apptest.Replica
	path string
	sims []*vllmsim.Server
}

// rotateFile puts a file with this text in the place of another, as one that is renamed over it.
func rotateFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".next", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		t.Fatal(err)
	}
}

// reloadFile is a configuration with these backends of its only pool, and what else is given.
func reloadFile(model, backends, rest string) string {
	return conf("pools:\n  only: {model: %s, backends: [%s]}\n%s", model, backends, rest)
}

const reloadRoute = "routes:\n  - {model: llama-3, target: only}\n"

func startReloads(t *testing.T) *reloadWorld {
	t.Helper()
	return startReloadsOf(t, func(w *reloadWorld) string { return reloadFile("m", w.urls(0), reloadRoute) })
}

// startReloadsOf starts with another file.
func startReloadsOf(t *testing.T, first func(w *reloadWorld) string) *reloadWorld {
	t.Helper()
	w := &reloadWorld{path: filepath.Join(t.TempDir(), "foregate.yaml")}
	for range 3 {
		w.sims = append(w.sims, vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: simSeed, TimeScale: simScale}))
	}
	rotateFile(t, w.path, first(w))
	w.Replica = apptest.ServeFile(t, w.path)
	w.Ready(t)
	return w
}

// urls are the URLs of simulators, for a list.
func (w *reloadWorld) urls(sims ...int) string {
	var all []string
	for _, i := range sims {
		all = append(all, fmt.Sprintf("%q", w.sims[i].URL()))
	}
	return strings.Join(all, ", ")
}

// reload has the replica read its files, and returns the status and the result.
func (w *reloadWorld) reload(t *testing.T, query string) (int, gateway.ReloadResult) {
	t.Helper()
	status, _, body := apptest.Send(t, http.MethodPost, w.Admin+"/admin/reload"+query, "")
	var result gateway.ReloadResult
	if err := json.Unmarshal([]byte(body), &result); err != nil {
		t.Fatalf("status %d: %s", status, body)
	}
	return status, result
}

// change replaces the file, reloads it, and fails if the changes are not these.
func (w *reloadWorld) change(t *testing.T, text string, changes ...string) {
	t.Helper()
	rotateFile(t, w.path, text)
	if status, r := w.reload(t, ""); status != http.StatusOK || !slices.Equal(r.Changes, changes) || len(r.Restart) > 0 {
		t.Errorf("status %d, %+v; want the changes %q", status, r, changes)
	}
}

// load sends requests until the returned function is called, which fails if one was not answered.
func (w *reloadWorld) load(t *testing.T, route string) (end func()) {
	t.Helper()
	var stop atomic.Bool
	var answered atomic.Int64
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for !stop.Load() {
				status, _, body := apptest.Send(t, http.MethodPost, w.URL+chat, chatBody(route, `"max_tokens":20`))
				if status != http.StatusOK {
					t.Errorf("status %d: %s", status, body)
					return
				}
				answered.Add(1)
			}
		})
	}
	apptest.Eventually(t, "requests are answered", func() bool { return answered.Load() > 0 })
	return func() {
		before := answered.Load()
		apptest.Eventually(t, "requests are still answered", func() bool { return answered.Load() > before })
		stop.Store(true)
		all.Wait()
		t.Logf("%d requests were answered", answered.Load())
	}
}

func TestAChangedFileIsInForceAndNoRequestIsLost(t *testing.T) {
	w := startReloads(t)
	end := w.load(t, routeUsual)
	w.change(t, reloadFile("m", w.urls(0, 1), reloadRoute), "pools.only: changed")
	apptest.Eventually(t, "the added backend is used", func() bool { return w.sims[1].State().Requests[chat] > 0 })
	w.change(t, reloadFile("m", w.urls(1), reloadRoute), "pools.only: changed")
	w.change(t, reloadFile("m", w.urls(1), "  fresh: {model: m, backends: ["+w.urls(2)+"]}\nroutes:\n  - {model: llama-3, target: fresh}\n  - {model: code, target: only}\n"),
		"pools.fresh: added", "routes.code: added", "routes.llama-3: changed")
	apptest.Eventually(t, "the added pool is used", func() bool { return w.sims[2].State().Requests[chat] > 0 })
	if body, _ := apptest.Post(t, w.URL+chat, chatBody("code", `"max_tokens":3`)); !strings.Contains(body, `"code"`) {
		t.Errorf("the added route answers %s", body)
	}
	_, listed := apptest.Get(t, w.URL+"/v1/models")
	if !strings.Contains(listed, `"id":"code"`) {
		t.Errorf("the added route is not listed: %s", listed)
	}
	w.change(t, reloadFile("m", w.urls(0), reloadRoute), "pools.only: changed", "pools.fresh: removed", "routes.llama-3: changed", "routes.code: removed")
	end()
	if status, _, body := apptest.Send(t, http.MethodPost, w.URL+chat, chatBody("code")); status != http.StatusNotFound {
		t.Errorf("the removed route answers %d: %s", status, body)
	}
}

func TestABudgetInDollarsIsTakenOnceAReloadHasBroughtThePrice(t *testing.T) {
	someKey := strings.Repeat("0a", 32)
	tenants := filepath.Join(t.TempDir(), "tenants.yaml")
	rotateFile(t, tenants, "tenants: [{id: acme, keys_sha256: ["+someKey+"]}]\n")
	file := func(w *reloadWorld, price string) string {
		return conf("tenants_file: %s\npools:\n  only: {model: m, backends: [%s]%s}\n%s", tenants, w.urls(0), price, reloadRoute)
	}
	w := startReloadsOf(t, func(w *reloadWorld) string { return file(w, "") })
	rotateFile(t, tenants, "tenants: [{id: acme, keys_sha256: ["+someKey+"], budgets: [{usd: 5, per: month}]}]\n")
	if status, r := w.reload(t, ""); status == http.StatusOK {
		t.Errorf("without a price: %+v", r)
	}
	rotateFile(t, w.path, file(w, ", usd_per_hour: 4"))
	w.reload(t, "") // files are read in any order
	if status, r := w.reload(t, ""); status != http.StatusOK {
		t.Errorf("status %d, %+v", status, r)
	}
}

func TestABadFileUnderLoadChangesNothingAndIsTold(t *testing.T) {
	w := startReloads(t)
	end := w.load(t, routeUsual)
	for _, bad := range []struct{ text, problem string }{
		{reloadFile("m", w.urls(1), "routes:\n  - {model: llama-3, target: nobody}\n"), `config:7:22: routes[0].target: pool "nobody" is not defined`},
		{reloadFile("m", `"ftp://h"`, reloadRoute), "config:5:31: pools.only.backends[0]: "},
		{"pools: [", "config:1:1: "},
		{"", "config:1:1: "},
	} {
		rotateFile(t, w.path, bad.text)
		for _, query := range []string{"?dry_run=1", ""} {
			status, r := w.reload(t, query)
			if status != http.StatusUnprocessableEntity || len(r.Problems) == 0 || !strings.HasPrefix(r.Problems[0], bad.problem) || len(r.Changes) > 0 {
				t.Errorf("%q: status %d, %+v", query, status, r)
			}
		}
	}
	page := w.Metrics(t)
	if !strings.Contains(page, `foregate_file_last_reload_successful{setting="config"} 0`) {
		t.Errorf("metrics: %s", apptest.Lines(page, "last_reload_successful"))
	}
	if n := w.sims[1].State().Requests[chat]; n != 0 {
		t.Errorf("a backend of a bad file was sent %d requests", n)
	}
	if file := fileOf(w.Status(t), "config"); file.Error == "" {
		t.Error("the status does not tell of the bad file")
	}
	w.change(t, reloadFile("m", w.urls(0, 1), reloadRoute), "pools.only: changed")
	if page := w.Metrics(t); !strings.Contains(page, `foregate_file_last_reload_successful{setting="config"} 1`) {
		t.Errorf("metrics: %s", apptest.Lines(page, "last_reload_successful"))
	}
	end()
}

// fileOf is what a status says of a file.
func fileOf(s gateway.Status, setting string) files.State {
	for _, f := range s.Files {
		if f.Setting == setting {
			return f
		}
	}
	return files.State{}
}

// TestAChangedFileIsNoticedByItself waits for the watch: two looks, two seconds apart.
func TestAChangedFileIsNoticedByItself(t *testing.T) {
	w := startReloads(t)
	began := time.Now()
	rotateFile(t, w.path, reloadFile("m", w.urls(0), reloadRoute+"tenants:\n  - {id: default, rpm: 1}\n"))
	apptest.Within(t, 20*time.Second, "the tenant's limit is in force", func() bool {
		status, _, _ := apptest.Send(t, http.MethodPost, w.URL+chat, chatBody(routeUsual, `"max_tokens":1`))
		return status == http.StatusTooManyRequests
	})
	if file := fileOf(w.Status(t), "config"); file.Changes != 1 || file.Age > time.Since(began).Seconds() {
		t.Errorf("the status says %+v", file)
	}
}

// nowhere names backends by a name that nobody has (RFC 6761).
const nowhere = "dns://nobody.invalid:8000"

// TestAPoolThatFindsNoBackendDoesNotReplaceOneThatHasSome discovers a pool's backends by a name that nobody has.
func TestAPoolThatFindsNoBackendDoesNotReplaceOneThatHasSome(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long") // it waits for the backends
	}
	w := startReloads(t)
	discovered := strings.Replace(reloadFile("m", "", reloadRoute), "backends: []", "discover: "+nowhere, 1)
	rotateFile(t, w.path, discovered)
	status, r := w.reload(t, "")
	if status != http.StatusUnprocessableEntity || len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "config: pools: only found no backend within 3s") {
		t.Errorf("status %d, %+v", status, r)
	}
	apptest.Post(t, w.URL+chat, chatBody(routeUsual, `"max_tokens":3`))
	renamed := strings.ReplaceAll(strings.ReplaceAll(discovered, "only:", "other:"), "target: only", "target: other")
	rotateFile(t, w.path, renamed)
	if status, r := w.reload(t, ""); status != http.StatusUnprocessableEntity || !strings.Contains(fmt.Sprint(r.Problems), "other found no backend") {
		t.Errorf("a route moves to a pool without backends: status %d, %+v", status, r)
	}
	named := strings.Replace(w.sims[2].URL(), "http://127.0.0.1", "dns://localhost", 1)
	rotateFile(t, w.path, strings.Replace(discovered, nowhere, named, 1))
	apptest.Within(t, 20*time.Second, "a pool that finds a backend replaces the old one", func() bool {
		_, body := apptest.Get(t, w.Admin+"/admin/backends")
		return strings.Contains(body, w.sims[2].URL()) && !strings.Contains(body, w.sims[0].URL())
	})
}

func TestAFieldThatAReloadForbidsIsRefusedInABodySeenBefore(t *testing.T) {
	w := startReloads(t)
	allowing := "routes:\n  - {model: llama-3, target: only, allow_fields: [documents]}\n"
	const body = `{"model":"llama-3","max_tokens":4,"messages":[{"role":"user","content":"hi"}],"documents":[{"text":"x"}]}`
	for i, want := range []int{http.StatusBadRequest, http.StatusOK, http.StatusBadRequest, http.StatusOK} {
		if i > 0 {
			rotateFile(t, w.path, reloadFile("m", w.urls(0), []string{reloadRoute, allowing}[i%2]))
			if status, r := w.reload(t, ""); status != http.StatusOK {
				t.Fatalf("status %d, %+v", status, r)
			}
		}
		for range 2 {
			if status, _, got := apptest.Send(t, http.MethodPost, w.URL+"/v1/chat/completions", body); status != want {
				t.Errorf("after %d reloads: status %d, %.200s", i, status, got)
			}
		}
	}
}

func TestStatusTellsOfBackendsThatCannotBeFound(t *testing.T) {
	sim := vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: simSeed, TimeScale: simScale})
	serve := func(discover string) (warned func() bool) {
		r := apptest.Serve(t, conf("pools: {only: {model: m, discover: %q}}\n%s", discover, reloadRoute))
		if discover != nowhere {
			r.Ready(t)
		}
		return func() bool {
			return strings.Contains(strings.Join(r.Status(t).Warnings, "\n"), "pools.only.discover fails: ")
		}
	}
	if serve(strings.Replace(sim.URL(), "http://127.0.0.1", "dns://localhost", 1))() {
		t.Error("the name is good")
	}
	apptest.Eventually(t, "status has a warning", serve(nowhere))
}
