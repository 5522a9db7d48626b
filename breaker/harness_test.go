package breaker

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/world"
)

var (
	errBad         = errors.New("connection reset")
	errBusy        = errors.New("429")
	errUnreachable = errors.New("connection refused")
)

// classify is what a caller might bring.
func classify(err error) Outcome {
	switch {
	case errors.Is(err, errBusy):
		return Backpressure
	case errors.Is(err, errUnreachable):
		return Unreachable
	case errors.Is(err, context.Canceled):
		return Neutral
	case err != nil:
		return Fault
	}
	return Success
}

// usual is the configuration by default.
var usual = Config{Failures: 5, Open: 10 * time.Second}

// set is a Set of one replica that nobody probes for, unless the options say so.
func set(o Options) *Set {
	o.Classify, o.World, o.Draw = classify, world.System{}, rand.Float64
	if o.Config == nil {
		o.Config = func() Config { return usual }
	}
	if o.Wake == nil {
		o.Wake, o.Mine = func() {}, func(string, string) bool { return true }
	}
	return New(o)
}

// site is where the backends are: what is wrong with each, and who probed them.
type site struct {
	mu     sync.Mutex
	wrong  map[string]error // by backend
	probes []probe
}

type probe struct {
	by string
	at time.Time
}

func (s *site) set(backend string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrong == nil {
		s.wrong = map[string]error{}
	}
	s.wrong[backend] = err
}

func (s *site) probe(by, backend string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes = append(s.probes, probe{by, time.Now()})
	return s.wrong[backend]
}

func (s *site) seen() []probe {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]probe(nil), s.probes...)
}

// exchange is where replicas leave their texts, and how it treats them.
type exchange struct {
	mu      sync.Mutex
	rng     *rand.Rand
	texts   map[string]left
	live    []string // ids of the replicas
	away    bool     // nothing is told or heard
	loss    float64  // share of the exchanges that fail
	delay   time.Duration
	longest int
}

type left struct {
	text string
	at   time.Time
}

const tick = 500 * time.Millisecond

// pass is how long a text takes: any time up to the delay, so that texts overtake each other.
func (e *exchange) pass() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.delay == 0 {
		return 0
	}
	return time.Duration(e.rng.Int64N(int64(e.delay)))
}

// swap leaves a replica's texts, and returns all; ok says that it has worked.
func (e *exchange) swap(mine map[string]string) (all map[string]left, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away || e.rng.Float64() < e.loss {
		return nil, false
	}
	all = map[string]left{}
	for field, text := range mine {
		e.texts[field] = left{text, time.Now()}
		e.longest = max(e.longest, len(text))
	}
	for field, l := range e.texts {
		all[field] = l
	}
	return all, true
}

// owns reports whether a replica owns a name.
func (e *exchange) owns(id, name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return true
	}
	best, high := "", uint64(0)
	for _, r := range e.live {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name + r + name))
		if score := h.Sum64(); best == "" || score > high {
			best, high = r, score
		}
	}
	return best == id
}

func (e *exchange) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

// member is a replica in a test.
type member struct {
	*Set
	id   string
	stop func()
}

// members is the pool big of these tests.
var members = []string{"a", "b", "c", "d"}

// fleetOf runs n replicas that know the pool big until the test's end.
func fleetOf(t *testing.T, n int, w *site) (*exchange, []*member) {
	t.Helper()
	x := &exchange{rng: rand.New(rand.NewPCG(1, uint64(n))), texts: map[string]left{}}
	var all []*member
	for i := range n {
		all = append(all, x.join(t, fmt.Sprint("r", i), w))
	}
	return x, all
}

// join makes a replica and runs it.
func (e *exchange) join(t *testing.T, id string, w *site) *member {
	t.Helper()
	wakes := make(chan struct{}, 1)
	m := &member{id: id}
	m.Set = set(Options{
		Replica: id,
		Probe:   func(_ context.Context, _, backend string) error { return w.probe(id, backend) },
		Mine:    func(_, name string) bool { return e.owns(id, name) },
		Wake: func() {
			select {
			case wakes <- struct{}{}:
			default:
			}
		},
	})
	m.Retain("big", members)
	e.set(func() { e.live = append(e.live, id) })
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	m.stop = func() {
		cancel()
		wg.Wait()
		e.set(func() {
			for i := len(e.live) - 1; i >= 0; i-- {
				if e.live[i] == id {
					e.live = append(e.live[:i], e.live[i+1:]...)
				}
			}
		})
	}
	t.Cleanup(m.stop)
	wg.Go(func() { _ = m.Run(ctx) })
	wg.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-wakes:
			case <-time.After(tick*9/10 + time.Duration(rand.Int64N(int64(tick/5)))):
			}
			e.tick(m)
		}
	})
	return m
}

// tick is one exchange of a replica.
func (e *exchange) tick(m *member) {
	mine := m.Tell()
	time.Sleep(e.pass())
	all, ok := e.swap(mine)
	read := time.Now()
	if time.Sleep(e.pass()); ok {
		for field, l := range all {
			m.Take(field, l.text, read.Sub(l.at)+time.Since(read))
		}
	}
}

// calls has a replica make n calls to a backend of the pool big that end with err, as far as it may, and tells how many
// that were.
func (m *member) calls(backend string, n int, err error) (made int) {
	for range n {
		permit, refused := m.Allow("big", backend, "")
		if refused != nil {
			return made
		}
		permit.Report(err)
		made++
	}
	return made
}

// state is that of a backend of the pool big.
func (m *member) state(backend string) Status {
	for _, s := range m.States() {
		if s.Pool == "big" && s.Backend == backend {
			return s
		}
	}
	return Status{}
}

// shut names the backends that are kept out.
func (m *member) shut(ids []string) (shut []string) {
	for _, id := range ids {
		if m.Open("big", id) {
			shut = append(shut, id)
		}
	}
	return shut
}

// every reports whether all replicas are in a state as to a backend of the pool big.
func every(all []*member, backend string, state State) bool {
	for _, m := range all {
		if m.state(backend).State != state {
			return false
		}
	}
	return true
}
