package vllmsim

import "math"

const (
	tieGap   = 0.125 // nat: one step of bf16 for logits in 16..32, which have a mantissa of 7 bits
	tieLevel = 0.125 // share of the ties that are exact
)

// WithTies returns the model with near-ties on a share of all places, 0..1; see [Model].
func (m *Model) WithTies(share float64) *Model {
	tied := *m
	tied.ties = share
	return &tied
}

// tied reports whether there is a tie at c, and the hash of the place.
func (m *Model) tied(c *cursor) (h uint64, yes bool) {
	if m.ties <= 0 {
		return 0, false
	}
	h = mix(mix(c.near^m.voiceAt(c).hash, uint64(c.since)), 0x71e)
	return h, unit(h) < m.ties
}

// tie shares the two best tokens' probabilities anew where there is a tie: this is what scoring sees.
func (m *Model) tie(c *cursor, d *Dist) {
	h, yes := m.tied(c)
	if !yes || len(d.Top) < 2 {
		return
	}
	gap := max(0, unit(mix(h, 1))-tieLevel) / (1 - tieLevel) * tieGap
	both := d.Top[0].P + d.Top[1].P
	first := both / (1 + math.Exp(-gap))
	d.Top[0].P, d.Top[1].P = first, both-first
	if gap == 0 {
		d.Top[1].P = first
	}
	d.sort() // the third may be before the second now, and equals go by id
}

// written turns what scoring sees at c into what writing does: the other of two that tie may be first.
func (m *Model) written(c *cursor, d *Dist) {
	h, yes := m.tied(c)
	if yes && len(d.Top) > 1 && mix(h, math.Float64bits(m.divergence))&1 == 0 {
		d.Top[0].ID, d.Top[1].ID = d.Top[1].ID, d.Top[0].ID
	}
}
