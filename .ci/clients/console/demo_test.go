package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/clients/programs"
)

// demoWorld is a running `foregate demo`.
type demoWorld struct {
	t testing.TB
	*programs.Demo
}

// startDemo starts one that answers.
func startDemo(t testing.TB, args ...string) *demoWorld {
	t.Helper()
	d := &demoWorld{t, programs.StartDemo(t, args...)}
	programs.Within(t, programs.StartWait, "requests are answered", func() bool {
		status, _ := d.send("normal")
		return status == http.StatusOK
	})
	return d
}

// token is what signs in.
func (d *demoWorld) token() string {
	_, token, _ := strings.Cut(d.Console, "#token=")
	return token
}

// send sends a request that nobody has sent before, and returns its status and why it was shed.
func (d *demoWorld) send(priority string) (status int, shed string) {
	d.t.Helper()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"Say %d."}]}`, "llama-3", time.Now().UnixNano())
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.Requests, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Priority", priority)
	resp, err := programs.Client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close() // it was read to its end
	return resp.StatusCode, resp.Header.Get("X-Shed-Reason")
}

// ask reads a JSON answer of the admin listener.
func (d *demoWorld) ask(path string, out any) {
	d.t.Helper()
	status, text := programs.Get(d.t, d.Admin+path)
	if status != http.StatusOK {
		d.t.Fatalf("%s: status %d: %s", path, status, text)
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		d.t.Fatalf("%s: %v", path, err)
	}
}

// backendState is the state of a backend as the admin listener tells it.
func (d *demoWorld) backendState(pool, id string) string {
	d.t.Helper()
	var told struct {
		Pools []struct {
			Pool     string
			Backends []struct{ ID, State string }
		}
	}
	d.ask("/admin/backends", &told)
	for _, p := range told.Pools {
		for _, b := range p.Backends {
			if p.Pool == pool && b.ID == id {
				return b.State
			}
		}
	}
	return ""
}

// receiptTold is what a test reads of a receipt.
type receiptTold struct {
	ID   string
	Tier string
	Code int
	MS   struct {
		Began         float64 `json:"cascade_start"`
		Cache, Limits float64
		Total         float64
	}

	Verdict *struct {
		AtMS float64 `json:"at_ms"`
	}
	Attempts []struct {
		Role string
		AtMS float64 `json:"at_ms"`
		MS   float64 `json:"ms"`
	}
	Checks []struct {
		AtMS float64 `json:"at_ms"`
		MS   float64 `json:"ms"`
	}
}

// receiptOf waits for a receipt of a request that a tier answered, and that is no older than the
// page's list.
func (d *demoWorld) receiptOf(tiers ...string) (r receiptTold) {
	d.t.Helper()
	programs.Within(d.t, pageWait, fmt.Sprintf("a request is answered by one of %v", tiers), func() bool {
		_, text := programs.Get(d.t, d.Admin+"/admin/receipts?n=100")
		for line := range strings.Lines(text) {
			var next receiptTold
			if json.Unmarshal(bytes.TrimSpace([]byte(line)), &next) == nil && slices.Contains(tiers, next.Tier) && next.Code == http.StatusOK && len(next.Attempts) > 0 && len(next.Attempts) >= len(r.Attempts) {
				r = next
			}
		}
		return r.ID != ""
	})
	return r
}
