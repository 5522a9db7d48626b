package app_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// tenantText is a file of tenants in which one has these keys.
func tenantText(id string, keys ...string) string {
	var sums []string
	for _, k := range keys {
		sums = append(sums, fmt.Sprintf("%x", sha256.Sum256([]byte(k))))
	}
	return fmt.Sprintf("tenants:\n  - {id: %s, keys_sha256: [%s]}\n", id, strings.Join(sums, ", "))
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

// TestAKeyRotatesUnderLoad has two clients ask all the while, each with the key that counts by the file at that
// time; none is refused. A broken file changes nothing, and is shown.
func TestAKeyRotatesUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	sim := vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 20})
	path := filepath.Join(t.TempDir(), "tenants.yaml")
	rotateFile(t, path, tenantText("acme", "sk-old"))
	p := apptest.Serve(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ntenants_file: %q\npools: {only: {model: m, backends: [%q]}}\nroutes: [{model: llama-3, target: only}]\ndrain: {delay: 0s, grace: 1s}\n", path, sim.URL()))
	p.Ready(t)
	ask := func(key string) int {
		status, _, _ := apptest.Send(t, http.MethodPost, p.URL+chat, chatBody("llama-3", `"max_tokens":5`), "Authorization", "Bearer "+key)
		return status
	}
	var (
		clients sync.WaitGroup
		mu      sync.Mutex
		key     = "sk-old"
		stop    = make(chan struct{})
		lost    = map[int]int{}
	)
	for range 2 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				k := key
				mu.Unlock()
				if status := ask(k); status != http.StatusOK {
					mu.Lock()
					lost[status]++
					mu.Unlock()
				}
			}
		})
	}
	inForce := func(what string, ok func() bool) {
		t.Helper()
		began := time.Now()
		apptest.Within(t, 30*time.Second, what, ok)
		t.Logf("%s after %v", what, time.Since(began).Round(time.Millisecond))
	}
	rotateFile(t, path, tenantText("acme", "sk-old", "sk-new"))
	inForce("the new key counts", func() bool { return ask("sk-new") == http.StatusOK })
	mu.Lock()
	key = "sk-new"
	mu.Unlock()
	rotateFile(t, path, "tenants: [{id: acme, keys_sha256: [broken]}]")
	inForce("the broken file is shown", func() bool {
		s := p.Status(t)
		return len(s.Files) == 1 && strings.HasPrefix(s.Files[0].Error, "tenants_file:1:36: tenants[0].keys_sha256[0]: want the 64 hex digits")
	})
	if m := p.Metrics(t); !strings.Contains(m, `foregate_file_last_reload_successful{setting="tenants_file"} 0`) {
		t.Error("no metric tells of the broken file")
	}
	if ask("sk-old") != http.StatusOK || ask("sk-new") != http.StatusOK {
		t.Error("the last good content is not in force")
	}
	rotateFile(t, path, tenantText("acme", "sk-new"))
	inForce("the old key is refused", func() bool { return ask("sk-old") == http.StatusUnauthorized })
	close(stop)
	clients.Wait()
	if len(lost) > 0 {
		t.Errorf("requests were lost, by status: %v", lost)
	}
	var told struct{ Tenants []struct{ Tenant string } }
	if _, body := apptest.Get(t, p.Admin+"/admin/tenants"); json.Unmarshal([]byte(body), &told) != nil || len(told.Tenants) != 1 || told.Tenants[0].Tenant != "acme" {
		t.Errorf("/admin/tenants: %+v", told)
	}
}
