package cost

import (
	"fmt"
	"slices"
	"time"
)

// delayPause is the time between two requests of a latency measurement. They go to the engine, the gateway, the yardstick and
// nginx in turn, one at a time: some 60 to 80 requests a second each.
const delayPause = 4 * time.Millisecond

// delay is what one kind of request has to wait for: the end of an answer, or the first byte of a stream.
type delay struct {
	title string
	goal  float64 // µs that the gateway adds to the yardstick's median; 0 is none
	steps []step  // the engine itself, the gateway, and what it is compared with
}

// step is one process of a delay.
type step struct {
	at      string // "" is the engine
	x       exchange
	took    []float64 // µs
	medians []float64 // of the rounds
}

// maxAdded is the goal for the time, in µs, that the gateway adds at the median to what a client of the yardstick waits.
const maxAdded = 120

func newDelays(withNginx bool) []*delay {
	all := func(plain, own chat, at string) []step {
		x := plain.exchange()
		list := []step{{x: x}, {at: at, x: own.exchange()}, {at: yardstick, x: x}}
		if withNginx {
			list = append(list, step{at: nginx, x: x})
		}
		return list
	}
	answer, stream := chat{size: 200, tokens: shortAnswer}, chat{size: 1 << 10, tokens: 64, stream: true}
	noStore, judged := answer, stream
	noStore.noStore, judged.tier = true, "auto"
	return []*delay{
		{title: "miss, 200 B", goal: maxAdded, steps: all(answer, answer, newcomer)},
		{title: "no-store, 200 B", steps: all(answer, noStore, newcomer)},
		{title: "first byte of a relayed stream", steps: all(stream, stream, newcomer)},
		{title: "first byte of a judged stream", steps: all(stream, judged, drafter)},
	}
}

// round takes the samples of one round.
func (d *delay) round(c *cost) error {
	took := make([][]float64, len(d.steps))
	next := time.Now()
	for n := range warmUp + c.form.samples {
		for i := range d.steps {
			s, p := &d.steps[i], c.mock
			if s.at != "" {
				p = c.get(s.at)
			}
			time.Sleep(time.Until(next))
			next = time.Now().Add(delayPause)
			t, err := p.sessions[0].do(&s.x)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if n < warmUp {
				continue
			}
			if s.x.stream {
				t.last = t.first
			}
			took[i] = append(took[i], float64(t.last)/1e3)
		}
	}
	for i := range d.steps {
		s := &d.steps[i]
		s.took, s.medians = append(s.took, took[i]...), append(s.medians, quantile(took[i], 0.5))
	}
	return nil
}

// added is what step i adds to the time of another step: the median over the rounds of the medians' differences, and the
// difference of the 99th percentiles of all samples.
func (d *delay) added(i, to int) (p50, p99 float64) {
	var diffs []float64
	for r, m := range d.steps[i].medians {
		diffs = append(diffs, m-d.steps[to].medians[r])
	}
	return quantile(diffs, 0.5), quantile(d.steps[i].took, 0.99) - quantile(d.steps[to].took, 0.99)
}

// quantile interpolates; that of an empty list is 0.
func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
