package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// killedRow ends gateways as a crash would.
func killedRow() Row {
	return Row{
		ID: "G3", Fault: "SIGKILL of one gateway after the other, repeatedly", Short: true, Added: -1, Tolerated: []string{Unreached, CutSilent},
		Promise: "only its requests in flight are lost; its readings taken over ≤ 2 s; shared again ≤ 2 s after its start",
		Recover: backAgain, Run: killedOver,
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
