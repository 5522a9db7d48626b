package risk

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// certified is a state that serves by its first thresholds.
func certified(r Rule) *State {
	s := taught(r)
	for s.Op == 0 {
		audit(s, r, 1, false)
	}
	return s
}

// same fails unless two states hold the same, tickets included.
func same(t *testing.T, want, got *State) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(State{}, OpenAudit{})); diff != "" {
		t.Error(diff)
	}
}

func TestTheGridIsPlacedByTheLastScoreItWaitsFor(t *testing.T) {
	var s State
	for i := range GridScores {
		if s.Version != 0 || len(s.Epochs) != 0 {
			t.Fatalf("a grid after %d scores", i)
		}
		if fate := audit(&s, plain, float64(i), false); fate != Learned {
			t.Fatalf("score %d was %s", i, fate)
		}
	}
	if s.Version != time.Unix(2, 0).UnixMicro() || len(s.Grid) != gridSize || s.Scores != nil || len(s.Epochs) != 1 || s.Op != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAnAuditIsBadUntilItIsGood(t *testing.T) {
	s := taught(plain)
	d := s.View(plain).Decide(Key{}, Sampling{Rate: 1}, 0)
	for i, score := range []float64{.83, .78, .73} { // indices 1, 2 and 3 on
		s.Open(plain, &Audit{Decision: d, Score: score, Ticket: strconv.Itoa(i)}, time.Unix(2, 0))
	}
	e := &s.Epochs[0]
	check := func(when string, n, k, o [3]int) {
		t.Helper()
		if got := [3][3]int{[3]int(e.N[:3]), [3]int(e.K[:3]), [3]int(e.O[:3])}; got != [3][3]int{n, k, o} || e.N[firstLook] != 0 {
			t.Errorf("%s: %v, want %v %v %v; beyond the region %d", when, got, n, k, o, e.N[firstLook])
		}
	}
	check("opened", [3]int{1, 2, 3}, [3]int{1, 2, 3}, [3]int{1, 2, 3})
	s.Close(plain, "0", false)
	check("one good", [3]int{1, 2, 3}, [3]int{0, 1, 2}, [3]int{0, 1, 2})
	s.Close(plain, "1", true)
	check("one bad", [3]int{1, 2, 3}, [3]int{0, 1, 2}, [3]int{0, 0, 1})
	if n, bad := e.Closed(3); n != 2 || bad != 1 {
		t.Errorf("closed: %d of %d bad", bad, n)
	}
	if n, bad := e.Closed(0); n != 0 || bad != 0 {
		t.Errorf("index 0: %d of %d", bad, n)
	}
}

func TestClosingTwiceOrWhatNobodyOpenedChangesNothing(t *testing.T) {
	s := taught(plain)
	d := s.View(plain).Decide(Key{}, Sampling{Rate: 1}, 0)
	s.Open(plain, &Audit{Decision: d, Score: 1, Ticket: "a"}, time.Unix(2, 0))
	if !s.Close(plain, "a", true) {
		t.Fatal("the audit was not under way")
	}
	before := copyOf(s)
	for _, ticket := range []string{"a", "b", ""} {
		if s.Close(plain, ticket, false) {
			t.Errorf("%q was under way", ticket)
		}
	}
	same(t, before, s)
}

func TestDecisionsByAnotherGridOrBeforeAnAlarmAreStale(t *testing.T) {
	s := certified(plain)
	d := s.View(plain).Decide(Key{}, Sampling{Rate: 1}, 0)
	old, early := d, d
	old.Version--
	early.Alarm--
	before := copyOf(s)
	for _, d := range []Decision{old, early, View{}.Decide(Key{}, Sampling{Rate: 1}, 0)} {
		if fate := s.Open(plain, &Audit{Decision: d, Score: 1, Ticket: "x"}, time.Unix(3, 0)); fate != Stale {
			t.Errorf("%+v was %s", d, fate)
		}
	}
	same(t, before, s)
	if fate := s.Open(plain, &Audit{Decision: d, Score: s.Grid.At(d.Hi) - .01, Ticket: "x"}, time.Unix(3, 0)); fate != OutOfRange {
		t.Errorf("a score below the region was %s", fate)
	}
}

func TestAnAuditThatIsLostStaysBad(t *testing.T) {
	s := taught(plain)
	d := s.View(plain).Decide(Key{}, Sampling{Rate: 1}, 0)
	at := time.Unix(1000, 0)
	for i := range maxOpen {
		if fate := s.Open(plain, &Audit{Decision: d, Score: 1, Ticket: strconv.Itoa(i)}, at); fate != Opened {
			t.Fatalf("audit %d was %s", i, fate)
		}
	}
	if fate := s.Open(plain, &Audit{Decision: d, Score: 1, Ticket: "one more"}, at.Add(openFor*time.Second)); fate != Full {
		t.Errorf("more are under way than are allowed: %s", fate)
	}
	if fate := s.Open(plain, &Audit{Decision: d, Score: 1, Ticket: "later"}, at.Add((openFor+1)*time.Second)); fate != Opened || len(s.Tickets) != 1 {
		t.Errorf("lost ones still count: %s, %d under way", fate, len(s.Tickets))
	}
	s.Close(plain, "0", false)
	if e := s.Epochs[0]; e.N[0] != maxOpen+1 || e.K[0] != e.N[0] || e.O[0] != e.N[0] || s.Op != 0 {
		t.Errorf("%d audits, %d bad, %d not closed", e.N[0], e.K[0], e.O[0])
	}
}

func TestEpochsLiveForALeaseAndOverlapByHalf(t *testing.T) {
	r := plain
	r.LeaseAudits = 400
	s := certified(r)
	for i := s.Epochs[0].Audits; i < 199; i++ {
		audit(s, r, 1, false)
	}
	if len(s.Epochs) != 1 {
		t.Fatalf("%d epochs after %d audits", len(s.Epochs), s.Epochs[0].Audits)
	}
	audit(s, r, 1, false)
	if len(s.Epochs) != 2 || s.Epochs[0].Audits != 200 || s.Epochs[1].Audits != 0 {
		t.Fatalf("%+v", s.Epochs)
	}
	op := s.Op
	for range 199 { // the second certifies nothing
		audit(s, r, 1, s.Epochs[1].Audits%20 == 0)
		if s.Alarm != 0 {
			t.Fatal("an alarm")
		}
		s.Drift = Drift{}
	}
	if s.Op < op || len(s.Epochs) != 2 {
		t.Fatalf("op %d with %d epochs before the lease is over", s.Op, len(s.Epochs))
	}
	audit(s, r, 1, false)
	if len(s.Epochs) != 2 || s.Epochs[0].Audits != 200 || s.Epochs[1].Audits != 0 || s.Op != s.Epochs[0].Cert || s.Op >= op {
		t.Errorf("after the lease: op %d, %+v", s.Op, s.Epochs)
	}
}

func TestAnotherEpsilonCertifiesAnewByWhatIsKnown(t *testing.T) {
	lax, strict := plain, plain
	lax.MaxDisagreement, strict.MaxDisagreement = .10, .01
	s := certified(plain)
	for range 100 {
		audit(s, plain, 1, false)
	}
	op := s.Op
	s.Drift = Drift{1, 1, 1}
	s.Close(strict, "nothing", false)
	if s.Op != 0 || s.Drift != (Drift{}) || s.MaxDisagreement != .01 {
		t.Errorf("ε .01: op %d, %v", s.Op, s.Drift)
	}
	s.Close(lax, "nothing", false)
	if s.Op < op {
		t.Errorf("ε .10: op %d, at .05 it was %d", s.Op, op)
	}
	s.Close(plain, "nothing", false)
	if s.Op != op {
		t.Errorf("ε .05 again: op %d, it was %d", s.Op, op)
	}
}

func TestWhatCannotBeCertifiedSaysSoAndRecovers(t *testing.T) {
	s := taught(plain)
	for i := 0; !s.Infeasible; i++ {
		if i > 100 {
			t.Fatal("a hundred audits, half of them bad, say nothing")
		}
		audit(s, plain, 1, i%2 == 0)
	}
	if v := s.View(plain); !v.Infeasible || v.Serves() || s.Epochs[0].Audits != 0 || len(s.Epochs) != 1 {
		t.Errorf("%+v", v)
	}
	for i := 0; s.Op == 0; i++ {
		if audit(s, plain, 1, false); i > 200 {
			t.Fatal("200 good audits certify nothing")
		}
	}
	if v := s.View(plain); v.Infeasible || s.Infeasible || !v.Serves() {
		t.Errorf("%+v", v)
	}
}

// Which outcomes come first is no accident; that bad ones do must not look hopeless.
func TestOutcomesThatComeFirstAreNotHopeless(t *testing.T) {
	s := taught(plain)
	d := s.View(plain).Decide(Key{}, Sampling{Rate: 1}, 0)
	for i := range 400 {
		s.Open(plain, &Audit{Decision: d, Score: 1, Ticket: strconv.Itoa(i)}, time.Unix(2, 0))
	}
	for i := range 400 {
		if s.Close(plain, strconv.Itoa(i), i < 4); s.Infeasible {
			t.Fatalf("hopeless by %d outcomes of 400", i+1)
		}
	}
	if s.Op == 0 {
		t.Error("396 good audits of 400 certify nothing")
	}
}

func TestAnAlarmForgetsAllButTheGridAndTheTraffic(t *testing.T) {
	s := certified(plain)
	d := s.View(plain).Decide(Key{}, Sampling{Rate: 1}, 0)
	s.Open(plain, &Audit{Decision: d, Score: 1, Ticket: "open"}, time.Unix(2, 0))
	id := s.Epochs[0].ID
	for i := 0; s.Alarm == 0; i++ {
		if audit(s, plain, 1, true); i > 20 {
			t.Fatal("twenty bad audits in a row raise no alarm")
		}
		if v := s.View(plain); s.Alarm == 0 && v.Warned != (s.Drift.Level(plain.DriftRunLength) >= warnLevel) {
			t.Errorf("%+v", v)
		}
	}
	want := &State{
		Version: s.Version, Alarm: 1, Grid: s.Grid, MaxDisagreement: s.MaxDisagreement, ErrorProbability: s.ErrorProbability,
		Cold: 1, Epochs: []Epoch{{ID: id + 1, Turn: 1}}, EpochCount: s.EpochCount, Tickets: map[string]OpenAudit{}, Warmup: Warmup{Ended: WarmupCertified},
		Traffic: s.Traffic,
	}
	same(t, want, s)
	if s.Close(plain, "open", false) || s.Open(plain, &Audit{Decision: d, Score: 1, Ticket: "x"}, time.Unix(3, 0)) != Stale {
		t.Error("what was under way before the alarm still counts")
	}
}

func TestOnlyServedDraftsAreWatchedForDrift(t *testing.T) {
	s := certified(plain)
	d := s.View(plain).Decide(Key{}, Sampling{Rate: 1}, 0)
	for i := range 50 {
		s.Open(plain, &Audit{Decision: d, Score: d.Floor, Ticket: strconv.Itoa(i)}, time.Unix(2, 0)) // in the region, below the threshold
		s.Close(plain, strconv.Itoa(i), true)
	}
	if s.Alarm != 0 || s.Drift.Level(plain.DriftRunLength) != 0 {
		t.Errorf("level %g after %d alarms", s.Drift.Level(plain.DriftRunLength), s.Alarm)
	}
}

// Counts commute: audits that have all begun may end in any order. The watch for drift does not,
// so this is of audits of drafts that were not served.
func TestInWhichOrderAuditsEndDoesNotMatter(t *testing.T) {
	rng := seeded(2)
	for range 100 {
		s := taught(plain)
		d := s.View(plain).Decide(Key{}, Sampling{Rate: 1}, 0)
		n, risk := 50+rng.IntN(400), .04*rng.Float64()
		bad := make([]bool, n)
		for i := range n {
			bad[i] = rng.Float64() < risk
			s.Open(plain, &Audit{Decision: d, Score: d.Floor + rng.Float64()*(1-d.Floor), Ticket: strconv.Itoa(i)}, time.Unix(2, 0))
		}
		other := copyOf(s)
		for i := range n {
			s.Close(plain, strconv.Itoa(i), bad[i])
		}
		for _, i := range rng.Perm(n) {
			other.Close(plain, strconv.Itoa(i), bad[i])
		}
		same(t, s, other)
	}
}

// Whatever happens to audits, the booked evidence is what is known at most, so that no threshold
// is certified that complete labels would not have certified; and what the counts certify is
// certified.
func TestBookedEvidenceIsNeverMoreThanIsTrue(t *testing.T) {
	for seed := range uint64(size(40, 400)) {
		rng := seeded(seed)
		s := taught(plain)
		truth := make(map[int64]*[gridSize]int) // bad audits of each epoch and index
		open := map[string]bool{}
		for i := range 1500 {
			d := s.View(plain).Decide(Key{}, Sampling{Rate: 1}, 0)
			ticket, score, bad := strconv.Itoa(i), .5+.5*rng.Float64(), rng.Float64() < .03
			if s.Open(plain, &Audit{Decision: d, Score: score, Ticket: ticket}, time.Unix(int64(i), 0)) == Opened {
				open[ticket] = bad
				count(truth, s.Tickets[ticket], bad)
			}
			for ticket, bad := range open {
				if rng.IntN(8) == 0 {
					delete(open, ticket)
					if rng.IntN(10) > 0 { // one in ten is lost
						s.Close(plain, ticket, bad)
					}
				}
			}
			believe(t, s, truth)
		}
	}
}

// count keeps the true number of bad audits.
func count(truth map[int64]*[gridSize]int, b OpenAudit, bad bool) {
	for _, id := range b.Epochs {
		if truth[id] == nil {
			truth[id] = new([gridSize]int)
		}
		for j := b.First - 1; bad && j < b.Hi; j++ {
			truth[id][j]++
		}
	}
}

// believe fails where a state believes more than is true, or less than its counts say.
func believe(t *testing.T, s *State, truth map[int64]*[gridSize]int) {
	t.Helper()
	best, need := 0, math.Log(2*gridSize/plain.ErrorProbability)
	for i := range s.Epochs {
		e := &s.Epochs[i]
		best = max(best, e.Cert)
		for j := range gridSize {
			bad := 0
			if b := truth[e.ID]; b != nil {
				bad = b[j]
			}
			if e.K[j] < bad || e.O[j] < 0 || e.K[j] < e.O[j] || e.N[j] < e.K[j] || e.N[j] > e.Audits {
				t.Fatalf("epoch %d, index %d: %d audits, %d bad, %d not closed; truly bad %d", e.ID, j+1, e.N[j], e.K[j], e.O[j], bad)
			}
		}
		for j := e.Cert; j < len(s.Grid); j++ {
			if LogE(e.N[j], e.K[j], plain.MaxDisagreement) >= need {
				t.Fatalf("epoch %d: index %d is certified by its counts, and is not", e.ID, j+1)
			}
		}
	}
	if s.Op != best || len(s.Epochs) > 2 {
		t.Fatalf("op %d, certified is %d; %d epochs", s.Op, best, len(s.Epochs))
	}
}

func TestRatesFollowWhatIsKnown(t *testing.T) {
	rates := Rates{Audit: .05, ColdStart: .5, ColdStartPerMinute: 20, Boost: 4, Explore: .02}
	for _, tc := range []struct {
		name   string
		view   View
		minute float64
		want   float64
	}{
		{"no grid, little traffic", View{}, 10, .5},
		{"no grid, no traffic known", View{}, 0, .5},
		{"no grid, much traffic: no target is asked", View{}, 1000, .5},
		{"a grid, much traffic: of the region", View{Version: 1, Hi: 3}, 1000, 20 / (1000 * .30)},
		{"serving", View{Version: 1, Op: 2, Hi: 5}, 1000, .05},
		{"warned", View{Version: 1, Op: 2, Hi: 5, Warned: true}, 1000, .2},
		{"infeasible", View{Version: 1, Hi: 3, Infeasible: true}, 1000, .02},
		{"infeasible, yet serving", View{Version: 1, Op: 1, Infeasible: true}, 1000, .05},
		{"warned, not serving", View{Version: 1, Hi: 3, Warned: true}, 10, .5},
	} {
		if got := rates.AuditRate(tc.view, tc.minute); math.Abs(got-tc.want) > 1e-12 {
			t.Errorf("%s: %g, want %g", tc.name, got, tc.want)
		}
	}
	if got := (Rates{Audit: .5, Boost: 4}).AuditRate(View{Op: 1, Warned: true}, 1); got != 1 {
		t.Errorf("a share of %g", got)
	}
}

func TestGridsArePlacedAtQuantiles(t *testing.T) {
	scores := make([]float64, GridScores)
	for i := range scores {
		scores[i] = float64(i + 1)
	}
	rand.Shuffle(len(scores), func(i, j int) { scores[i], scores[j] = scores[j], scores[i] })
	g := GridOf(scores)
	for j := 1; j <= gridSize; j++ {
		if want := float64(GridScores + 1 - 10*(j+3)); g.At(j) != want {
			t.Errorf("λ_%d is %g, want %g", j, g.At(j), want)
		}
		if first := g.First(g.At(j)); first != j {
			t.Errorf("λ_%d is accepted from index %d on", j, first)
		}
	}
	if g.At(0) != Unreachable || g.At(99) != g.At(gridSize) || g.First(-1) != gridSize+1 || g.First(math.NaN()) != gridSize+1 {
		t.Error("the ends of the grid")
	}
}

func TestEqualScoresAreOneThreshold(t *testing.T) {
	for _, tc := range []struct {
		scores []float64
		want   Grid
	}{
		{nil, nil},
		{[]float64{.5}, Grid{.5}},
		{[]float64{3, 1, 2}, Grid{3, 2}},
		{[]float64{1, 1, 1, 0, 0, 0}, Grid{1, 0}},
	} {
		g := GridOf(tc.scores)
		if diff := cmp.Diff(tc.want, g); diff != "" {
			t.Errorf("%v: %s", tc.scores, diff)
		}
	}
	if (Grid{}).At(1) != Unreachable || (Grid{}).First(1) != 1 {
		t.Error("an empty grid accepts something")
	}
	var s State
	for range GridScores {
		audit(&s, plain, .5, false)
	}
	for range 200 {
		audit(&s, plain, .5, false)
	}
	if v := s.View(plain); v.Op != 1 || v.Hi != 1 || v.Threshold != .5 {
		t.Errorf("one threshold: %+v", v)
	}
}

func TestScoresThatOnlyTheLoosestTwoCertifiedThresholdsAcceptAreNotSure(t *testing.T) {
	s := State{Version: 1, Grid: Grid{5, 4, 3, 2, 1}, MaxDisagreement: plain.MaxDisagreement, ErrorProbability: plain.ErrorProbability}
	for op, want := range map[int]float64{0: Unreachable, 1: Unreachable, 2: Unreachable, 3: 5, 5: 3} {
		if s.Op = op; s.View(plain).Sure != want {
			t.Errorf("operating index %d: sure from %g, want %g", op, s.View(plain).Sure, want)
		}
	}
}

func TestAStaleViewServesNothingAndStillTellsItsGrid(t *testing.T) {
	r := Rule{MaxDisagreement: .1, ErrorProbability: .05, LeaseAudits: 1000, DriftRunLength: 1000}
	s := State{Version: 3, Grid: Grid{3, 2, 1}, Op: 2, MaxDisagreement: .1, ErrorProbability: .05}
	if v := s.View(r); !v.Serves() || v.Threshold != 2 {
		t.Fatalf("%+v", v)
	}
	if v := s.StaleView(r); v.Serves() || v.Version != 3 || v.Floor != s.Grid.At(v.Hi) {
		t.Errorf("%+v", v)
	}
	if s.Op != 2 {
		t.Error("the state has changed")
	}
}
