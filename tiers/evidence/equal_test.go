package evidence

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/risk"
)

// history is a long random one, told to the scripts and to risk.State alike.
type history struct {
	t      *testing.T
	rng    *rand.Rand
	shared *replica
	alone  risk.State
	rule   risk.Rule
	open   []string
	stale  []risk.Decision
	seen   map[string]int
}

// decision is by the state of the moment, or at times an older one.
func (h *history) decision() risk.Decision {
	random := .5
	if len(h.stale)%14 == 13 {
		random = 0 // a full-range audit
	}
	d := h.alone.View(h.rule).Decide(chat, risk.Sampling{Rate: 1, FullRange: .2}, random)
	h.stale = append(h.stale, d)
	if h.rng.IntN(20) == 0 {
		d = h.stale[max(0, len(h.stale)-1-h.rng.IntN(300))]
	}
	return d
}

// begin opens one audit.
func (h *history) begin(i int) {
	h.t.Helper()
	ticket := fmt.Sprint("t-", i)
	if len(h.open) > 0 && h.rng.IntN(30) == 0 {
		ticket = h.open[h.rng.IntN(len(h.open))] // of another that is under way
	}
	score := math.Round(h.rng.Float64()*400) / 400 // some are equal
	if h.alone.Version != 0 && h.rng.IntN(3) > 0 {
		score = 1 - score/8 // most within the region
	}
	if h.rng.IntN(50) == 0 {
		score = []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1e9, 1e9}[h.rng.IntN(5)]
	}
	d := h.decision()
	was := h.alone.Version
	below := d.Version != 0 && d.Floor <= -risk.Unreachable && score < h.alone.Grid.At(len(h.alone.Grid))
	want := h.alone.Open(h.rule, d, score, ticket, time.Now())
	got, err := h.shared.Open(h.t.Context(), risk.Audit{Decision: d, Ticket: ticket, Score: score})
	if err != nil || got != want {
		h.t.Fatalf("step %d: open %s of %g is %s (%v), not %s", i, ticket, score, got, err, want)
	}
	if h.alone.Version != was {
		h.alone.Version = h.shared.state().Version // of Redis' clock
	}
	if want == risk.Opened {
		h.open = append(h.open, ticket)
	}
	h.seen[string(want)]++
	if below && want == risk.Opened {
		h.seen["below every threshold"]++
	}
}

// warmup opens an audit of a draft that the warm-up served, or tells of drafts.
func (h *history) warmup(i int) {
	h.t.Helper()
	if h.rng.IntN(2) == 0 {
		made, served := i%2, map[bool]int{true: i % 2}[i%3 == 0]
		h.shared.Drafted(chat, made, served)
		h.shared.tellDrafted(h.t.Context())
		h.alone.Drafted(h.rule, made, served, time.Now())
		h.begun()
		return
	}
	ticket := fmt.Sprint("w-", i)
	if len(h.open) > 0 && h.rng.IntN(30) == 0 {
		ticket = h.open[h.rng.IntN(len(h.open))]
	}
	want := h.alone.OpenWarmup(h.rule, ticket, time.Now())
	got, err := h.shared.OpenWarmup(h.t.Context(), chat, ticket)
	if err != nil || got != want {
		h.t.Fatalf("step %d: open %s in the warm-up is %s (%v), not %s", i, ticket, got, err, want)
	}
	h.begun()
	if want == risk.Opened {
		h.open = append(h.open, ticket)
	}
	h.seen["warmup "+string(want)]++
}

// begun takes over when the warm-up began, which is of Redis' clock.
func (h *history) begun() {
	if h.alone.Warmup.Began != 0 {
		h.alone.Warmup.Began = h.shared.state().Warmup.Began
	}
}

// end closes an audit, or one that is not under way.
func (h *history) end(i int, bad bool) {
	h.t.Helper()
	ticket := "unknown"
	if len(h.open) > 0 && h.rng.IntN(40) > 0 {
		at := h.rng.IntN(len(h.open))
		ticket = h.open[at]
		if h.rng.IntN(10) > 0 { // else it is closed again later
			h.open = slices.Delete(h.open, at, at+1)
		}
	}
	alarm, born := h.alone.Alarm, len(h.alone.Epochs)
	want := h.alone.Close(h.rule, ticket, bad)
	before := h.shared.counted(Lost)
	h.shared.close(ticket, bad)
	if got := h.shared.counted(Lost) == before; got != want {
		h.t.Fatalf("step %d: close %s was %v, not %v", i, ticket, got, want)
	}
	if h.alone.Alarm != alarm {
		h.seen["alarm"]++
	}
	if len(h.alone.Epochs) < born {
		h.seen["renewed"]++
	}
}

func (h *history) same(i int) {
	h.t.Helper()
	got := h.shared.state()
	if d := differ(h.alone, got.State); d != "" {
		h.t.Fatalf("step %d: the scripts (+) do not what risk.State does (-):\n%s", i, d)
	}
	want := h.alone.View(h.rule)
	v := h.shared.View(chat)
	if v.Seen = (time.Time{}); v != want {
		h.t.Fatalf("step %d: view %+v, not %+v", i, v, want)
	}
	sound(h.t, got.State)
	h.seen["op"] = max(h.seen["op"], got.Op)
	h.seen[fmt.Sprint("warmup ended ", h.alone.Warmup.Ended)]++
	if h.alone.Infeasible {
		h.seen["hopeless"]++
	}
}

// histories tells some of them to a Redis.
func histories(t *testing.T, addr string, seeds, steps int) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(seeds) {
		h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 6)), shared: join(t, addr), seen: seen}
		h.rule = risk.Rule{MaxWrongRate: .2, ErrorProbability: .3, LeaseAudits: 300 + 150*int(seed%3), DriftRunLength: 10 + 50*float64(seed%2)}
		h.shared.by(h.rule)
		if err := h.shared.Reset(t.Context(), chat); err != nil {
			t.Fatal(err)
		}
		risky := .0
		for i := range steps {
			if i%200 == 199 && i > 600 {
				risky = []float64{0, 0, 0, 0, .03, .5}[h.rng.IntN(6)]
				if h.alone.Op > 0 && h.rng.IntN(2) == 0 {
					risky = .5 // else there are few alarms
				}
			}
			if h.rng.IntN(800) == 0 {
				h.rule.MaxWrongRate = []float64{.05, .1, .2, .45}[h.rng.IntN(4)]
				h.rule.ErrorProbability = []float64{.1, .3}[h.rng.IntN(2)]
				h.shared.by(h.rule)
			}
			switch {
			case h.rng.IntN(10) == 0:
				h.warmup(i)
			case h.rng.IntN(2) == 0 || h.alone.Version == 0 && i < 500:
				h.begin(i)
			default:
				h.end(i, h.rng.Float64() < risky)
			}
			h.same(i)
		}
	}
	return seen
}

func TestTheScriptsDoWhatTheStateDoes(t *testing.T) {
	seeds, least := 6, 3
	if racing { // it is slower, and what it looks for comes in any history
		seeds, least = 1, 0
	}
	seen := histories(t, redistest.Start(t).Addr, seeds, 2500)
	for _, what := range []string{"booked", "learned", "stale", "outside", "full", "alarm", "renewed", "hopeless", "op", "warmup booked", "warmup ended 1", "warmup ended 2", "below every threshold"} {
		if seen[what] < least {
			t.Errorf("%d times %s", seen[what], what)
		}
	}
	t.Log(seen)
}

func TestTheScriptsDoTheSameInTheRedisThatTheGatewayEmbeds(t *testing.T) {
	if racing {
		t.Skip("the histories are told to a real Redis")
	}
	t.Log(histories(t, miniredis.RunT(t).Addr(), 1, 1500))
}
