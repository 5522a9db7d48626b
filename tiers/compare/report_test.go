package compare

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestTheIntervalOfARateSeldomMissesHoweverOftenItIsLookedAt(t *testing.T) {
	const runs = 200
	for _, p := range []float64{0.02, 0.5, 0.95} {
		random := rand.New(rand.NewPCG(1, uint64(p*100)))
		missed := 0
		for range runs {
			var r Rate
			for range 300 {
				r.add(random.Float64() < p)
				if i := rateInterval(r, Alpha); p < i.Low || p > i.High {
					missed++
					break
				}
			}
		}
		t.Logf("p %v: %d of %d runs missed", p, missed, runs)
		if missed > runs*Alpha {
			t.Errorf("p %v: %d of %d runs missed", p, missed, runs)
		}
	}
}

func TestTheIntervalOfAMeanSeldomMissesHoweverOftenItIsLookedAt(t *testing.T) {
	const runs = 1000
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(2, seed))
		missed := 0
		for range runs {
			var m Moments
			for range 2000 {
				_ = m.Add(random.ExpFloat64())
				if i, ok := meanInterval(m, Alpha); ok && (i.Low > 1 || i.High < 1) {
					missed++
					break
				}
			}
		}
		t.Logf("seed %d: %d of %d runs missed", seed, missed, runs)
		if missed > runs*Alpha {
			t.Errorf("seed %d: %d of %d runs missed", seed, missed, runs)
		}
	}
}

func TestIntervalsShrinkAndHoldTheMean(t *testing.T) {
	width := 2.0
	for n := 10.0; n < 1e12; n *= 10 {
		r := Rate{N: n, Good: n * 0.9}
		i := rateInterval(r, Alpha)
		if !(i.Low <= 0.9 && i.High >= 0.9 && i.Low >= 0 && i.High <= 1) || i.High-i.Low >= width {
			t.Errorf("n %v: %v, before it was %v wide", n, i, width)
		}
		width = i.High - i.Low
	}
}

func TestAWorseCandidateIsSaidToBeWorse(t *testing.T) {
	var a, b Totals
	for i := range 400 {
		a.AddOpinion(i%20 != 0)
		b.AddOpinion(i%2 == 0)
		if a.Add(Answer{Total: time.Second + time.Duration(i%10)*time.Millisecond, Tokens: 10}) != nil ||
			b.Add(Answer{Total: 2*time.Second + time.Duration(i%10)*time.Millisecond, Tokens: 40}) != nil {
			t.Fatal("an answer was refused")
		}
	}
	for range 100 {
		if b.AddUnanswered(Rejected) != nil {
			t.Fatal("a reason was refused")
		}
	}
	want := map[string]Verdict{"acceptance": TooFew, "agreement": Worse, "failures": NoneSeen, "rejected": Worse, "left": NoneSeen, "diverted": NoneSeen, "first_token": TooFew,
		"total": Worse, "per_token": Better, "usd_per_answer": TooFew} // no prices are known
	for _, row := range NewReport(Pair{}, &a, &b).Rows {
		if row.Verdict != want[row.Name] {
			t.Errorf("%s: %s, want %s", row.Name, row.Verdict, want[row.Name])
		}
	}
	for _, row := range NewReport(Pair{}, &b, &a).Rows {
		if row.Name == "agreement" && row.Verdict != Better {
			t.Errorf("the other way round: %s", row.Verdict)
		}
	}
}

func TestWithoutValuesEveryRowHasTooFew(t *testing.T) {
	for _, row := range NewReport(Pair{}, &Totals{}, &Totals{}).Rows {
		if row.Verdict != TooFew || row.Incumbent.Value != 0 {
			t.Errorf("%+v", row)
		}
	}
}

func TestNumbersThatAreNoneAreRefusedWhole(t *testing.T) {
	var none Totals
	if none.AddUnanswered(numUnanswered) == nil || none != (Totals{}) {
		t.Error("an unknown reason was counted")
	}
	for _, a := range []Answer{{USD: math.NaN()}, {USD: -1}, {USD: math.Inf(1)}, {Total: -1}, {FirstToken: -1}, {Tokens: -1}} {
		var s Totals
		if err := s.Add(a); err == nil || s != (Totals{}) {
			t.Errorf("%+v: %v, %+v", a, err, s)
		}
	}
}

func TestMirroredAnswersAreNotTimesOfClients(t *testing.T) {
	var s Totals
	if err := s.Add(Answer{Mirrored: true, Total: time.Hour, Tokens: 5, USD: 1}); err != nil {
		t.Fatal(err)
	}
	if s.Total.N != 0 || s.MirroredTotal.N != 1 || s.Latency != (Histogram{}) || s.USD.N != 1 {
		t.Errorf("%+v", s)
	}
}

func TestTheTimeOfAMirrorGetsNoVerdict(t *testing.T) {
	var a, b Totals
	for range 400 {
		if a.Add(Answer{Total: 2 * time.Second}) != nil || b.Add(Answer{Mirrored: true, Total: time.Second}) != nil {
			t.Fatal("an answer was refused")
		}
	}
	rows := NewReport(Pair{Kind: Mirror}, &a, &b).Rows
	if r := rows[2]; len(rows) != 4 || r.Name != "mirrored_total" || r.Verdict != Unjudged || r.Incumbent.Value != 2 || r.Candidate.Value != 1 || r.Difference != nil {
		t.Errorf("%+v", rows)
	}
}

func TestMergedSumsAreThoseOfAllAnswers(t *testing.T) {
	var a, b, all Totals
	for i, s := range []*Totals{&a, &b, &b} {
		answer := Answer{FirstToken: time.Second, Total: time.Duration(i+1) * time.Second, Tokens: 1 << i, USD: 0.5}
		if s.Add(answer) != nil || all.Add(answer) != nil {
			t.Fatal("an answer was refused")
		}
		s.AddDraft(i == 0)
		all.AddDraft(i == 0)
	}
	if a.Merge(&b); a != all {
		t.Errorf("merged %+v, want %+v", a, all)
	}
	if q := all.Latency.Quantile(0.5); q < 2 || q > 2.5 {
		t.Errorf("median %v", q)
	}
}
