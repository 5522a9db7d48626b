package evidence

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/risk"
)

// chat is the key of most tests.
var chat = risk.Key{Route: "org/chat", TrafficClass: "to_1k.0a1b2c3d"}

// plain is a rule by which little evidence goes far.
var plain = risk.Rule{MaxDisagreement: .2, ErrorProbability: .05, LeaseAudits: 400, DriftRunLength: 500}

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}

// replica is a book in a test, whose rule and clock the test moves.
type replica struct {
	*Store
	t    testing.TB
	log  *lines
	mu   sync.Mutex
	rule risk.Rule     // by which audits are
	skew time.Duration // ahead of the clock
	raw  *redis.Client
}

// join makes a replica that has the patience of a busy machine. An empty address is none: all is
// in the process.
func join(t testing.TB, addr string) *replica {
	t.Helper()
	o := redistest.Background(addr)
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = 20*time.Second, 20*time.Second, 20*time.Second, 20*time.Second
	r := joinBy(t, o)
	r.patience = 20 * time.Second
	return r
}

// joinBy makes a replica that has a client's and the package's own patience.
func joinBy(t testing.TB, client *redis.Options) *replica {
	t.Helper()
	r := &replica{t: t, log: &lines{}, rule: plain}
	o := Options{
		Rule:   func(string) risk.Rule { r.mu.Lock(); defer r.mu.Unlock(); return r.rule },
		Stale:  func(string) time.Duration { return time.Minute },
		Logger: zerolog.New(r.log),
		Now:    func() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return time.Now().Add(r.skew) },
	}
	if client.Addr != "" {
		r.raw = redis.NewClient(client)
		t.Cleanup(func() { _ = r.raw.Close() })
		o.Redis = r.raw
	}
	r.Store = New(o)
	return r
}

// by sets the rule.
func (r *replica) by(rule risk.Rule) { r.mu.Lock(); defer r.mu.Unlock(); r.rule = rule }

// later moves the clock.
func (r *replica) later(d time.Duration) { r.mu.Lock(); defer r.mu.Unlock(); r.skew += d }

// open opens an audit by the view of the moment.
func (r *replica) open(ticket string, score float64) risk.OpenResult {
	r.t.Helper()
	fate, err := r.Open(r.t.Context(), risk.Audit{Decision: r.View(chat).Decide(chat, risk.Sampling{Rate: 1}, 0), Ticket: ticket, Score: score, Features: []float64{score, 1}, Tokens: 7})
	if err != nil {
		r.t.Fatalf("open %s: %v", ticket, err)
	}
	return fate
}

func (r *replica) close(ticket string, bad bool) {
	r.t.Helper()
	if err := r.Close(r.t.Context(), chat, ticket, bad); err != nil {
		r.t.Fatalf("close %s: %v", ticket, err)
	}
}

// teach places the grid at 0.05, 0.1, … 0.95.
func (r *replica) teach() {
	r.t.Helper()
	for i := range risk.GridScores {
		if fate := r.open(fmt.Sprint("learn-", i), float64(i+1)/risk.GridScores); fate != risk.Learned {
			r.t.Fatalf("score %d is %s", i, fate)
		}
	}
}

// audit opens and closes so many audits of a score; the every-th is bad, 0 is none.
func (r *replica) audit(n, every int, score float64) {
	r.t.Helper()
	for i := range n {
		ticket := fmt.Sprintf("a-%d-%d", i, rand.Uint64())
		if fate := r.open(ticket, score); fate != risk.Opened {
			r.t.Fatalf("audit %d is %s", i, fate)
		}
		r.close(ticket, every > 0 && i%every == every-1)
	}
}

// certify teaches and audits until something is served.
func (r *replica) certify() {
	r.t.Helper()
	r.teach()
	r.audit(60, 0, 1)
	if v := r.View(chat); !v.Serves() {
		r.t.Fatalf("nothing is served: %+v", v)
	}
}

// fold is what the replica knows of the route, after it has read the log.
func (r *replica) fold() *risk.Fold {
	r.t.Helper()
	if err := r.Tick(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return r.routes[chat.Route].fold
}

// state is all that is known of the key.
func (r *replica) state() risk.State {
	r.t.Helper()
	if k := r.fold().Kinds[chat.TrafficClass]; k != nil {
		return *k
	}
	return risk.State{}
}

// copied is the same as it is now, without the open audits.
func (r *replica) copied() risk.State { s := r.state(); return s.Copy() }

func (r *replica) counted(label string) int {
	return int(testutil.ToFloat64(r.metrics.audits.WithLabelValues(chat.Route, label)))
}

// differ is how two states differ.
func differ(want, got risk.State) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

// sound fails where a state says what no audits can.
func sound(t testing.TB, s risk.State) {
	t.Helper()
	certified, open := 0, map[int64][16]int{}
	for _, b := range s.Tickets {
		for _, id := range b.Epochs {
			n := open[id]
			for j := b.First - 1; j < b.Hi; j++ {
				n[j]++
			}
			open[id] = n
		}
	}
	for _, e := range s.Epochs {
		certified = max(certified, e.Cert)
		for j, n := range e.N {
			if e.O[j] < open[e.ID][j] || e.K[j] < e.O[j] || n < e.K[j] || e.Audits < 0 {
				t.Fatalf("%d open, %d bad, %d audits; %d tickets", e.O[j], e.K[j], n, open[e.ID][j])
			}
		}
	}
	w := &s.Warmup
	if s.Op > certified || certified > len(s.Grid) || len(s.Epochs) > 2 || w.Open < 0 || w.Bad < w.Open || w.Audits < w.Bad {
		t.Fatalf("%+v", s)
	}
}

// stores runs a test on a real Redis and on none.
func stores(t *testing.T, test func(t *testing.T, r *replica)) {
	t.Run("redis", func(t *testing.T) { test(t, join(t, redistest.Start(t).Addr)) })
	t.Run("process", func(t *testing.T) { test(t, join(t, "")) })
}
