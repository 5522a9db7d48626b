package accept

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// thinSkewed is a law over so many tokens as languages have it: a few are likely, most are not.
func thinSkewed(r *rand.Rand, tokens int) []Token {
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
	return falling(out)
}

// thinWhole is the law of all tokens, exactly, in their order.
func thinWhole(l []Token, s Sampling) []float64 {
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
		l := thinSkewed(r, 21+r.IntN(300))
		s := Sampling{Temperature: .05 + 1.9*r.Float64(), TopP: 1, TopK: []int{0, 0, 5, 19, 20, 40}[r.IntN(6)]}
		if r.IntN(2) == 0 {
			s.TopP = .05 + .95*r.Float64()
		}
		if r.IntN(2) == 0 {
			s.Vocabulary = len(l)
		}
		law, listed := thinWhole(l, s), slices.Clone(l[:20])
		r.Shuffle(len(listed), func(i, j int) { listed[i], listed[j] = listed[j], listed[i] })
		low := AtLeast(listed, s)
		for i := range l {
			got := low.Of(l[i].ID)
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
	l := thinSkewed(rand.New(rand.NewPCG(1, 1)), 200)
	for i, s := range AtLeast(l[:20], Sampling{Temperature: 1, TopP: 1}) {
		if want := math.Exp(float64(l[i].Logprob)); s.ID != l[i].ID || math.Abs(s.P/want-1) > 1e-5 {
			t.Errorf("token %d: %g, want %g", i, s.P, want)
		}
	}
}

func TestADraftsLawIsThatOfItsListedTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	unknown := 0
	for range 2000 {
		l := thinSkewed(r, 40)
		s := Sampling{Temperature: .2 + 1.5*r.Float64(), TopP: .2 + .8*r.Float64(), TopK: 1 + r.IntN(19), MinP: .1 * float64(r.IntN(2)) * r.Float64()}
		got := Drafted(l[:20], s)
		if got == nil {
			unknown++
			continue
		}
		for i, p := range thinWhole(l, s) {
			if math.Abs(got.Of(l[i].ID)-p) > 1e-9 {
				t.Fatalf("%+v: token %d: %g, want %g", s, i, got.Of(l[i].ID), p)
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
	for name, p := range map[string]Place{
		"equals at the draft's edge":  PlaceOf(Drafted(level, Sampling{Temperature: 1, TopP: 1, TopK: 3}), AtLeast(level, wide)),
		"equals at the target's edge": PlaceOf(Drafted(level, Sampling{Temperature: 1, TopP: 1, TopK: 2}), AtLeast(level, Sampling{Temperature: 1, TopP: 1, TopK: 3})),
		"nothing beyond the edge":     PlaceOf(Drafted(level[:2], Sampling{Temperature: 1, TopP: 1, TopK: 2}), AtLeast(level, wide)),
		"no top_k":                    PlaceOf(Drafted(level, wide), AtLeast(level, wide)),
		"nothing listed":              PlaceOf(nil, nil),
	} {
		if p.acceptance() != 0 || p.keeps(1, 0) || !p.stands(1, -3, 1-1e-9) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := PlaceOf(Drafted(level, Sampling{Temperature: 1, TopP: 1, TopK: 2}), AtLeast(level, wide)); p.acceptance() == 0 {
		t.Error("nothing is kept where all is known")
	}
	cut := Sampling{Temperature: 1, TopP: 1, TopK: 3, MinP: .5}
	if p := PlaceOf(Drafted(level, cut), AtLeast(level, wide)); len(p.drafted) != 2 || p.acceptance() == 0 {
		t.Errorf("where min_p cuts before the edge: %+v", p)
	}
	if low := AtLeast(append(level[:4:4], Token{5, -4}), Sampling{Temperature: 1, TopP: .75, Vocabulary: 5}); low.Of(2) == 0 || low.Of(3) != 0 || low.Of(4) != 0 {
		t.Errorf("equals of which top_p may leave one have bounds: %+v", low)
	}
	// exp(-1)/(exp(-1)+exp(-1.5)) is 0.6225: whether the second token is left hangs on the last bit.
	if q := Drafted(level, Sampling{Temperature: 1, TopP: 1 / (1 + math.Exp(-.5)), TopK: 2}); q != nil {
		t.Errorf("at the edge of top_p: %+v", q)
	}
}

func TestDrawsThatDoNotStandAreTakenAtTheCapAndSaidToBe(t *testing.T) {
	thin := Rejection{EOS: []int32{9}}
	same := Place{drafted: Shares{{1, .5}, {2, .5}}, kept: Shares{{1, .4}}}
	thin.Take([]int32{2, 1}, []Place{same, same}, func() float64 { return .5 })
	for n := 1; thin.Wants(); n++ {
		if n > maxDraws {
			t.Fatalf("draw %d is wanted", n)
		}
		thin.Draw(1, Nats(math.Log(.4)), .999)
	}
	if !thin.Approximate || thin.Draws != maxDraws || !slices.Equal(thin.IDs, []int32{1}) || thin.Accepted != 0 || thin.Tested != 1 || !thin.Refused {
		t.Errorf("%+v", thin)
	}
}

func TestAThinnedAnswerEndsWhereTheTargetEndsIt(t *testing.T) {
	sure := Place{drafted: Shares{{1, 1}}, kept: Shares{{1, 1}}}
	end := Place{drafted: Shares{{9, 1}}, kept: Shares{{9, 1}}}
	dice := func() float64 { return .5 }
	for _, k := range []struct {
		name   string
		limit  int
		ids    []int32
		places []Place
		draw   int32
		finish string
		want   []int32
	}{
		{"an end that stands", 0, []int32{1, 9, 1}, []Place{sure, end, sure}, 0, "stop", []int32{1, 9}},
		{"the limit", 2, []int32{1, 1, 1}, []Place{sure, sure, sure}, 0, "length", []int32{1, 1}},
		{"the end at the limit", 2, []int32{1, 9}, []Place{sure, end}, 0, "stop", []int32{1, 9}},
		{"all of it stands", 0, []int32{1, 1}, []Place{sure, sure}, 0, "", []int32{1, 1}},
		{"an end that is drawn", 0, []int32{1, 2}, []Place{sure, sure}, 9, "stop", []int32{1, 9}},
		{"a draw at the limit", 2, []int32{1, 2}, []Place{sure, sure}, 3, "length", []int32{1, 3}},
	} {
		thin := Rejection{Limit: k.limit, EOS: []int32{9}}
		thin.Take(k.ids, k.places, dice)
		if thin.Wants() != (k.draw != 0) {
			t.Errorf("%s: wants %t", k.name, thin.Wants())
		}
		thin.Draw(k.draw, 0, .5)
		if thin.Finish != k.finish || !slices.Equal(thin.IDs, k.want) || thin.Approximate {
			t.Errorf("%s: %+v", k.name, thin)
		}
	}
}

// What an engine lists is foreign: whatever it is, shares are probabilities.
func FuzzThinShares(f *testing.F) {
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
		for _, shares := range []Shares{Drafted(listed, s), AtLeast(listed, s), PlaceOf(Drafted(listed, s), AtLeast(listed, s)).kept} {
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
func (p Place) acceptance() (sum float64) {
	for _, k := range p.kept {
		sum += k.P
	}
	return sum
}
