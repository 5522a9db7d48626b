package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/accept"
)

// story is a draft as it would come if nobody stopped it, and what the target would say.
type story struct {
	logprobs []float64
	seed     uint64
	whole    bool
	looped   bool // its end is at fault
	stays    bool // speculation.midstream_failover is no
}

func newStory(rng *rand.Rand) story {
	s := story{seed: rng.Uint64(), whole: rng.IntN(3) == 0, looped: rng.IntN(8) == 0, stays: rng.IntN(5) == 0}
	s.logprobs = make([]float64, 1+rng.IntN(150))
	scale := 0.1 + 0.5*rng.Float64()
	for i := range s.logprobs {
		s.logprobs[i] = -rng.ExpFloat64() * scale
		if rng.IntN(60) == 0 {
			scale = 0.1 + 1.2*rng.Float64()
		}
	}
	return s
}

// passes is the target's word on so many tokens.
func (s *story) passes(tokens int) bool {
	return rand.New(rand.NewPCG(s.seed, uint64(tokens))).IntN(2) == 0
}

// rulesOf are the settings of a run.
type rulesOf struct {
	threshold float64
	holdback  int
}

// run is what tiers does with a story: the course of package accept, and the receipt of it.
func (s *story) run(w rulesOf) *Receipt {
	r := blank()
	r.Rules.Holdback = w.holdback
	r.Rules.MidstreamFailover = !s.stays
	r.Plan.Judged, r.Plan.Mode, r.Plan.Whole, r.Plan.TargetCheck = true, modeConfidence, s.whole, "never"
	c := accept.NewState(accept.Config{Threshold: accept.Nats(w.threshold), MeanOffset: -0.45, WindowOffset: -1.1, EntropyOffset: 1},
		accept.State{HoldbackTokens: w.holdback, Whole: s.whole, CanResume: true, KeepCommitted: s.stays})
	mark := func() {
		if n := c.Tokens(); len(r.ScoreSeries) == 0 || r.ScoreSeries[len(r.ScoreSeries)-1][0] < float64(n) {
			r.ScoreSeries = append(r.ScoreSeries, [2]float64{float64(n), float64(c.Score())})
		}
	}
	ended := s.draft(&c, mark, r)
	mark()
	d := accept.Draft{Text: []byte("x"), Finish: "stop"}
	if s.looped {
		d.Finish = ""
	}
	v := c.FinalVerdict(d)
	r.Verdict.Accept, r.Verdict.Reason, r.Verdict.Score, r.Verdict.Tokens = v.Accept, v.Reason, float64(v.Score), v.Tokens
	r.Verdict.Threshold = w.threshold
	r.ScoreSeries[len(r.ScoreSeries)-1][1] = min(r.ScoreSeries[len(r.ScoreSeries)-1][1], float64(v.Score))
	r.Tokens.Drafted = c.Tokens()
	r.settle(&c, v, ended, s)
	return r
}

// draft lets the tokens come until the draft is over or given up; ended says that it came
// to its end.
func (s *story) draft(c *accept.State, mark func(), r *Receipt) (ended bool) {
	for i, lp := range s.logprobs {
		kept := c.Add(lp, []float64{lp})
		if n := c.Tokens(); n >= headTokens && (n&(n-1) == 0 || n%3 == 0 && (n/3)&(n/3-1) == 0) {
			mark()
		}
		switch {
		case !kept:
			return false
		case i == len(s.logprobs)-1:
			return true
		}
		if c.Decide(false) {
			mark()
			r.Tokens.Committed = c.Tokens()
		}
		if c.Rejected() {
			return false
		}
	}
	return true
}

func (r *Receipt) settle(c *accept.State, v accept.Verdict, ended bool, s *story) {
	length := len(s.logprobs)
	switch {
	case c.IsAnswer(v, ended && !s.looped):
		r.Tier, r.Tokens.Accepted = "draft", length
	default:
		r.Tier = "mixed"
		if s := c.Salvage(v, ended); s.Tokens >= s.Min {
			r.Tokens.Accepted = min(s.Tokens, length)
		}
		r.Tokens.Target = length - r.Tokens.Accepted
	}
}

// blank is a receipt with all its parts.
func blank() *Receipt {
	r := &Receipt{}
	const text = `{"id":"a","route":"r","code":200,"settings":{"mode":"confidence","midstream_failover":true,"economy_guard":true},"plan":{"judged":true},"verdict":{}}`
	if err := json.Unmarshal([]byte(text), r); err != nil {
		panic(err)
	}
	return r
}

func change(t *testing.T, sets ...string) *Change {
	t.Helper()
	c, err := Parse(sets)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w rulesOf) change(t *testing.T) *Change {
	return change(t, fmt.Sprintf("%s=%v", setThreshold, w.threshold), fmt.Sprintf("%s=%d", setHoldback, w.holdback))
}

func randomRules(rng *rand.Rand) rulesOf {
	return rulesOf{
		threshold: float64(rng.IntN(9)-4) / 10, holdback: 1 + rng.IntN(60),
	}
}

// TestAReplayNeverContradictsWhatWouldHaveHappened runs drafts under settings and under
// others, and holds the receipts of the first against what came of the second.
func TestAReplayNeverContradictsWhatWouldHaveHappened(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	told := 0
	const stories = 6000
	for i := range stories {
		s := newStory(rng)
		before, after := randomRules(rng), randomRules(rng)
		if rng.IntN(2) == 0 { // one thing at a time
			after = before
			after.threshold = float64(rng.IntN(9)-4) / 10
		}
		r, truth := s.run(before), asItWas(s.run(after))
		ways := after.change(t).ways(r)
		var may Fate
		found := false
		for _, b := range ways {
			may |= b.fate
			found = found || b.fate == truth.fate && b.targetChecked == truth.targetChecked &&
				b.kept.lo <= truth.kept.lo && truth.kept.hi <= b.kept.hi && b.drafted.lo <= truth.drafted.lo && truth.drafted.hi <= max(b.drafted.hi, b.kept.hi)
		}
		if !found {
			t.Fatalf("story %d, %+v, then %+v:\nreceipt %s\ntold %+v\ntruth %+v", i, before, after, mustJSON(r), ways, truth)
		}
		if may&(may-1) == 0 {
			told++
		}
	}
	if told < stories/3 {
		t.Errorf("only %d of %d replays tell what became of the draft", told, stories)
	}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestReplayingTheSameSettingsGivesExactlyWhatHappened(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		s, w := newStory(rng), randomRules(rng)
		r := s.run(w)
		if diff := cmp.Diff([]branch{asItWas(r)}, w.change(t).ways(r), cmp.AllowUnexported(branch{}, span{})); diff != "" {
			t.Fatalf("%s\n-want +got:\n%s", mustJSON(r), diff)
		}
	}
}

func TestAHigherThresholdNeverAcceptsMore(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		s, w := newStory(rng), randomRules(rng)
		r := s.run(w)
		minimum, maximum := math.MaxInt, math.MaxInt
		for threshold := -1.0; threshold < 1; threshold += 0.05 {
			rows := Compare([]Receipt{*r}, change(t, fmt.Sprintf("%s=%.3f", setThreshold, threshold)))
			got := rows[0].Accepted
			if got.Min > minimum || got.Max > maximum {
				t.Fatalf("at %.2f it accepts %+v, below %d … %d: %s", threshold, got, minimum, maximum, mustJSON(r))
			}
			minimum, maximum = got.Min, got.Max
		}
	}
}

func TestWithoutDraftsTheTargetAnswersAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var list []Receipt
	for i := range 50 {
		s := newStory(rng)
		r := s.run(randomRules(rng))
		r.ID = fmt.Sprint(i)
		list = append(list, *r)
	}
	row := Compare(list, change(t, setMode+"=off"))[0]
	if row.Skipped != (Count{0, 50, 50}) || row.Share.Would != (Range{}) || row.Unknown != 0 {
		t.Errorf("%+v", row)
	}
}

func TestTheGuardKeepsWhatDoesNotPayFromTheDraft(t *testing.T) {
	sums := func(saving, extra float64, explored bool) *Estimate {
		return &Estimate{Samples: 50, TargetUSD: 0.01, Saving: saving, ExtraTTFT: extra, Explored: explored}
	}
	for name, tc := range map[string]struct {
		guard, skipped bool
		sums           *Estimate
		set            string
		want           Fate
	}{
		"a draft that costs more":              {false, false, sums(-0.001, 0, false), setGuard + "=on", Skipped},
		"one that saves":                       {false, false, sums(0.001, 0, false), setGuard + "=on", Accepted},
		"one that was drafted to learn":        {true, false, sums(-0.001, 0, true), setMaxTTFT + "=1", Accepted},
		"one that comes late":                  {true, false, sums(0.001, 300, false), setMaxTTFT + "=200", Skipped},
		"one that does not come late":          {true, false, sums(0.001, 100, false), setMaxTTFT + "=200", Accepted},
		"one that was too dear":                {true, true, sums(-0.001, 0, false), setGuard + "=off", Accepted | Rejected | TakenOver},
		"too dear, and the bound is elsewhere": {true, true, sums(-0.001, 0, false), setMaxTTFT + "=200", Skipped},
	} {
		s := story{logprobs: make([]float64, 40)}
		r := s.run(rulesOf{holdback: 32})
		r.Rules.Guard, r.Plan.Estimate = tc.guard, tc.sums
		if tc.skipped {
			r.Plan.Judged, r.Plan.Reason, r.Verdict, r.Tier = false, whyNoSaving, nil, "target"
		}
		var may Fate
		for _, b := range change(t, tc.set).ways(r) {
			may |= b.fate
		}
		if may != tc.want {
			t.Errorf("%s: %04b, want %04b", name, may, tc.want)
		}
	}
}

func TestPricesTellWhatAnotherFateCosts(t *testing.T) {
	logprobs := make([]float64, 100)
	s := story{logprobs: logprobs}
	r := s.run(rulesOf{holdback: 32})
	r.Prices = &Prices{1, 2, 10, 20}
	r.Tokens.Prompt, r.USD = 50, 1000
	// As it was: 50 + 200, whatever share of idle hours it had. Without a draft: 500 + 2000.
	if row := Compare([]Receipt{*r}, change(t, setMode+"=off"))[0]; row.USD != (Pair{250, Range{2500, 2500}}) || row.Unpriced != 0 {
		t.Errorf("%+v, %d unpriced", row.USD, row.Unpriced)
	}
	r.Prices = nil
	if row := Compare([]Receipt{*r}, change(t, setMode+"=off"))[0]; row.USD != (Pair{}) || row.Unpriced != 1 {
		t.Errorf("without prices: %+v, %d unpriced", row.USD, row.Unpriced)
	}
}

func TestSettingsThatReceiptsCannotTellOfAreRefused(t *testing.T) {
	for set, want := range map[string]string{
		"speculation.threshold_nats":        "want NAME=VALUE",
		"speculation.offset_mean_nats=0":    "receipts cannot tell",
		"speculation.mode=verify":           "off and confidence only",
		"speculation.threshold_nats=21":     "out of range",
		"speculation.threshold_nats@=1":     "route's name is missing",
		"speculation.holdback_tokens=1.5":   "not a whole number",
		"economy.guard=maybe":               "not one of",
		"speculation.threshold_natsx@big=1": "receipts cannot tell",
	} {
		if _, err := Parse([]string{set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", set, err, want)
		}
	}
	if _, err := Parse([]string{setGuard + "=on", setGuard + "=off"}); err == nil {
		t.Error("given twice, and taken")
	}
}

func TestASettingOfARouteIsOfThatRouteOnly(t *testing.T) {
	s := story{logprobs: make([]float64, 40)}
	a, b := s.run(rulesOf{holdback: 32}), s.run(rulesOf{holdback: 32})
	b.ID, b.Route = "b", "big"
	rows := Compare([]Receipt{*a, *b}, change(t, setMode+"@big=off"))
	got := map[string]int{}
	for _, r := range rows {
		got[r.Route] = r.Skipped.Max
	}
	if diff := cmp.Diff(map[string]int{"r": 0, "big": 1, Total: 1}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
