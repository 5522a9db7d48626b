package app_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
)

const (
	poolOld = "old"
	poolNew = "new"
)

// namedEngine is an engine whose answers are its name.
type namedEngine struct {
	*httptest.Server
	name  string
	broke atomic.Bool                   // every POST is answered with 500
	held  atomic.Int64                  // requests that wait for gate
	asked atomic.Int64                  // chats and embeddings
	gate  atomic.Pointer[chan struct{}] // nil: requests do not wait
}

func startNamed(t *testing.T, name string) *namedEngine {
	t.Helper()
	e := &namedEngine{name: name}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

// ServeHTTP implements [http.Handler].
func (e *namedEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		return
	}
	if r.Method == http.MethodPost && e.broke.Load() {
		http.Error(w, `{"error":{"message":"broken"}}`, http.StatusInternalServerError)
		return
	}
	if r.URL.Path != chat && r.URL.Path != embeddings {
		http.NotFound(w, r)
		return
	}
	e.asked.Add(1)
	var body struct{ Stream bool }
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &body)
	if gate := e.gate.Load(); gate != nil && strings.Contains(string(raw), "conversation ") { // not a question of the probe
		e.held.Add(1)
		<-*gate
	}
	switch {
	case r.URL.Path == embeddings:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"object":"list","by":%q,"data":[],"usage":{"prompt_tokens":3,"total_tokens":3}}`, e.name)
	case body.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":%q},\"finish_reason\":null}]}\n\n", e.name)
		_, _ = io.WriteString(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`, e.name)
	}
}

// embeddings is the path of embeddings, which is passed through.
const embeddings = "/v1/embeddings"

// canaryWorld has two engines, and a configuration file that a test changes.
type canaryWorld struct {
	*reloadWorld
	old, new *namedEngine
	more     string // top-level fields of the file
}

// file is a configuration of the route chat with these targets, or what else the route has.
func (w *canaryWorld) file(route string) string {
	return fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
drain: {delay: 0s, grace: 5s}
%spools:
  old: {model: old-model, backends: [%q], usd_per_hour: 2, prefill_tokens_per_s: 1000, decode_tokens_per_s: 100}
  new: {model: new-model, backends: [%q], usd_per_hour: 4, prefill_tokens_per_s: 1000, decode_tokens_per_s: 100}
routes:
  - {model: chat, %s}
`, w.more, w.old.URL, w.new.URL, route)
}

// targets are the fields of a route with the pools old and new.
func targets(old, fresh float64) string {
	return fmt.Sprintf("targets: [{pool: old, weight: %g}, {pool: new, weight: %g}]", old, fresh)
}

func startCanary(t *testing.T, route, more string) *canaryWorld {
	t.Helper()
	w := &canaryWorld{old: startNamed(t, poolOld), new: startNamed(t, poolNew), more: more}
	w.reloadWorld = &reloadWorld{path: filepath.Join(t.TempDir(), "foregate.yaml")}
	rotateFile(t, w.path, w.file(route))
	w.Replica = apptest.ServeFile(t, w.path)
	w.reached(t, w.Replica)
	return w
}

// reached waits until a replica takes requests for all pools.
func (w *canaryWorld) reached(t *testing.T, r *apptest.Replica) {
	t.Helper()
	apptest.Eventually(t, "all targets take requests", func() bool {
		for _, p := range r.Status(t).Pools {
			for _, b := range p.Backends {
				if b.State != "up" || b.Why != "" && strings.Contains(b.Why, "answer") {
					return false
				}
			}
		}
		status, _ := apptest.Get(t, r.URL+"/readyz")
		return status == http.StatusOK && !slices.ContainsFunc(r.Status(t).Targets[0].Targets, func(v gateway.TargetView) bool { return v.Diverted })
	})
}

// turn is the body of a turn of a conversation: its first message, and what was said since.
func turn(conversation, n int, members ...string) string {
	messages := fmt.Sprintf(`{"role":"user","content":"conversation %d"}`, conversation)
	for i := range n {
		messages += fmt.Sprintf(`,{"role":"assistant","content":"a"},{"role":"user","content":"turn %d"}`, i)
	}
	return `{"model":"chat","messages":[` + messages + `]` + strings.Join(append([]string{""}, members...), ",") + `}`
}

// answerer is the pool that answered, "" if the request failed.
func answerer(t testing.TB, r *apptest.Replica, body string, headers ...string) string {
	t.Helper()
	status, _, text := apptest.Send(t, http.MethodPost, r.URL+chat, body, headers...)
	for _, name := range []string{poolOld, poolNew} {
		if status == http.StatusOK && strings.Contains(text, `"content":"`+name+`"`) {
			return name
		}
	}
	t.Logf("status %d: %s", status, text)
	return ""
}

// of returns the first conversation from i on that a pool answers.
func (w *canaryWorld) of(t *testing.T, pool string, i int) int {
	t.Helper()
	for ; i < 10_000; i++ {
		if answerer(t, w.Replica, turn(i, 0)) == pool {
			return i
		}
	}
	t.Fatalf("pool %s answers no conversation", pool)
	return 0
}

func TestACanaryKeepsItsConversationsOnAllReplicasAndAfterARestart(t *testing.T) {
	w := startCanary(t, targets(60, 40), "")
	other := apptest.ServeFile(t, w.path)
	w.reached(t, other)
	const conversations, turns = 30, 4
	var first [conversations]string
	seen := map[string]int{}
	ask := func(replicas ...*apptest.Replica) {
		for c := range conversations {
			for n := range turns {
				for i, r := range replicas {
					got := answerer(t, r, turn(c, n, fmt.Sprintf(`"stream":%t`, (n+i)%2 == 0)))
					first[c] = cmp.Or(first[c], got)
					if got != first[c] || got == "" {
						t.Fatalf("conversation %d, turn %d, replica %d: %q answers, before it was %q", c, n, i, got, first[c])
					}
				}
			}
			seen[first[c]]++
		}
	}
	ask(w.Replica, other)
	if len(seen) != 2 {
		t.Fatalf("the pools answer %v conversations", seen)
	}
	w.Stop(t)
	again := apptest.ServeFile(t, w.path)
	w.reached(t, again)
	ask(again)
}

// TestACanarysReceiptHasItsPricesAndItsPool reads the receipts of both targets, and of what is passed through.
func TestACanarysReceiptHasItsPricesAndItsPool(t *testing.T) {
	w := startCanary(t, targets(50, 50), "passthrough: [/v1/embeddings]\n")
	for pool, price := range map[string]float64{poolOld: 2 / 3600.0 / 100, poolNew: 4 / 3600.0 / 100} {
		body := turn(w.of(t, pool, 0), 1)
		_, head := apptest.Post(t, w.URL+chat, body)
		var r struct {
			TargetPool   string `json:"target_pool"`
			DivertedFrom string `json:"diverted_from"`
			Prices       struct {
				Decode float64 `json:"target_decode"`
			}
			Attempts []struct{ Pool string }
		}
		w.Read(t, "/admin/receipts/"+head.Get("X-Request-Id"), &r)
		if r.TargetPool != pool || r.DivertedFrom != "" || len(r.Attempts) != 1 || r.Attempts[0].Pool != pool || math.Abs(r.Prices.Decode/price-1) > 1e-9 {
			t.Errorf("a conversation of %s at %g USD a token has the receipt %+v", pool, price, r)
		}
	}
	for i := range 40 { // each would be another conversation
		body, _ := apptest.Post(t, w.URL+embeddings, fmt.Sprintf(`{"model":"chat","input":"text %d"}`, i))
		if !strings.Contains(body, `"by":"old"`) {
			t.Fatalf("embeddings of the canary were mixed in: %s", body)
		}
	}
}
