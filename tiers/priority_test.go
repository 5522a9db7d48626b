package tiers

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// recordsPriority forwards to a simulator and notes the priorities that it was told.
type recordsPriority struct {
	url string
	mu  sync.Mutex
	got []string // "" is none
}

func newRecordsPriority(t *testing.T, sim *vllmsim.Server) *recordsPriority {
	t.Helper()
	r := &recordsPriority{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var told struct{ Priority json.RawMessage }
		_ = json.Unmarshal(body, &told) // what is no JSON tells none
		r.mu.Lock()
		r.got = append(r.got, string(told.Priority))
		r.mu.Unlock()
		out, err := http.Post(sim.URL()+req.URL.Path, "application/json", bytes.NewReader(body))
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = out.Body.Close() }()
		w.Header().Set("Content-Type", out.Header.Get("Content-Type"))
		w.WriteHeader(out.StatusCode)
		_, _ = io.Copy(w, out.Body)
	}))
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

func TestOnlyEnginesThatScheduleByPriorityAreToldTheClass(t *testing.T) {
	sim := vllmsim.Start(t, vllmsim.Options{Model: "big", Policy: "priority", TimeScale: testScale})
	for _, honours := range []bool{true, false} {
		backend := newRecordsPriority(t, sim)
		p, err := pool.New(pool.Options{Name: "targets", Model: "big", Backends: []string{backend.url}, Priorities: honours})
		if err != nil {
			t.Fatal(err)
		}
		c := newTestCascade(t, Route{Model: "m", Target: p, Config: testConfig})
		backend.got = nil // of the model's card
		for _, class := range []int8{0, 1, 2} {
			req, err := openai.Scan(openai.Chat, []byte(`{"model":"m","priority":-9223372036854775808,"max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`), openai.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := answerBy(t.Context(), c, arrival{Body: req, ID: "x", Class: class}, &collector{}); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"10", "0", "-10"} // vLLM takes the lower number first
		if !honours {
			want = []string{"", "", ""}
		}
		for i := range want {
			if backend.got[i] != want[i] {
				t.Errorf("priorities honoured %v, class %d: told %q, want %q", honours, i, backend.got[i], want[i])
			}
		}
	}
}
