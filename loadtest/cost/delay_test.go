package cost

import (
	"fmt"
	"slices"
	"time"
)

// delayPause is the time between two requests of a latency measurement, which
// go to the upstream, the yardstick and the gateway in turn: 83 requests a second
// each, one at a time.
const delayPause = 4 * time.Millisecond

// shortStream is the length in tokens of the streams whose beginning is timed:
// more than the gateway holds back.
const shortStream = 64

// delay is what one kind of request has to wait for: the end of an answer, or
// the first byte of a stream.
type delay struct {
	title  string
	plain  exchangeOf // of the upstream itself and the yardstick
	own    exchangeOf
	judged bool // by the gateway

	mock, yard, gateway []float64 // µs
	medians             [3][]float64
}

func newDelays() []*delay {
	stream := streaming{tier: "target", tokens: shortStream}.exchange()
	embeddings, chat := embeddingsOf(1<<10), chatOf(1<<10, "target")
	return []*delay{
		{title: "pass-through, 1 KiB", plain: embeddings, own: embeddings},
		{title: "`X-Tier: target` JSON, 1 KiB", plain: chat, own: chat},
		{title: "first byte, relayed stream", plain: stream, own: stream},
		{title: "first byte, judged stream (upstream sends at once)", plain: stream, own: streaming{tier: "auto", tokens: shortStream}.exchange(), judged: true},
	}
}

// round takes the samples of one round.
func (d *delay) round(c *cost) error {
	var took [3][]float64
	next := time.Now()
	for range c.samples {
		for i, p := range []*party{c.mock, c.yard, c.own} {
			time.Sleep(time.Until(next))
			next = time.Now().Add(delayPause)
			x := d.plain
			if p == c.own {
				x = d.own
			}
			t, err := p.sessions[0].ask(x)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			took[i] = append(took[i], micros(t, x.stream))
		}
	}
	if d.judged {
		c.judged += c.samples * shortStream
	}
	for i := range took {
		d.medians[i] = append(d.medians[i], quantile(took[i], 0.5))
	}
	d.mock, d.yard, d.gateway = append(d.mock, took[0]...), append(d.yard, took[1]...), append(d.gateway, took[2]...)
	return nil
}

func micros(t timing, first bool) float64 {
	took := t.last
	if first {
		took = t.first
	}
	return float64(took) / 1e3
}

// added is what a process (1: the yardstick, 2: the gateway) adds to the
// upstream's own time: the median over the rounds of the medians' differences,
// and the difference of the 99th percentiles of all samples.
func (d *delay) added(who int) (p50, p99 float64) {
	var diffs []float64
	for r, m := range d.medians[who] {
		diffs = append(diffs, m-d.medians[0][r])
	}
	all := [][]float64{d.mock, d.yard, d.gateway}
	return quantile(diffs, 0.5), quantile(all[who], 0.99) - quantile(all[0], 0.99)
}

// quantile interpolates; an empty list has none and gives 0.
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
