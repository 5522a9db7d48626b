package accept

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// plain is the rule for answers that are not drawn, written out: what the lenient rule must be at temperature 0.
func plain(temperature float64, span []TargetScore) Check {
	failed, firstFailed, firstRefused, gap := 0, -1, -1, 0.0
	for i, o := range span {
		gap += float64(o.Top - o.Logprob)
		p, top := math.Exp(float64(o.Logprob)), math.Exp(float64(o.Top))
		if top >= 0.9 && p < 0.01 && !o.Alike && !o.First && firstRefused < 0 {
			firstRefused = i
		}
		var own tokenLaw
		own.read(o.Tops, 1)
		if p >= minShare*top || temperature > 0 && p >= min(0.09, 0.3*math.Exp(-own.entropy)) {
			continue
		}
		if failed++; failed == 1 {
			firstFailed = i
		}
	}
	n := float64(len(span))
	c := Check{Pass: true, Kept: len(span), Reason: ReasonTargetAgrees}
	if n > 0 {
		c.Score = Nats(-gap / n)
	}
	if firstRefused < 0 && float64(failed) <= maxFailures*n && gap <= maxMeanGap*n {
		return c
	}
	c.Pass, c.Reason, c.Kept = false, ReasonTargetDisagrees, max(0, firstFailed)
	if firstRefused >= 0 {
		c.Kept = firstRefused
	}
	return c
}

// place is a full law, for the tests.
type place struct {
	nats []float64 // falling, at temperature 1
	q    []float64 // as a target draws at a temperature
}

// softmax is the law of logits, and as it is drawn at the temperature.
func softmax(logits []float64, temperature float64) place {
	at := func(t float64) []float64 {
		top, sum := slices.Max(logits), 0.0
		out := make([]float64, len(logits))
		for i, x := range logits {
			out[i] = math.Exp((x - top) / t)
			sum += out[i]
		}
		for i := range out {
			out[i] /= sum
		}
		return out
	}
	l := place{q: at(temperature)}
	for _, p := range at(1) {
		l.nats = append(l.nats, math.Log(p))
	}
	return l
}

// logits are sure, at a fork or flat, and fall from the first.
func logits(r *rand.Rand) []float64 {
	spread := []float64{6, 6, 6, 3, 3, 1.5}[r.IntN(6)]
	out := make([]float64, 40)
	for i := range out {
		out[i] = spread * r.NormFloat64()
	}
	slices.SortFunc(out, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
	return out
}

// draw is a token of the law q.
func draw(r *rand.Rand, q []float64) int {
	u := r.Float64()
	for i, p := range q {
		if u -= p; u < 0 {
			return i
		}
	}
	return len(q) - 1
}

func (p *place) opinion(id int) TargetScore {
	return TargetScore{Logprob: Nats(p.nats[id]), Top: Nats(p.nats[0]), Tops: p.nats[:5], First: id == 0}
}

// refused is the share of answers of n tokens that are refused, where a draft moves the target's logits by noise of a
// standard deviation and a token is drawn from those with at least the share minP of the first one.
func refused(temperature float64, n, answers int, noise, minP float64) float64 {
	r := rand.New(rand.NewPCG(19, uint64(n)))
	targets, drafts := make([]place, 500), make([]place, 500)
	for i := range targets {
		x := logits(r)
		targets[i] = softmax(x, temperature)
		y := slices.Clone(x)
		for k := range y {
			y[k] += noise * r.NormFloat64()
		}
		drafts[i] = softmax(y, temperature)
		maximum := slices.Max(drafts[i].q)
		for k, p := range drafts[i].q {
			if p < minP*maximum {
				drafts[i].q[k] = 0
			}
		}
	}
	bad := 0
	for range answers {
		run := LenientCheck{Temperature: temperature}
		for range n {
			at := r.IntN(len(targets))
			q, sum := drafts[at].q, 0.0
			for _, p := range q {
				sum += p
			}
			id := draw(r, q)
			for sum < 1-1e-9 && q[id] == 0 {
				id = draw(r, q)
			}
			run.Add(targets[at].opinion(id))
		}
		if !run.Passes() {
			bad++
		}
	}
	return float64(bad) / float64(answers)
}

func TestATargetStandsByWhatItDraws(t *testing.T) {
	answers := 2000
	temperatures, lengths := []float64{1, 0.3, 0.7}, []int{20, 150, 60, 400}
	if testing.Short() { // all of it is a long test
		answers, temperatures, lengths = 300, temperatures[:2], lengths[:2]
	}
	for _, temperature := range temperatures {
		for _, n := range lengths {
			share := refused(temperature, n, answers, 0, 0)
			t.Logf("T %g, %d tokens: %.4f refused", temperature, n, share)
			if share > 0.01 {
				t.Errorf("T %g, %d tokens: %.4f of the target's own answers are refused", temperature, n, share)
			}
		}
	}
}

func TestATargetStandsByWhatItDrawsFromFewerTokens(t *testing.T) {
	for _, minP := range []float64{0.02, 0.1} {
		if share := refused(1, 100, 300, 0, minP); share > 0.01 {
			t.Errorf("min_p %g: %.4f of the target's own answers are refused", minP, share)
		}
	}
}

func TestTheWorseADraftDrawsTheMoreOfItIsRefused(t *testing.T) {
	answers, temperatures := 1000, []float64{0.3, 1, 0.7}
	if testing.Short() {
		answers, temperatures = 100, temperatures[:2]
	}
	for _, temperature := range temperatures {
		for _, n := range []int{20, 100} {
			was := -1.0
			for _, noise := range []float64{0, 1, 2, 8} {
				now := refused(temperature, n, answers, noise, 0)
				t.Logf("T %g, %d tokens, noise %g: %.3f refused", temperature, n, noise, now)
				if now < was || noise >= 8 && now < 0.9 {
					t.Errorf("T %g, %d tokens, noise %g: %.3f refused, with less %.3f", temperature, n, noise, now, was)
				}
				was = now
			}
		}
	}
}

// randomSpan has tokens of all sorts, with what an engine lists.
func randomSpan(r *rand.Rand) []TargetScore {
	span := make([]TargetScore, r.IntN(60))
	for i := range span {
		l := softmax(logits(r), 1)
		id := 0
		if r.IntN(12) == 0 {
			id = r.IntN(len(l.nats))
		}
		span[i] = l.opinion(id)
		span[i].Alike = r.IntN(3) == 0
	}
	return span
}

func TestWhereNothingIsDrawnTheRuleIsThePlainOne(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	passed := 0
	for range 500 {
		span := randomSpan(r)
		got, want := CheckLenient(0, span), plain(0, span)
		if got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if got.Pass {
			passed++
		}
		for i := range span {
			span[i].Tops = nil
		}
		if got, want := CheckLenient(1, span), plain(1, span); got != want {
			t.Fatalf("nothing told: %+v, want %+v", got, want)
		}
	}
	if passed < 70 || passed > 430 {
		t.Errorf("%d of 500 stand: the spans try nothing", passed)
	}
}

func TestWhatIsNotListedIsNeverUnderrated(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		temperature := []float64{0.002, 0.01, 0.2, 0.5, 0.9, 1}[r.IntN(6)]
		full := softmax(logits(r), temperature)
		var got tokenLaw
		got.read(full.nats[:5], temperature)
		others := 1.0
		for i := range 5 {
			others -= full.q[i]
			if got.drawn[i] > full.q[i]+1e-9 {
				t.Fatalf("T %g: token %d is drawn with %g, not %g", temperature, i, got.drawn[i], full.q[i])
			}
		}
		if got.drawn[5] < others-1e-9 || temperature == 1 && math.Abs(got.drawn[5]-others) > 1e-9 {
			t.Fatalf("T %g: others are drawn with %g, not %g", temperature, got.drawn[5], others)
		}
		if p, _ := got.unlisted(); got.others && p < math.Exp(full.nats[5])-1e-9 {
			t.Fatalf("the likeliest that is not listed has %g, not at most %g", math.Exp(full.nats[5]), p)
		}
	}
}

func TestChanceIsNearPoissonsOfRareEvents(t *testing.T) {
	for mean := 1e-5; mean < 50; mean *= 1.07 {
		var e excess
		for range 2000 {
			e.chance(mean / 2000)
		}
		for e.seen = 0; e.within(0); e.seen++ { // the fewest events that are too many
		}
		tail, term := 1.0, math.Exp(-mean) // of as many or more
		before := tail
		for i := 0.0; i < e.seen; i++ {
			before = tail
			tail -= term
			term *= mean / (i + 1)
		}
		if tail > 1.6*rare || before < rare {
			t.Errorf("of a mean of %.3g, %g are too many: so many come with %.2g, one less with %.2g", mean, e.seen, tail, before)
		}
	}
}

// FuzzLenient holds for what any engine may tell.
func FuzzLenient(f *testing.F) {
	f.Add(uint16(100), []byte{0, 0, 10, 50, 60, 70, 80, 255, 0, 1, 3, 3, 3, 3})
	f.Add(uint16(0), []byte{200, 20, 20, 20, 20, 20, 20})
	f.Fuzz(func(t *testing.T, centi uint16, told []byte) {
		temperature := float64(centi%201) / 100
		var span []TargetScore
		for ; len(told) >= 7 && len(span) < 100; told = told[7:] {
			tops := make([]float64, told[0]%7)
			for i := range tops {
				tops[i] = -math.Expm1(float64(told[1+i%5])/24) * 0.24
			}
			slices.SortFunc(tops, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
			o := TargetScore{Logprob: Nats(-math.Expm1(float64(told[6])/24) * 0.24), Tops: tops, Alike: told[0]&64 != 0}
			if o.Top = o.Logprob; len(tops) > 0 {
				o.Top = max(o.Top, Nats(tops[0]))
			}
			o.First = o.Top == o.Logprob
			span = append(span, o)
		}
		got, was := CheckLenient(temperature, span), plain(temperature, span)
		if temperature == 0 && got != was {
			t.Fatalf("%+v, want %+v", got, was)
		}
		if was.Pass && !got.Pass {
			t.Fatalf("T %g: refused, but stands as if nothing was drawn: %+v", temperature, got)
		}
		if got.Kept < 0 || got.Kept > len(span) || math.IsNaN(float64(got.Score)) {
			t.Fatalf("T %g: %+v of %d tokens", temperature, got, len(span))
		}
	})
}
