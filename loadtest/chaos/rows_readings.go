package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// readingRows are faults of what backends say of themselves.
func readingRows() []Row {
	return []Row{
		oneLies(), allLie(),
		{
			ID: "M8", Fault: "KV usage swings around 0.85: 0.84 and 0.86, and true crossings to 0.92 and back to 0.7", Short: true, Added: -1, Tolerated: []string{Shed},
			Promise: "only low is shed; ≤ 2 changes per crossing; shed ≤ 1 s after it",
			Setup:   Setup{Drafts: -1, Settings: map[string]string{"shed.max_wait_low": "0s"}}, Run: swings,
		},
	}
}

// fronted has every target stand behind an EngineProxy.
func fronted(fronts *[]*EngineProxy, targets int) Setup {
	return Setup{
		Drafts: -1, Targets: targets,
		Prepare: func(w *Testbed) error {
			*fronts = nil
			for _, s := range w.Targets {
				f, err := NewEngineProxy(s)
				if err != nil {
					return err
				}
				w.Adopt(f.Close)
				*fronts = append(*fronts, f)
			}
			return nil
		},
		Config: func(_ int, file map[string]any) {
			var urls []string
			for _, f := range *fronts {
				urls = append(urls, f.URL)
			}
			file["pools"] = map[string]any{TargetPool: map[string]any{"model": RouteModel, "backends": urls}}
		},
	}
}

// badReadings is one way in which metrics are wrong, and how long a gateway may believe it.
type badReadings struct {
	name string
	tell func(f *EngineProxy) MetricsFault
	long bool // it is found out only after some seconds
}

func same(l MetricsFault) func(*EngineProxy) MetricsFault {
	return func(*EngineProxy) MetricsFault { return l }
}

var allBadReadings = []badReadings{
	{"404", same(page(http.StatusNotFound, "not found")), false},
	{"500", same(page(http.StatusInternalServerError, "")), false},
	{"HTML", same(page(http.StatusOK, "<html><body>It works!</body></html>")), false},
	{"empty", same(page(http.StatusOK, "")), false},
	{"NaN", same(usageSays("NaN")), false},
	{"+Inf", same(usageSays("+Inf")), false},
	{"-1", same(usageSays("-1")), false},
	{"85", same(usageSays("85")), false},
	{"5 s late", same(late(5 * time.Second)), false},
	{"10 MB", same(long(10 << 20)), false},
	{"endless", same(long(-1)), false},
	{"frozen", (*EngineProxy).frozen, true},
	{"always 0", same(usageSays("0")), true},
	{"always 1", same(usageSays("1")), true},
}

// foundOut is how long a gateway may believe a reading that is wrong but could be true.
const foundOut = 10 * time.Second

// oneLies has the metrics of one of three backends wrong in each way in turn.
func oneLies() Row {
	var fronts []*EngineProxy
	return Row{
		ID: "M2", Fault: "the metrics of one of three backends are wrong, in 14 ways, one after the other", Added: -1, MaxLogLines: 30,
		Promise: "no request is shed; its share of the traffic stays between a quarter of the mean and twice the mean",
		Setup:   fronted(&fronts, 3), Run: func(ctx context.Context, w *Testbed) error { return w.oneLies(ctx, fronts) },
	}
}

func (w *Testbed) oneLies(ctx context.Context, fronts []*EngineProxy) error {
	liar := fronts[0]
	w.injections++
	w.Phase(During)
	var shares []string
	for _, l := range allBadReadings {
		liar.SetMetrics(l.tell(liar))
		if err := w.Hold(ctx, w.Span(300*time.Millisecond, 2*time.Second)); err != nil {
			return err
		}
		if l.long && !w.Short() {
			if err := w.Hold(ctx, foundOut); err != nil {
				return err
			}
		}
		before := counts(fronts)
		if err := w.Hold(ctx, w.Span(800*time.Millisecond, 4*time.Second)); err != nil {
			return err
		}
		share := shareOf(before, counts(fronts))
		shares = append(shares, fmt.Sprintf("%s %.0f %%", l.name, 100*share))
		if minimum, maximum := 1.0/12, 2.0/3; (share < minimum || share > maximum) && (!l.long || !w.Short()) {
			w.Fail("%s: the liar's share is %.0f %%", l.name, 100*share)
		}
	}
	liar.SetMetrics(nil)
	w.Phase(After)
	w.Note("the liar's share: %s", strings.Join(shares, ", "))
	return nil
}

func counts(fronts []*EngineProxy) (out []int64) {
	for _, f := range fronts {
		out = append(out, f.Answered.Load())
	}
	return out
}

// shareOf is the first one's share of what came between two counts.
func shareOf(before, after []int64) float64 {
	var all int64
	for i := range before {
		all += after[i] - before[i]
	}
	return float64(after[0]-before[0]) / max(1, float64(all))
}

// allLie has all backends tell that they are full while they answer.
func allLie() Row {
	var fronts []*EngineProxy
	shape := fronted(&fronts, 2)
	shape.Sim = func(o *vllmsim.Options) { o.TimeScale = 1 }
	shape.Settings = map[string]string{"shed.max_wait_normal": "3s"} // less than the clients' patience
	shape.Load = func(n int) Request {                               // those of high last, so that eight are under way at each backend
		r := usualLoad(n)
		if r.Priority == "high" {
			r.Stream, r.Tokens = true, 120 // and, after a wait of 10 s, end within the client's patience
		}
		return r
	}
	return Row{
		ID: "M6", Fault: "all backends report that they are full for ever, but answer normally", Added: -1, Tolerated: []string{Shed},
		Promise: "no high request shed; detected ≤ 10 s: afterwards none is shed, and none waits longer for a first byte; 0 failed otherwise",
		Setup:   shape, Run: func(ctx context.Context, w *Testbed) error { return w.allLie(ctx, fronts) },
	}
}

func (w *Testbed) allLie(ctx context.Context, fronts []*EngineProxy) error {
	w.injections++
	w.Phase(During)
	for _, f := range fronts {
		f.SetMetrics(usageSays("0.97"))
	}
	began := time.Now()
	if err := w.Hold(ctx, foundOut+w.Span(4*time.Second, 15*time.Second)); err != nil {
		return err
	}
	for _, f := range fronts {
		f.SetMetrics(nil)
	}
	w.Phase(After)
	last, first, shed := time.Duration(0), time.Duration(0), map[string]int{}
	for _, o := range w.Load.Outcomes() {
		if o.Kind != Shed {
			first = max(first, o.First)
			continue
		}
		shed[o.Class]++
		last = max(last, o.At.Sub(began))
	}
	w.Note("shed: %s; the last %v after the fault's beginning; no first byte after more than %v", kinds(shed), round(last), round(first))
	if shed["high"] > 0 {
		w.Fail("%d of high shed", shed["high"])
	}
	bound := w.TimerLag.Bound(foundOut + time.Second) // a reading and an exchange later
	if last > bound {
		w.Fail("somebody was shed %v after the beginning", round(last))
	}
	if first > bound {
		w.Fail("a first byte came after %v", round(first))
	}
	return nil
}

// swings moves the KV usage that both targets tell, and counts how often low begins and
// ends to be shed at each gateway.
func swings(ctx context.Context, w *Testbed) error {
	series := `foregate_shedding{pool="` + TargetPool + `",priority="low"}`
	w.injections++
	w.Phase(During)
	flips, was := make([]int, len(w.Gateways)), make([]float64, len(w.Gateways))
	say := func(usage float64, d time.Duration) error {
		for _, s := range w.Targets {
			if err := s.SetFault(vllmsim.Fault{KVUsage: &usage}); err != nil {
				return err
			}
		}
		for end := time.Now().Add(d); time.Now().Before(end); {
			for i, g := range w.Gateways {
				m, _ := g.Metrics(ctx) // one that does not answer has not changed
				if v, ok := m.Value(series); ok && v != was[i] {
					was[i] = v
					flips[i]++
				}
			}
			if err := w.Hold(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}
	crossings := 0
	for range int(w.Span(1*time.Second, 6*time.Second) / time.Second) {
		crossings++
		for _, u := range []float64{0.70, 0.84, 0.86, 0.84, 0.86, 0.84, 0.86} {
			if err := say(u, 600*time.Millisecond); err != nil {
				return err
			}
		}
	}
	began := time.Now()
	crossings++
	for _, u := range []float64{0.92, 0.70} {
		if err := say(u, 2500*time.Millisecond); err != nil {
			return err
		}
	}
	for _, s := range w.Targets {
		if err := s.SetFault(vllmsim.Fault{}); err != nil {
			return err
		}
	}
	w.swung(crossings, flips, began)
	return nil
}

// swung holds what came of it to its promise.
func (w *Testbed) swung(crossings int, flips []int, crossed time.Time) {
	shed, first := map[string]int{}, time.Duration(0)
	for _, o := range w.Load.Outcomes() {
		if o.Kind != Shed {
			continue
		}
		if shed[o.Class]++; first == 0 && o.At.After(crossed) {
			first = o.At.Sub(crossed)
		}
	}
	w.Note("%d crossings, flips by gateway %v; shed: %s, the first %v after the last crossing", crossings, flips, kinds(shed), round(first))
	for i, n := range flips {
		if n > 2*crossings || n == 0 {
			w.Fail("gateway %d: %s flips in %d crossings", i, strconv.Itoa(n), crossings)
		}
	}
	if shed["high"] > 0 || shed["normal"] > 0 || shed["low"] == 0 {
		w.Fail("shed: %s", kinds(shed))
	}
	if first > w.TimerLag.Bound(time.Second) {
		w.Fail("low is shed %v after the crossing", round(first))
	}
}
