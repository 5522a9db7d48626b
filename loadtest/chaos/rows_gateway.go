package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// gatewayRows are faults of the gateways' own processes: ends, crashes, limits.
func gatewayRows() []Row {
	rows := []Row{
		{
			ID: "G1", Fault: "rolling SIGTERM of the three gateways under streams", Short: true, Added: -1,
			Promise: "0 lost, 0 cut shorter than the grace; a longer stream ends with gateway_draining; exit 0",
			Setup:   Setup{Drafts: 4, Targets: 4, Rate: streamRate, Load: longStreams, Sim: slowly, Config: draining}, Run: rolled,
		},
		{
			ID: "G3", Fault: "SIGKILL of one gateway after the other, repeatedly", Short: true, Added: -1, Tolerated: []string{Unreached, CutSilent},
			Promise: "only its requests in flight are lost; its readings taken over ≤ 2 s; shared again ≤ 2 s after its start",
			Recover: backAgain, Run: killedOver,
		},
	}
	return append(rows, starvedRows()...)
}

const (
	streamRate   = 25.0 // a second; each lasts for about 1.5 s
	streamTokens = 100
	drainDelay   = time.Second
	drainGrace   = 8 * time.Second
	cutBefore    = 2 * time.Second // the grace's end, streams are told and cut
	exitSlack    = 2 * time.Second // for the process to end after that
)

// longStreams are streams only.
func longStreams(n int) Request {
	return Request{Tenant: Tenants[n%2], Priority: [...]string{"high", "normal", "low"}[n/3%3], Stream: true, Tokens: streamTokens}
}

// slowly has simulators give about 70 tokens a second to each of many streams.
func slowly(o *vllmsim.Options) { o.TimeScale = 1.5 }

func draining(_ int, file map[string]any) {
	file["drain"] = map[string]any{"delay": drainDelay.String(), "grace": drainGrace.String()}
}

// rolled ends and starts each gateway in turn. The first has streams that last longer
// than its grace.
func rolled(ctx context.Context, w *Testbed) error {
	if !w.Short() {
		w.StartLoad(3*streamRate, longStreams) // 150 more at once
	}
	w.Balance()
	w.injections++
	w.Phase(During)
	var endless []Outcome
	var streams sync.WaitGroup
	worst := time.Duration(0)
	for i, g := range w.Gateways {
		if i == 0 {
			endless = w.streamsWithoutEnd(&streams, g)
		}
		if err := w.Hold(ctx, w.Span(500*time.Millisecond, 2*time.Second)); err != nil {
			return err
		}
		began := time.Now()
		if err := g.Terminate(); err != nil {
			return err
		}
		if err := g.Ended(ctx); err != nil {
			w.Fail("gateway %d: %v", i, err)
		}
		worst = max(worst, time.Since(began))
		if err := g.Start(ctx); err != nil {
			return err
		}
		w.Until(ctx, 5*time.Second, "it is asked again", func() bool { return !g.OutOfTurn.Load() })
	}
	streams.Wait()
	w.Note("each ended within %v; %d connections were refused and tried elsewhere", round(worst), w.Load.Elsewhere())
	if worst > w.TimerLag.Bound(drainDelay+drainGrace+exitSlack) {
		w.Fail("ended after %v, grace %v", worst, drainDelay+drainGrace)
	}
	w.checkDrainReason(endless)
	return nil
}

// streamsWithoutEnd sends a few streams that last longer than any grace.
func (w *Testbed) streamsWithoutEnd(streams *sync.WaitGroup, g *Gateway) []Outcome {
	out := make([]Outcome, 12)
	for i := range out {
		streams.Go(func() {
			out[i] = w.Load.Send(g, Request{Tenant: Tenants[0], Priority: "high", Stream: true, Tokens: 4000})
		})
	}
	return out
}

// checkDrainReason checks that streams that were cut were told why.
func (w *Testbed) checkDrainReason(endless []Outcome) {
	told := 0
	for _, o := range endless {
		switch {
		case o.Kind == ErrorEvent && strings.Contains(o.Detail, "gateway_draining"):
			told++
			if o.Total < drainDelay+drainGrace-cutBefore {
				w.Fail("a stream was cut after %v", o.Total)
			}
		case o.Kind != Answered:
			w.Fail("a long stream: %s: %s", o.Kind, o.Detail)
		}
	}
	if w.Note("%d longer than the grace were told", told); told == 0 && !w.Short() {
		w.Fail("no stream lasted longer than the grace")
	}
}

// killedOver kills gateways by turns and starts them again, and watches how old the
// readings of the others become.
func killedOver(ctx context.Context, w *Testbed) error {
	w.Balance()
	times := 3
	if !w.Short() {
		times = 20
	}
	kills := map[int][]time.Time{}
	oldest := 0.0
	for n := range times {
		g := w.Gateways[n%len(w.Gateways)]
		err := w.Inject(ctx, 0, func() error {
			g.Kill()
			kills[g.Number] = append(kills[g.Number], time.Now())
			for end := time.Now().Add(w.Span(2500*time.Millisecond, 4*time.Second)); time.Now().Before(end); {
				oldest = max(oldest, w.oldestReading(ctx))
				if err := w.Hold(ctx, 100*time.Millisecond); err != nil {
					return err
				}
			}
			return nil
		}, func() error { return g.Start(ctx) })
		if err != nil {
			return err
		}
	}
	w.Load.Stop()
	lost := 0
	for _, o := range w.Load.Outcomes() {
		if o.Kind == Answered {
			continue
		}
		lost++
		if !slices.ContainsFunc(kills[o.Gateway], func(at time.Time) bool {
			return o.At.Before(at.Add(balanceEvery)) && at.Before(o.At.Add(o.Total+balanceEvery))
		}) {
			w.Fail("%s at gateway %d, which was not killed then: %s", o.Kind, o.Gateway, o.Detail)
		}
	}
	w.Note("%d kills; %d lost, all with their gateway; no reading of the others older than %.2f s; %d tried elsewhere", times, lost, oldest, w.Load.Elsewhere())
	if bound := w.TimerLag.Bound(takenOver); oldest > bound.Seconds() {
		w.Fail("a reading %.2f s old, promised %v", oldest, takenOver)
	}
	return nil
}

// takenOver is how old a reading may become when its reader dies.
const takenOver = 2 * time.Second

// oldestReading is the age in seconds of the oldest reading of any gateway that lives.
func (w *Testbed) oldestReading(ctx context.Context) (oldest float64) {
	for _, g := range w.Gateways {
		if !g.Alive() {
			continue
		}
		m, _ := g.Metrics(ctx) // one that does not answer has no readings
		for _, age := range m.Series("foregate_scrape_age_seconds") {
			oldest = max(oldest, age)
		}
	}
	return oldest
}

// Series are the values of all series of a name, by their labels as on the page.
func (m Metrics) Series(name string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(string(m)) {
		labels, ok := strings.CutPrefix(strings.TrimSpace(line), name+"{")
		end := strings.LastIndexByte(labels, '}')
		if !ok || end < 0 {
			continue
		}
		var v float64
		if _, err := fmt.Sscanf(labels[end+1:], "%g", &v); err == nil {
			out[labels[:end]] = v
		}
	}
	return out
}

// only breaks the promise where anything but an answer came from another gateway than
// the one that has the fault.
func (w *Testbed) only(sick int) {
	elsewhere := map[string]int{}
	for _, l := range w.loads {
		for _, o := range l.Outcomes() {
			if o.Kind != Answered && o.Gateway != sick {
				elsewhere[o.Kind+": "+o.Detail]++
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(elsewhere)) {
		w.Fail("%d × at another gateway: %s", elsewhere[what], what)
	}
}
