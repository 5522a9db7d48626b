package accept

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// samplingSkewed is a law over so many tokens as languages have it: a few are likely, most are not.
func samplingSkewed(r *rand.Rand, tokens int) []Token {
	weights, sum := make([]float64, tokens), 0.0
	sharp := .5 + 2.5*r.Float64()
	for i := range weights {
		weights[i] = math.Exp(sharp * r.NormFloat64())
		sum += weights[i]
	}
	out := make([]Token, tokens)
	for i, w := range weights {
		out[i] = Token{int32(i), Nats(math.Log(w / sum))}
	}
	return sortedByLogprob(out)
}

// samplingWhole is the law of all tokens, exactly, in their order.
func samplingWhole(l []Token, s Sampling) []float64 {
	p := make([]float64, len(l))
	sum := 0.0
	for i := range l {
		if w := math.Exp(float64(l[i].Logprob-l[0].Logprob) / s.Temperature); w >= s.MinP && (s.TopK == 0 || i < s.TopK) {
			p[i] = w
		}
		sum += p[i]
	}
	before, left := 0.0, 0.0
	for i, w := range p {
		if s.TopP < 1 && before/sum >= s.TopP {
			p[i] = 0
		}
		before += w
		left += p[i]
	}
	for i := range p {
		p[i] /= left
	}
	return p
}

func TestBoundsAreNeverAboveWhatTheTargetDrawsBy(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	known, exact := 0, 0
	for range 20_000 {
		l := samplingSkewed(r, 21+r.IntN(300))
		s := Sampling{Temperature: .05 + 1.9*r.Float64(), TopP: 1, TopK: []int{0, 0, 5, 19, 20, 40}[r.IntN(6)]}
		if r.IntN(2) == 0 {
			s.TopP = .05 + .95*r.Float64()
		}
		if r.IntN(2) == 0 {
			s.Vocabulary = len(l)
		}
		law, listed := samplingWhole(l, s), slices.Clone(l[:20])
		r.Shuffle(len(listed), func(i, j int) { listed[i], listed[j] = listed[j], listed[i] })
		low := TargetLowerBounds(listed, s)
		for i := range l {
			got := low.Probability(l[i].ID)
			if got > law[i] {
				t.Fatalf("%+v: token %d of %d: at least %g, and it is drawn with %g", s, i, len(l), got, law[i])
			}
			if got > 0 {
				known++
			}
			if got > .9999*law[i] && law[i] > 0 {
				exact++
			}
		}
	}
	t.Logf("%d bounds, %d of them within 0.01 %%", known, exact)
	if exact*10 < known {
		t.Errorf("%d of %d bounds are tight", exact, known)
	}
}

func TestWithoutTemperatureAndTopPTheBoundIsTheScore(t *testing.T) {
	l := samplingSkewed(rand.New(rand.NewPCG(1, 1)), 200)
	for i, s := range TargetLowerBounds(l[:20], Sampling{Temperature: 1, TopP: 1}) {
		if want := math.Exp(float64(l[i].Logprob)); s.ID != l[i].ID || math.Abs(s.P/want-1) > 1e-5 {
			t.Errorf("token %d: %g, want %g", i, s.P, want)
		}
	}
}

func TestADraftsLawIsThatOfItsListedTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	unknown := 0
	for range 2000 {
		l := samplingSkewed(r, 40)
		s := Sampling{Temperature: .2 + 1.5*r.Float64(), TopP: .2 + .8*r.Float64(), TopK: 1 + r.IntN(19), MinP: .1 * float64(r.IntN(2)) * r.Float64()}
		got := DraftDistribution(l[:20], s)
		if got == nil {
			unknown++
			continue
		}
		for i, p := range samplingWhole(l, s) {
			if math.Abs(got.Probability(l[i].ID)-p) > 1e-9 {
				t.Fatalf("%+v: token %d: %g, want %g", s, i, got.Probability(l[i].ID), p)
			}
		}
	}
	if unknown > 5 {
		t.Errorf("%d of 2000 laws are not known", unknown)
	}
}

func TestWhereEnginesDisagreeOnWhatIsLeftNothingIsKept(t *testing.T) {
	level := []Token{{1, -1}, {2, -1.5}, {3, -2}, {4, -2}}
	wide := Sampling{Temperature: 1, TopP: 1}
	for name, p := range map[string]Position{
		"equals at the draft's edge":  NewPosition(DraftDistribution(level, Sampling{Temperature: 1, TopP: 1, TopK: 3}), TargetLowerBounds(level, wide)),
		"equals at the target's edge": NewPosition(DraftDistribution(level, Sampling{Temperature: 1, TopP: 1, TopK: 2}), TargetLowerBounds(level, Sampling{Temperature: 1, TopP: 1, TopK: 3})),
		"nothing beyond the edge":     NewPosition(DraftDistribution(level[:2], Sampling{Temperature: 1, TopP: 1, TopK: 2}), TargetLowerBounds(level, wide)),
		"no top_k":                    NewPosition(DraftDistribution(level, wide), TargetLowerBounds(level, wide)),
		"nothing listed":              NewPosition(nil, nil),
	} {
		if p.acceptance() != 0 || p.acceptsDraft(1, 0) || !p.acceptsDraw(1, -3, 1-1e-9) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := NewPosition(DraftDistribution(level, Sampling{Temperature: 1, TopP: 1, TopK: 2}), TargetLowerBounds(level, wide)); p.acceptance() == 0 {
		t.Error("nothing is kept where all is known")
	}
	cut := Sampling{Temperature: 1, TopP: 1, TopK: 3, MinP: .5}
	if p := NewPosition(DraftDistribution(level, cut), TargetLowerBounds(level, wide)); len(p.drafted) != 2 || p.acceptance() == 0 {
		t.Errorf("where min_p cuts before the edge: %+v", p)
	}
	if low := TargetLowerBounds(append(level[:4:4], Token{5, -4}), Sampling{Temperature: 1, TopP: .75, Vocabulary: 5}); low.Probability(2) == 0 || low.Probability(3) != 0 || low.Probability(4) != 0 {
		t.Errorf("equals of which top_p may leave one have bounds: %+v", low)
	}
	// exp(-1)/(exp(-1)+exp(-1.5)) is 0.6225: whether the second token is left hangs on the last bit.
	if q := DraftDistribution(level, Sampling{Temperature: 1, TopP: 1 / (1 + math.Exp(-.5)), TopK: 2}); q != nil {
		t.Errorf("at the edge of top_p: %+v", q)
	}
}

func TestDrawsThatDoNotStandAreTakenAtTheCapAndSaidToBe(t *testing.T) {
	sampler := RejectionSampler{EOS: []int32{9}}
	same := Position{drafted: Distribution{{1, .5}, {2, .5}}, kept: Distribution{{1, .4}}}
	sampler.TestDraft([]int32{2, 1}, []Position{same, same}, func() float64 { return .5 })
	for n := 1; sampler.NeedsDraw(); n++ {
		if n > maxDraws {
			t.Fatalf("draw %d is wanted", n)
		}
		sampler.Draw(1, Nats(math.Log(.4)), .999)
	}
	if !sampler.Approximate || sampler.Draws != maxDraws || !slices.Equal(sampler.IDs, []int32{1}) || sampler.Accepted != 0 || sampler.Tested != 1 || !sampler.Refused {
		t.Errorf("%+v", sampler)
	}
}

func TestAThinnedAnswerEndsWhereTheTargetEndsIt(t *testing.T) {
	sure := Position{drafted: Distribution{{1, 1}}, kept: Distribution{{1, 1}}}
	end := Position{drafted: Distribution{{9, 1}}, kept: Distribution{{9, 1}}}
	random := func() float64 { return .5 }
	for _, k := range []struct {
		name   string
		limit  int
		ids    []int32
		places []Position
		draw   int32
		finish string
		want   []int32
	}{
		{"an end that stands", 0, []int32{1, 9, 1}, []Position{sure, end, sure}, 0, "stop", []int32{1, 9}},
		{"the limit", 2, []int32{1, 1, 1}, []Position{sure, sure, sure}, 0, "length", []int32{1, 1}},
		{"the end at the limit", 2, []int32{1, 9}, []Position{sure, end}, 0, "stop", []int32{1, 9}},
		{"all of it stands", 0, []int32{1, 1}, []Position{sure, sure}, 0, "", []int32{1, 1}},
		{"an end that is drawn", 0, []int32{1, 2}, []Position{sure, sure}, 9, "stop", []int32{1, 9}},
		{"a draw at the limit", 2, []int32{1, 2}, []Position{sure, sure}, 3, "length", []int32{1, 3}},
	} {
		sampler := RejectionSampler{Limit: k.limit, EOS: []int32{9}}
		sampler.TestDraft(k.ids, k.places, random)
		if sampler.NeedsDraw() != (k.draw != 0) {
			t.Errorf("%s: wants %t", k.name, sampler.NeedsDraw())
		}
		sampler.Draw(k.draw, 0, .5)
		if sampler.Finish != k.finish || !slices.Equal(sampler.IDs, k.want) || sampler.Approximate {
			t.Errorf("%s: %+v", k.name, sampler)
		}
	}
}

// What an engine lists is foreign: whatever it is, shares are probabilities.
func FuzzRejectionDistributions(f *testing.F) {
	f.Add(-.1, -2.0, -3.0, .7, .9, 2)
	f.Add(0.0, 0.0, 0.0, 2.0, .01, 1)
	f.Add(-9999.0, -1e-9, -700.0, .01, 1.0, 3)
	f.Fuzz(func(t *testing.T, a, b, c, temperature, topP float64, topK int) {
		for _, v := range []float64{a, b, c} {
			if !(v <= 0 && v >= -9999) {
				return
			}
		}
		if !(temperature >= .01 && temperature <= 2 && topP > 0 && topP <= 1 && topK >= 0) {
			return
		}
		s := Sampling{Temperature: temperature, TopP: topP, TopK: topK}
		listed := []Token{{1, Nats(a)}, {2, Nats(b)}, {3, Nats(c)}}
		for _, shares := range []Distribution{DraftDistribution(listed, s), TargetLowerBounds(listed, s), NewPosition(DraftDistribution(listed, s), TargetLowerBounds(listed, s)).kept} {
			sum := 0.0
			for _, x := range shares {
				if !(x.P >= 0 && x.P <= 1) {
					t.Fatalf("%+v", shares)
				}
				sum += x.P
			}
			if sum > 1+1e-9 {
				t.Fatalf("%+v sum to %g", shares, sum)
			}
		}
	})
}

// acceptance is the chance that the draft's token stands, whichever it is: Σ q(y)·a(y).
func (p Position) acceptance() (sum float64) {
	for _, k := range p.kept {
		sum += k.P
	}
	return sum
}
