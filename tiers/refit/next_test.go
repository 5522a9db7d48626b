package refit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// usual is a rule by which little evidence goes far.
var usual = risk.Rule{MaxDisagreement: .1, ErrorProbability: .05, LeaseAudits: 2000, DriftRunLength: 1000}

// telling is a law of which the plain score says little and the features much.
var telling = populationOf(20_000, 2.5, 0, accept.Features{2, 1, 1}, 3)

// candidate plays until there is one.
func candidate(t *testing.T, law population, seed uint64) *run {
	t.Helper()
	r := newRun(law, usual, seed)
	r.gate = true
	for r.state.Candidate.Version == 0 {
		if r.audit(100); len(r.log) > 5000 {
			t.Fatal("there is no candidate")
		}
		r.round(t)
	}
	return r
}

// serving is a live state that serves by a threshold of the plain score.
func serving(lambda float64, seen time.Time) risk.KeyState {
	var s risk.State
	good := risk.LogEntry{Audit: risk.Audit{Score: lambda, Decision: risk.Decision{Floor: -risk.Unreachable}}, Label: risk.Good}
	s.ApplyImport(usual, risk.PlanImport(usual, risk.Grid{lambda}, slices.Repeat([]risk.LogEntry{good}, 300)), seen)
	s.Used = seen
	return risk.KeyState{Key: chat, State: s, Rule: usual}
}

func TestAScoreThatTellsMoreIsPromotedOnceItIsCertified(t *testing.T) {
	r := candidate(t, telling, 1)
	for len(r.log) < 5000 {
		r.audit(50)
		s := r.round(t)
		if s.Do == Wait {
			continue
		}
		o := s.Openings[0]
		if s.Do != Promote || o.Key != plan.ScoredBy(chat, 1) || o.Index == 0 {
			t.Fatalf("%s, %+v", s.Do, o)
		}
		var opened risk.State
		if !opened.ApplyImport(usual, o.Import, r.now) || opened.Op != o.Index {
			t.Errorf("the key serves index %d, want %d", opened.Op, o.Index)
		}
		if truth := telling.risk(&r.state.Candidate, opened.Grid.At(opened.Op)); truth > usual.MaxDisagreement {
			t.Errorf("of what it serves %.3f is bad", truth)
		}
		return
	}
	t.Fatal("it is never promoted")
}

func TestACandidateThatAcceptsFewerDraftsThanTheScoreInForceWaits(t *testing.T) {
	r := candidate(t, telling, 1)
	r.states = []risk.KeyState{serving(-9, r.now.Add(time.Hour))} // nearly all drafts
	fates := map[Action]int{}
	for len(r.log) < 5000 && fates[DropUncertain] == 0 {
		r.audit(100)
		fates[r.round(t).Do]++
	}
	if fates[Promote] > 0 || fates[DropUncertain] == 0 || r.state.Failed != 1 {
		t.Errorf("%v, failed %d", fates, r.state.Failed)
	}
	r = candidate(t, telling, 1)
	r.states = []risk.KeyState{serving(2, r.now.Add(time.Hour))} // hardly any
	for r.audit(1000); r.round(t).Do != Promote; r.audit(100) {
		if len(r.log) > 5000 {
			t.Fatal("it accepts more, and is not promoted")
		}
	}
}

func TestAClassThatServesDraftsMustNotLoseThem(t *testing.T) {
	r := candidate(t, telling, 1)
	other := serving(0, r.now.Add(time.Hour))
	other.Key.TrafficClass = "all.0a1b2c3d" // sampled requests, of which no audit came since
	r.states = []risk.KeyState{other}
	r.audit(800)
	if s := r.round(t); s.Do != Wait {
		t.Errorf("%s: a class without evidence for the candidate would lose its certificate", s.Do)
	}
	other.State.Used = time.Unix(1, 0)
	r.states[0] = other
	if s := r.round(t); s.Do != Promote {
		t.Errorf("%s: the class is not in use any more", s.Do)
	}
}

func TestWhatEndsACandidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *run)
		want   Action
	}{
		"a drift alarm": {func(r *run) {
			r.audit(10)
			for i := len(r.log) - 5; i < len(r.log); i++ {
				r.log[i].Alarm = 1
			}
		}, DropDrift},
		"other models and rules":      {func(r *run) { r.audit(300); r.relabel("all_t0.ffffffff") }, Wait},
		"features of another version": {func(r *run) { r.truncate() }, Wait},
	} {
		r := candidate(t, telling, 2)
		c.change(r)
		s := Next(r.input())
		if s.Do != c.want || (c.want == Wait) != (s.Progress.Candidate.Version == 1) || s.Progress.Audits > 1 {
			t.Errorf("%s: %s, %+v", name, s.Do, s.Progress)
		}
	}
}

// relabel lets audits of another class come: those before are of other models.
func (r *run) relabel(class string) {
	r.audit(1)
	r.log[len(r.log)-1].TrafficClass = class
}

// truncate lets 300 audits with fewer features come.
func (r *run) truncate() {
	from := len(r.log)
	r.audit(300)
	for i := from; i < len(r.log); i++ {
		r.log[i].Features = r.log[i].Features[:3]
	}
}

func TestLostAuditsCountAsBad(t *testing.T) {
	r := candidate(t, telling, 1)
	from := len(r.log)
	r.audit(600)
	for i := from; i < len(r.log); i += 3 {
		r.log[i].Label = "lost"
	}
	if s := r.round(t); s.Do != Wait || len(s.Openings) != 0 {
		t.Errorf("%s, %+v: a third of the audits has no outcome", s.Do, s.Openings)
	}
}

func TestAScoreIsFittedAgainAfterAQuarterMoreAudits(t *testing.T) {
	r := newRun(populationOf(20_000, 1.5, 0, accept.Features{}, 5), usual, 4)
	r.gate = true
	var at []int
	for len(r.log) < 3000 {
		r.audit(20)
		before := r.fitAttempts()
		if r.round(t); r.fitAttempts() > before {
			at = append(at, len(r.log))
		}
	}
	if len(at) < 4 || at[0] < MinSamples || at[0] > MinSamples+40 {
		t.Fatalf("fitted at %v audits", at)
	}
	for i := 1; i < len(at); i++ {
		if grown := float64(at[i]) / float64(at[i-1]); grown < 1+growth || grown > 1+growth+.05 {
			t.Errorf("fitted at %d and at %d audits", at[i-1], at[i])
		}
	}
}

// fitAttempts tells fits apart, whether there is a candidate or not.
func (r *run) fitAttempts() int { return r.state.Samples + r.fits }

func TestANumberIsNeverGivenToTwoScores(t *testing.T) {
	r := newRun(telling, usual, 1)
	for r.audit(100); Next(r.input()).Do != Fit; r.audit(100) {
		if len(r.log) > 5000 {
			t.Fatal("nothing is fitted")
		}
	}
	if v := Next(r.input()).Version; v != 1 {
		t.Errorf("the first score is number %d", v)
	}
	r.state.Last = 2
	if v := Next(r.input()).Version; v != 3 {
		t.Errorf("after number 2 comes %d", v)
	}
	other := serving(0, r.now)
	other.Key = plan.ScoredBy(other.Key, 6) // of a record that Redis has lost
	r.states = []risk.KeyState{other}
	if v := Next(r.input()).Version; v != 7 {
		t.Errorf("where there is evidence of number 6 the next is %d", v)
	}
	r.log[0].Key = plan.ScoredBy(r.log[0].Key, 8)
	if v := Next(r.input()).Version; v != 9 {
		t.Errorf("where an audit was of number 8 the next is %d", v)
	}
}

func TestARecordIsReadAsItWasWrittenAndNoneOfOtherFeatures(t *testing.T) {
	p := candidate(t, telling, 1).state
	text := p.Encode()
	got, err := Parse(text)
	if err != nil || got.Encode() != text || !got.Fitted.Equal(p.Fitted) {
		t.Errorf("%v: %+v, want %+v", err, got, p)
	}
	if empty, err := Parse(""); err != nil || empty.Last != 0 {
		t.Errorf("%+v, %v", empty, err)
	}
	for _, bad := range []string{"x", text + "{}", strings.Replace(text, `"grids":[[`, `"grids":[[],[`, 1), strings.Replace(text, `"grids":[[`, `"grids":[[1,2,`, 1), strings.Replace(text, `"features":["`, `"features":["x`, 1)} {
		if got, err := Parse(bad); err == nil {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

// FuzzRecord: no record of Redis makes a decision panic.
func FuzzRecord(f *testing.F) {
	p := Progress{Candidate: accept.ScoreMap{Version: 1}, Fitted: time.Unix(5, 0), Grids: grids{{2, 1}, {1}}}
	f.Add(p.Encode())
	f.Add(strings.Replace(p.Encode(), `"last":0`, `"last":1e9`, 1))
	f.Fuzz(func(_ *testing.T, record string) {
		p, err := Parse(record)
		if err != nil {
			return
		}
		one := risk.LogEntry{When: time.Unix(9e9, 0), Label: risk.Good, Audit: risk.Audit{Decision: risk.Decision{Key: chat, Floor: -risk.Unreachable}, Features: make([]float64, len(accept.Features{}))}}
		Next(Input{Progress: p, Rule: usual, Log: []risk.LogEntry{one, one}})
	})
}
