package vllmsim

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"
)

// law is the distribution that how samples from d, by definition: temperature, then min_p, then top_k, then top_p of
// what is left. Every id of the vocabulary is there.
func law(d *Dist, how *sampling) []float64 {
	p := make([]float64, d.Vocab)
	order := make([]int, d.Vocab)
	for id := range p {
		p[id], order[id] = math.Pow(d.Prob(int32(id)), 1/how.temperature), id
	}
	scaleTo1(p)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
	best := p[order[0]]
	for n, id := range order {
		if p[id] < how.minP*best || how.topK > 0 && n >= how.topK {
			p[id] = 0
		}
	}
	scaleTo1(p)
	before := 0.0
	for _, id := range order {
		share := p[id]
		if how.topP < 1 && before >= how.topP {
			p[id] = 0
		}
		before += share
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

func TestSampledTokensFollowTheDistributionThroughEveryTruncation(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	const n = 20000
	cases := []sampling{
		{temperature: 1, topP: 1}, {temperature: 0.7, topP: 1}, {temperature: 0.2, topP: 1}, {temperature: 1.6, topP: 1},
		{temperature: 1, topP: 1, topK: 3}, {temperature: 1.3, topP: 1, topK: 5}, {temperature: 0.7, topP: 0.9},
		{temperature: 1.5, topP: 0.95}, {temperature: 1, topP: 1, minP: 0.02}, {temperature: 1.5, topP: 1, minP: 0.1},
		{temperature: 1.4, topP: 0.8, topK: 6, minP: 0.01},
		// Into the tail, which holds a quarter of all at temperature 2.
		{temperature: 2, topP: 0.99}, {temperature: 2, topP: 1, topK: 1000}, {temperature: 2, topP: 1, minP: 1e-6},
		{temperature: 2, topP: 0.9, topK: 2000, minP: 1e-7}, {temperature: 1.8, topP: 0.999}, {temperature: 1, topP: 0.99999},
	}
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

// What top_p and top_k take of the tail are the lowest ids that are not candidates; what is banned gives its place to the next.
func TestTruncationTakesTheTailFromTheLowestIDs(t *testing.T) {
	d := Dist{Top: []Cand{{2, 0.3}, {5, 0.2}}, Tail: 0.5 / 48, Vocab: 50}
	for _, c := range []struct {
		how    sampling
		banned []int32
		want   []int32
	}{
		{sampling{temperature: 1, topP: 1, topK: 1}, nil, []int32{2}},
		{sampling{temperature: 1, topP: 0.3}, nil, []int32{2}},
		{sampling{temperature: 1, topP: 0.31}, nil, []int32{2, 5}},
		{sampling{temperature: 1, topP: 1, minP: 0.7}, nil, []int32{2}},
		{sampling{temperature: 1, topP: 1, topK: 5}, nil, []int32{0, 1, 2, 3, 5}},
		{sampling{temperature: 1, topP: 0.5 + 3.5/96}, nil, []int32{0, 1, 2, 3, 4, 5}},
		{sampling{temperature: 1, topP: 1, topK: 5}, []int32{0, 3, 3, 2, 99}, []int32{1, 4, 5, 6, 7}},
		{sampling{temperature: 1, topP: 1, topK: 2, minP: 0.9}, []int32{2, 5}, []int32{0, 1}},
		{sampling{temperature: 0}, []int32{2, 5, 0}, []int32{1}},
	} {
		seen := map[int32]bool{}
		for i := range uint64(3000) {
			seen[c.how.pick(&d, i, c.banned)] = true
		}
		if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, c.want) {
			t.Errorf("%+v without %v: %v, want %v", c.how, c.banned, got, c.want)
		}
	}
}

func TestBannedTokensNeverComeAndTheRestKeepTheirShares(t *testing.T) {
	const n = 20000
	d := fork(t, NewModel(2, 0))
	ban := d.Top[0].ID
	for _, how := range []sampling{{temperature: 1, topP: 1}, {temperature: 0.7, topP: 1, topK: 4}, {temperature: 1, topP: 0.8}} {
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
