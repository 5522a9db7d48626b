package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/evidence/evidencetest"
	"github.com/foregate/foregate/tiers/risk"
)

// fleetRule is the promise of these fleets: one that 16 good audits of a threshold certify.
var fleetRule = risk.Rule{MaxWrongRate: .3, ErrorProbability: .05, LeaseAudits: 3000, DriftRunLength: 1000}

// riskQuick are settings by which everything is audited, and at once.
var riskQuick = []string{
	"speculation.mode", "risk", "risk.warmup", "shadow", "risk.max_wrong_rate", "0.3", "risk.audit_rate", "1", "economy.guard", "off",
	"risk.lease_audits", "3000", "risk.cold_start_rate", "1", "risk.cold_start_audits_per_minute", "100000", "risk.audit_budget", "0",
	"risk.max_concurrent_audits", "16", "speculation.max_concurrent_scores", "16", "timeout.target_first_token", "400s", "cache.mode", "off",
}

// riskSlow is for the processes of a race build on a machine that does other things, too.
const riskSlow = 30 * time.Second

// riskFleet is replicas that share a promise, a draft backend that is the target's
// equal, and a target.
type riskFleet struct {
	redis         *redistest.Server
	replicas      []*apptest.Replica
	draft, target *vllmsim.Server
	eyes          *evidencetest.Audits // the test's own look at the evidence
	more          string               // of the configuration
	who           []string             // headers of those who ask
}

func newRiskFleet(t *testing.T, replicas int, more string, settings ...string) *riskFleet {
	t.Helper()
	w := &riskFleet{redis: redistest.Start(t), more: more}
	w.draft = vllmsim.Start(t, vllmsim.Options{Model: simDraft, Seed: simSeed, TimeScale: simScale})
	w.target = vllmsim.Start(t, vllmsim.Options{Model: simTarget, Seed: simSeed, TimeScale: simScale})
	w.set(t, slices.Concat(riskQuick, settings)...)
	w.eyes = evidencetest.New(nil)
	w.eyes.Book = evidence.New(evidence.Options{Redis: w.redis.Client, Rule: func(string) risk.Rule { return fleetRule }})
	for range replicas {
		w.join(t)
	}
	apptest.Within(t, riskSlow, "both pools were probed by all", func() bool {
		return w.all(func(p *apptest.Replica) bool {
			return strings.Count(p.Metrics(t), "\nforegate_probe_age_seconds{") == 2
		})
	})
	apptest.Within(t, riskSlow, "the replicas share with each other", func() bool {
		return w.all(func(p *apptest.Replica) bool { return shares(t, p, replicas) })
	})
	return w
}

// join starts a replica.
func (w *riskFleet) join(t *testing.T) *apptest.Replica {
	t.Helper()
	p := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools:
  small: {model: %s, backends: [%q]}
  large: {model: %s, backends: [%q]}
routes: [{model: %s, draft: small, target: large, same_tokenizer: true}]
drain: {delay: 0s, grace: 10s}
%s`, w.redis.Addr, simDraft, w.draft.URL(), simTarget, w.target.URL(), routeUsual, w.more))
	w.replicas = append(w.replicas, p)
	return p
}

func (w *riskFleet) set(t *testing.T, pairs ...string) {
	t.Helper()
	if err := w.redis.Client.HSet(t.Context(), settings.Key, pairs).Err(); err != nil {
		t.Fatal(err)
	}
}

// riskReply is what became of a request.
type riskReply struct {
	replica                *apptest.Replica
	status                 int
	verdict, reason, grant string // of X-Acceptance; grant is the policy
	cached, text           string
	err                    error
}

func (r riskReply) String() string {
	return fmt.Sprintf("status %d, %s;reason=%s;policy=%s, %v: %.120s", r.status, r.verdict, r.reason, r.grant, r.err, r.text)
}

// accepted reports whether a draft was served by a certified threshold.
func (r riskReply) accepted() bool { return r.verdict == "accepted" }

// bypassed reports whether the target answered because nothing is certified.
func (r riskReply) bypassed() bool { return r.verdict == "bypassed" && r.reason == "uncertified" }

// riskAsk sends one request for a short whole answer. headers are names and values.
func riskAsk(ctx context.Context, p *apptest.Replica, text string, headers ...string) riskReply {
	r := riskReply{replica: p}
	body, _ := json.Marshal(map[string]any{ // strings and numbers
		"model": routeUsual, "max_tokens": 8, "temperature": 0, "messages": []any{map[string]any{"role": "user", "content": text}},
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		r.err = err
		return r
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := apptest.Client.Do(req)
	if err != nil {
		r.err = err
		return r
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	answer, err := io.ReadAll(resp.Body)
	r.status, r.text, r.err = resp.StatusCode, string(answer), err
	r.cached = resp.Header.Get("X-Cache")
	for i, part := range strings.Split(resp.Header.Get("X-Acceptance"), ";") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case i == 0:
			r.verdict = part
		case name == "reason":
			r.reason = value
		case name == "policy":
			r.grant = value
		}
	}
	return r
}

// riskPrompt is all that is asked where one threshold will do: all drafts score the same.
const riskPrompt = "Name three rivers."

// each asks every replica once, and fails the test when a client gets no answer.
func (w *riskFleet) each(t *testing.T, ok func(r riskReply) bool) bool {
	t.Helper()
	all := true
	for _, p := range w.replicas {
		r := riskAsk(t.Context(), p, riskPrompt, w.who...)
		if r.status != http.StatusOK || r.err != nil {
			t.Fatalf("a client got no answer: %v\n%s", r, p.Log.String())
		}
		all = ok(r) && all
	}
	return all
}

// until asks all replicas over and over until all answer so; it tells how long that took, and
// how long the slowest round did.
func (w *riskFleet) until(t *testing.T, what string, ok func(r riskReply) bool) (took, slowest time.Duration) {
	t.Helper()
	began := time.Now()
	apptest.Within(t, riskSlow, what, func() bool {
		look := time.Now()
		all := w.each(t, ok)
		slowest = max(slowest, time.Since(look))
		return all
	})
	return time.Since(began), slowest
}

// riskLoad asks replicas in the background.
type riskLoad struct {
	stopping atomic.Bool
	clients  sync.WaitGroup

	mu      sync.Mutex
	failed  []riskReply
	replies int
	drafts  int // of these, accepted
}

// thinks is how long a client waits from one answer to its next request: who never waits has the
// processors to himself, and the promises are about time.
const thinks = 10 * time.Millisecond

// load runs so many clients on each of the replicas until stop, or the test's end.
func (w *riskFleet) load(t *testing.T, clients int, prompts int, replicas ...*apptest.Replica) *riskLoad {
	t.Helper()
	l := &riskLoad{}
	for i, p := range replicas {
		for c := range clients {
			l.clients.Go(func() {
				for n := i + c; !l.stopping.Load(); n++ {
					l.note(riskAsk(context.WithoutCancel(t.Context()), p, promptOf(n%prompts)))
					<-time.After(thinks)
				}
			})
		}
	}
	t.Cleanup(func() { l.stop() })
	return l
}

// promptOf is the n-th prompt, the first that of all replicas.
func promptOf(n int) string {
	if n == 0 {
		return riskPrompt
	}
	return fmt.Sprintf("Name %d lakes.", n)
}

func (l *riskLoad) note(r riskReply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replies++
	if r.accepted() {
		l.drafts++
	}
	if r.status != http.StatusOK || r.err != nil {
		l.failed = append(l.failed, r)
	}
}

// stop waits for the requests under way.
func (l *riskLoad) stop() *riskLoad {
	l.stopping.Store(true)
	l.clients.Wait()
	return l
}

// unharmed fails the test where a client got no answer.
func (l *riskLoad) unharmed(t *testing.T) {
	t.Helper()
	l.stop()
	t.Logf("%d requests, %d answered by drafts", l.replies, l.drafts)
	if len(l.failed) > 0 {
		t.Errorf("%d of %d requests failed, such as %v", len(l.failed), l.replies, l.failed[0])
	}
}

// key waits for the kind of request that is asked.
func (w *riskFleet) key(t *testing.T) (k risk.Key) {
	apptest.Within(t, riskSlow, "a draft was audited", func() bool {
		known := w.known(t)
		if len(known) > 0 {
			k = known[0].Key
		}
		return len(known) > 0
	})
	return k
}

func (w *riskFleet) known(t *testing.T) []evidence.KeyState {
	t.Helper()
	known, err := w.eyes.Book.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return known
}

// state is what Redis holds of a key.
func (w *riskFleet) state(t *testing.T, k risk.Key) *risk.State {
	t.Helper()
	for _, known := range w.known(t) {
		if known.Key == k {
			return &known.State
		}
	}
	return &risk.State{}
}

// tickets are the audits under way.
func (w *riskFleet) tickets(t *testing.T, k risk.Key) (out []string) {
	t.Helper()
	fields, err := w.redis.Client.HKeys(t.Context(), "foregate:{fg}:risk3:"+k.String()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		if strings.HasPrefix(f, "t:") {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return out
}

// idle waits until nothing is under way: no engine works, and no audit has begun or ended for
// longer than one that was refused waits for its next try.
func (w *riskFleet) idle(t *testing.T, k risk.Key) {
	t.Helper()
	const still = 600 * time.Millisecond
	var opened, closed int
	since := time.Now()
	apptest.Within(t, riskSlow, "nothing is under way", func() bool {
		o, c := w.booked(t, k)
		if o != opened || c != closed || w.draft.State().Running+w.target.State().Running+w.target.State().Waiting > 0 {
			since = time.Now()
		}
		opened, closed = o, c
		return time.Since(since) > still
	})
}

// quiet waits until nothing is under way; no audit may be left but those that were lost.
func (w *riskFleet) quiet(t *testing.T, k risk.Key, lost ...string) {
	t.Helper()
	w.idle(t, k)
	if left := w.tickets(t, k); !slices.Equal(left, lost) {
		t.Errorf("of these audits none was to be left but %v: %v", lost, left)
	}
}

// booked counts the audits of a key in the log, and checks that none was opened or closed twice.
func (w *riskFleet) booked(t *testing.T, k risk.Key) (opened, closed int) {
	t.Helper()
	entries, err := w.redis.Client.XRange(t.Context(), "foregate:{fg}:risk3:log", "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, e := range entries {
		if e.Values["key"] != k.String() {
			continue
		}
		for _, what := range []string{"opened", "closed"} {
			ticket, ok := e.Values[what].(string)
			if !ok {
				continue
			}
			if times[what+ticket]++; times[what+ticket] > 1 {
				t.Errorf("%s was %s twice", ticket, what)
			}
			if what == "opened" {
				opened++
			} else {
				closed++
			}
		}
	}
	return opened, closed
}

// still is the state of a key and what the log says of it at the same moment.
func (w *riskFleet) still(t *testing.T, k risk.Key) (s *risk.State, opened, closed int) {
	t.Helper()
	apptest.Eventually(t, "a moment without an audit", func() bool {
		opened, closed = w.booked(t, k)
		s = w.state(t, k)
		o, c := w.booked(t, k)
		return o == opened && c == closed
	})
	return s, opened, closed
}

// sound checks that the counts of a key with one epoch are those of the log: all that was opened
// is in it, and what was not closed is bad.
func (w *riskFleet) sound(t *testing.T, k risk.Key) risk.Epoch {
	t.Helper()
	s, opened, closed := w.still(t, k)
	if len(s.Epochs) != 1 {
		t.Fatalf("%d epochs live, want one", len(s.Epochs))
	}
	e := s.Epochs[0]
	pending := opened - closed
	if e.Audits != opened || s.Alarm != 0 {
		t.Errorf("%d audits count, %d were opened; alarm %d", e.Audits, opened, s.Alarm)
	}
	for j := range s.Grid {
		if e.O[j] < 0 || e.K[j] < e.O[j] || e.N[j] < e.K[j] {
			t.Errorf("index %d has %d audits, %d bad, %d not closed", j+1, e.N[j], e.K[j], e.O[j])
		}
	}
	if maximum := slices.Max(e.O[:]); maximum > pending || len(s.Grid) == 1 && maximum != pending {
		t.Errorf("%d are not closed, %d are under way", maximum, pending)
	}
	return e
}
