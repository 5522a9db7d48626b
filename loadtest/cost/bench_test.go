package cost

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// proxyProcs is GOMAXPROCS of what is measured: one core for the gateway.
const proxyProcs = 1

// connections is how many clients there are at once.
const connections = 64

// form is how long the benchmark takes and how sure it is.
type form struct {
	rounds  int
	lasts   time.Duration // of a slice of a load that is not paced
	slices  int           // of such a load, per round
	tokens  int           // of a stream
	pause   time.Duration // between the tokens of a paced one
	samples int           // of a latency, per round
}

var (
	fullForm  = form{rounds: 12, lasts: 60 * time.Millisecond, slices: 6, tokens: 200, pause: 8 * time.Millisecond, samples: 40}
	shortForm = form{rounds: 3, lasts: 50 * time.Millisecond, slices: 4, tokens: 150, pause: 8 * time.Millisecond, samples: 30}
)

// workload is a load with a name. It is measured at the yardstick, at the
// gateway, or at both.
type workload struct {
	load
	title     string
	slices    int // that it is applied in
	tokens    int // of each request; 0: it is counted by requests
	yard, own bool
	judged    bool // by the gateway
}

// workloads are what is measured in each round, in this order.
func workloads(f form) []workload {
	var list []workload
	add := func(title string, x exchangeOf, yard, own bool) {
		list = append(list, workload{title: title, slices: f.slices, yard: yard, own: own, load: load{exchangeOf: x, lasts: f.lasts, most: 1 << 20}})
	}
	add("embeddings 1 KiB", embeddingsOf(1<<10), true, true)
	add("embeddings 16 KiB", embeddingsOf(16<<10), true, true)
	add("target JSON 1 KiB", chatOf(1<<10, "target"), true, true)
	add("target JSON 16 KiB", chatOf(16<<10, "target"), true, true)
	requests := len(list)
	for _, pause := range []time.Duration{f.pause, 0} {
		how := "paced"
		if pause == 0 {
			how = "at once"
		}
		add("relay "+how, streaming{tier: "target", tokens: f.tokens, pause: pause}.exchange(), true, true)
		add("laden "+how, streaming{tier: "target", tokens: f.tokens, pause: pause, laden: true}.exchange(), true, false)
		add("judged "+how, streaming{tier: "auto", tokens: f.tokens, pause: pause}.exchange(), false, true)
	}
	for i := range list[requests:] {
		w := &list[requests+i]
		w.tokens, w.judged = f.tokens, !w.yard
		if i < 3 { // paced: a stream each, begun one after the other
			w.slices, w.lasts, w.most, w.stagger = 1, 0, 1, f.pause/connections
		}
	}
	return list
}

// BenchmarkCost measures what the gateway costs beside a bare reverse proxy in
// the same run: CPU time of the process, allocations, added latency, memory. Each is a
// process of its own, and so is the upstream. The rounds are interleaved,
// because ratios within a round hold where absolutes do not. It prints a table
// and fails only when an answer is wrong.
//
// FOREGATE_COST=short takes half a minute instead of three.
// FOREGATE_COST_PROFILE=DIR also writes CPU profiles of the gateway there.
func BenchmarkCost(b *testing.B) {
	if raced() {
		b.Skip("the race detector costs more than what is measured")
	}
	f := fullForm
	if testing.Short() || os.Getenv("FOREGATE_COST") == "short" {
		f = shortForm
	}
	for b.Loop() {
		c := newCost(b, f)
		for r := range f.rounds {
			c.round(b, r)
		}
		c.verify(b)
		c.report(b)
		if dir := os.Getenv("FOREGATE_COST_PROFILE"); dir != "" {
			c.profile(b, dir)
		}
	}
}

// raced reports whether this binary was built with -race.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// cost is one run of the benchmark.
type cost struct {
	form
	loads           []workload
	mock, yard, own *party
	yardCost        map[string][]sample // by the workload's title, a sample per round
	ownCost         map[string][]sample
	delays          []*delay
	judged          int // tokens that the gateway was to judge
	began           time.Time
}

func newCost(b *testing.B, f form) *cost {
	b.Helper()
	c := &cost{form: f, loads: workloads(f), delays: newDelays(), began: time.Now()}
	c.yardCost, c.ownCost = make(map[string][]sample), make(map[string][]sample)
	binary := gatewayBinary(b)
	c.mock = startMock(b)
	c.yard = startYardstick(b, c.mock.addr)
	c.own = startGateway(b, binary, c.mock.addr)
	s, err := connectTo(c.mock.addr)
	if err != nil {
		b.Fatal(err)
	}
	c.mock.sessions = []*session{s}
	c.yard.settle(b, chatOf(1<<10, "target"), connections)
	c.own.settle(b, chatOf(1<<10, "target"), connections)
	for _, p := range []*party{c.yard, c.own} { // both take their final shape
		if _, err := p.apply(load{exchangeOf: chatOf(16<<10, "target"), lasts: time.Second / 2, most: 1 << 20}); err != nil {
			b.Fatal(err)
		}
	}
	return c
}

// round measures everything once.
func (c *cost) round(b *testing.B, r int) {
	b.Helper()
	for _, w := range c.loads {
		c.compare(b, w, r)
	}
	for _, d := range c.delays {
		if err := d.round(c); err != nil {
			b.Fatalf("latency of %s: %v", d.title, err)
		}
	}
}

// compare puts a load on the yardstick and the gateway in turn, slice by slice,
// so that what else happens on the machine meets both. Who is first changes.
func (c *cost) compare(b *testing.B, w workload, round int) {
	b.Helper()
	yard, own := &tally{party: c.yard}, &tally{party: c.own}
	var both []*tally
	if w.yard {
		both = append(both, yard)
	}
	if w.own {
		both = append(both, own)
	}
	for _, t := range both {
		t.begin(b)
	}
	for i := range w.slices * len(both) {
		both[(round+i)%len(both)].slice(b, w)
	}
	if w.yard {
		c.yardCost[w.title] = append(c.yardCost[w.title], yard.end(b, w))
	}
	if w.own {
		c.ownCost[w.title] = append(c.ownCost[w.title], own.end(b, w))
	}
	if w.judged {
		c.judged += own.requests * w.tokens
	}
}

// verify checks that the judged loads were judged, every token of them, and
// their drafts kept.
func (c *cost) verify(b *testing.B) {
	b.Helper()
	drafted, kept := c.own.metric(b, "foregate_draft_tokens_total{"), c.own.metric(b, "foregate_accepted_tokens_total{")
	if drafted < float64(c.judged) || kept != drafted {
		b.Fatalf("%d tokens were to be judged, but %.0f were, and %.0f kept", c.judged, drafted, kept)
	}
}

// profile writes CPU profiles of the gateway, one for each kind of load.
func (c *cost) profile(b *testing.B, dir string) {
	b.Helper()
	const seconds = 6
	for i, title := range []string{"embeddings 1 KiB", "target JSON 1 KiB", "target JSON 16 KiB", "relay paced", "judged paced", "judged at once"} {
		at := slices.IndexFunc(c.loads, func(w workload) bool { return w.title == title })
		l := c.loads[at].load
		l.lasts, l.most = (seconds+1)*time.Second, 1<<20
		done := make(chan error, 1)
		go func() {
			_, err := c.own.apply(l)
			done <- err
		}()
		text := c.own.get(b, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds))
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.pprof", i)), text, 0o600); err != nil {
			b.Fatal(err)
		}
		b.Logf("%d.pprof: %s", i, title)
	}
}
