package app_test

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
)

const (
	poolOld = "old"
	poolNew = "new"
)

// canaryWorld has two engines, and a configuration file that a test changes.
type canaryWorld struct {
	*reloadWorld
	old, new *hostedServer
}

// file is a configuration of the route chat with both targets.
func (w *canaryWorld) file(more string) string {
	return conf(`%spools:
  old: {model: old-model, backends: [%q], usd_per_hour: 2, prefill_tokens_per_s: 1000, decode_tokens_per_s: 100}
  new: {model: new-model, backends: [%q], usd_per_hour: 4, prefill_tokens_per_s: 1000, decode_tokens_per_s: 100}
routes:
  - {model: chat, targets: [{pool: old, weight: 60}, {pool: new, weight: 40}]}
`, more, w.old.URL, w.new.URL)
}

func startCanary(t *testing.T, more string) *canaryWorld {
	t.Helper()
	w := &canaryWorld{old: startHosted(t, poolOld), new: startHosted(t, poolNew)}
	w.reloadWorld = &reloadWorld{path: filepath.Join(t.TempDir(), "foregate.yaml")}
	rotateFile(t, w.path, w.file(more))
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
	w := startCanary(t, "")
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

// diverted is the count of requests that the incumbent answered for the canary.
func diverted(t *testing.T, r *apptest.Replica) (n int) {
	t.Helper()
	_, _ = fmt.Sscanf(apptest.Lines(r.Metrics(t), `foregate_canary_diverted_total{`), `foregate_canary_diverted_total{pool="new",route="chat"} %d`, &n)
	return n
}

// shows fails if a diverted request cannot be told from others.
func (w *canaryWorld) showsDiversion(t *testing.T, conversation int) {
	t.Helper()
	before := diverted(t, w.Replica)
	_, head := apptest.Post(t, w.URL+chat, turn(conversation, 2))
	var r struct {
		TargetPool   string `json:"target_pool"`
		DivertedFrom string `json:"diverted_from"`
		Attempts     []struct{ Pool string }
	}
	w.Read(t, "/admin/receipts/"+head.Get("X-Request-Id"), &r)
	if r.TargetPool != poolOld || r.DivertedFrom != poolNew || len(r.Attempts) != 1 || r.Attempts[0].Pool != poolOld {
		t.Errorf("the receipt of a diverted request is %+v", r)
	}
	if got := diverted(t, w.Replica); got != before+1 {
		t.Errorf("%d requests are counted as diverted, before there were %d", got, before)
	}
}

// TestADeadCanaryIsNoOutage kills the engine of the canary, and starts it again at the same address.
func TestADeadCanaryIsNoOutage(t *testing.T) {
	w := startCanary(t, "")
	fresh := w.of(t, poolNew, 0)
	address := w.new.Listener.Addr().String()
	w.new.CloseClientConnections()
	w.new.Close()
	failed, began := 0, time.Now()
	apptest.Eventually(t, "the incumbent answers", func() bool {
		got := answerer(t, w.Replica, turn(fresh, 1))
		if got == "" {
			failed++
		}
		return got == poolOld
	})
	t.Logf("%d requests failed in the %v before the dead canary was noticed", failed, time.Since(began))
	for c := range 200 {
		if got := answerer(t, w.Replica, turn(c, 1, fmt.Sprintf(`"stream":%t`, c%2 == 0))); got != poolOld {
			t.Fatalf("%q answers conversation %d", got, c)
		}
	}
	w.showsDiversion(t, fresh)
	if !slices.ContainsFunc(w.Status(t).Targets[0].Targets, func(v gateway.TargetView) bool { return v.Pool == poolNew && v.Diverted }) {
		t.Error("the status does not show it")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("somebody else has %s now: %v", address, err)
	}
	again := &httptest.Server{Listener: listener, Config: &http.Server{Handler: w.new}}
	again.Start()
	t.Cleanup(again.Close)
	apptest.Eventually(t, "the canary answers again", func() bool { return answerer(t, w.Replica, turn(fresh, 3)) == poolNew })
}
