package refit

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/foregate/foregate/tiers/accept"
)

// designed are the shares of good drafts of five applications, and within each the score has an AUROC of .70.
var designed = []float64{.97, .92, .75, .40, .10}

// drawApplications draws n samples of the designed law: one feature tells good from bad.
func drawApplications(rng *rand.Rand, n int, shares []float64) (samples []Sample) {
	for i := range n {
		a := i % len(shares)
		s := Sample{Application: "acme/app-" + strconv.Itoa(a), Good: rng.Float64() < shares[a]}
		s.Features[0] = rng.NormFloat64()
		if s.Good {
			s.Features[0] += .742 // normal scores that far apart have an AUROC of .70
		}
		s.Score = s.Features[0]
		samples = append(samples, s)
	}
	return samples
}

func TestATermIsWhatAnApplicationAddsToTheLogOdds(t *testing.T) {
	m := regress(drawApplications(rand.New(rand.NewPCG(1, 1)), 20_000, designed))
	term := func(a int) float64 { return m.Applications[accept.ApplicationKey("acme/app-"+strconv.Itoa(a))] }
	for a := 1; a < len(designed); a++ {
		want := math.Log(designed[a]/(1-designed[a])) - math.Log(designed[0]/(1-designed[0]))
		if got := term(a) - term(0); math.Abs(got-want) > .25 { // five standard errors of the two
			t.Errorf("application %d: %.2f from the first, want %.2f", a, got, want)
		}
	}
}

func TestAFewAuditsMoveATermLittleAndManyFixIt(t *testing.T) {
	for _, c := range []struct {
		bad      int
		low, top float64
	}{{5, -1, -.1}, {200, -9, -4}} {
		samples := drawApplications(rand.New(rand.NewPCG(2, 1)), 3000, []float64{.7, .75, .8})
		for range c.bad {
			samples = append(samples, Sample{Application: "acme/new"})
		}
		m := regress(samples)
		got := m.Applications[accept.ApplicationKey("acme/new")]
		t.Logf("%d bad drafts: %.2f", c.bad, got)
		if got < c.low || got > c.top {
			t.Errorf("%d bad drafts: a term of %.2f, want %.1f to %.1f", c.bad, got, c.low, c.top)
		}
	}
}

func TestAChangedPromptStartsFromTheTermOfTheOneThatItResembles(t *testing.T) {
	samples := drawApplications(rand.New(rand.NewPCG(2, 1)), 3000, []float64{.95, .5, .2})
	for i := range samples {
		if samples[i].Application == "acme/app-0" {
			samples[i].Application = "acme/0123456789abcdef"
		}
	}
	for range 5 {
		samples = append(samples, Sample{Application: "acme/0123456700000000", Good: true}, Sample{Application: "acme/76543210ffffffff", Good: true})
	}
	terms := regress(samples).Applications
	old, changed, other := terms[accept.ApplicationKey("acme/0123456789abcdef")], terms[accept.ApplicationKey("acme/0123456700000000")], terms[accept.ApplicationKey("acme/76543210ffffffff")]
	t.Logf("%.2f, changed %.2f, another one %.2f", old, changed, other)
	if changed < .7*old || changed < other+.5 {
		t.Errorf("a term of %.2f, changed %.2f; of another prompt with the same samples %.2f", old, changed, other)
	}
}

func TestApplicationsThatDoNotDifferHaveNoTerms(t *testing.T) {
	m := regress(drawApplications(rand.New(rand.NewPCG(3, 1)), 5000, []float64{.7, .7, .7, .7, .7}))
	for key, term := range m.Applications {
		if math.Abs(term) > .12 {
			t.Errorf("%s: %.2f", key, term)
		}
	}
}

func TestTheTermOfTheApplicationMakesAScoreThatTellsMore(t *testing.T) {
	f := mustFit(t, drawApplications(rand.New(rand.NewPCG(4, 1)), 2000, designed))
	t.Logf("AUROC %.3f, before %.3f", f.After.Value, f.Before.Value)
	if !IsBetter(&f) || f.After.Value < .88 || f.Before.Value > .75 {
		t.Errorf("AUROC %+v, before %+v", f.After, f.Before)
	}
}

func TestAScoreThatIsHardlyBetterIsNoCandidate(t *testing.T) {
	if IsBetter(&Fitted{Gain: Area{Value: .005, Error: .001}}) || IsBetter(&Fitted{Gain: Area{Value: .02, Error: .02}}) || !IsBetter(&Fitted{Gain: Area{Value: .02, Error: .005}}) {
		t.Error("a gain must be clear, and 0.01 at least")
	}
}
