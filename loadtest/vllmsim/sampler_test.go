package vllmsim

import (
	"math"
	"slices"
	"testing"
)

// law is the distribution that how samples from d, by definition. Every id of the vocabulary is there.
func law(d *Dist, how *sampling) []float64 {
	p := make([]float64, d.Vocab)
	for id := range p {
		p[id] = math.Pow(d.Prob(int32(id)), 1/how.temperature)
	}
	scaleTo1(p)
	return p
}

func scaleTo1(p []float64) {
	sum := 0.0
	for _, x := range p {
		sum += x
	}
	for i := range p {
		p[i] /= sum
	}
}

// chiSquare tells how far counts are from n times p: in standard deviations of its own law (Wilson and Hilferty), so
// that more than 3.7 comes by chance once in ten thousand times. What is expected less than five times is one class.
func chiSquare(t *testing.T, counts map[int32]int, p []float64, n int) float64 {
	t.Helper()
	var chi, rest float64
	df, left := -1.0, n
	for id, share := range p {
		e, got := share*float64(n), counts[int32(id)]
		if share == 0 && got > 0 {
			t.Errorf("token %d came %d times, but never should", id, got)
		}
		if e < 5 {
			rest += e
			continue
		}
		left -= got
		df++
		chi += (float64(got) - e) * (float64(got) - e) / e
	}
	if rest > 0.5 {
		df++
		chi += (float64(left) - rest) * (float64(left) - rest) / rest
	}
	if df < 1 {
		return 0
	}
	v := 2 / (9 * df)
	return (math.Cbrt(chi/df) - (1 - v)) / math.Sqrt(v)
}

func TestSampledTokensFollowTheDistribution(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	const n = 20000
	cases := []sampling{{temperature: 1}, {temperature: 0.7}, {temperature: 0.2}, {temperature: 1.6}, {temperature: 2}} // 2: a quarter is of the tail
	for seed, m := range []*Model{NewModel(2, 0), NewModel(3, 0), NewDraft(2, 0.5, 0), NewDraft(4, 0.5, 1)} {
		d := fork(t, m)
		for _, how := range cases {
			how.seed = uint64(100 + seed)
			counts := map[int32]int{}
			for i := range n {
				counts[how.pick(&d, uint64(i), nil)]++
			}
			if z := chiSquare(t, counts, law(&d, &how), n); z > 3.7 {
				t.Errorf("model %d, %+v: %.1f standard deviations off", seed, how, z)
			}
		}
	}
}

func TestBannedTokensNeverComeAndTheRestKeepTheirShares(t *testing.T) {
	const n = 20000
	d := fork(t, NewModel(2, 0))
	ban := d.Top[0].ID
	for _, how := range []sampling{{temperature: 1}, {temperature: 0.7}, {temperature: 1.5}} {
		left := d
		left.Top = slices.Clone(d.Top[1:])
		p := law(&Dist{Top: left.Top, Tail: d.Tail, Vocab: d.Vocab}, &how)
		p[ban] = 0 // the tail's share of one id
		scaleTo1(p)
		counts := map[int32]int{}
		for i := range n {
			counts[how.pick(&d, uint64(i), []int32{ban})]++
		}
		if z := chiSquare(t, counts, p, n); z > 3.7 {
			t.Errorf("%+v: %.1f standard deviations off", how, z)
		}
	}
}
