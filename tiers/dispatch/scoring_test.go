package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/blame"
)

var (
	usual = 2 // scores under way
	noon  = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
)

// enter begins a score that must be let in.
func enter(t *testing.T, g *ScoreLimiter, now time.Time) (leave func(scoreEnd, time.Time)) {
	t.Helper()
	leave, err := g.Acquire("big", "b1", Score{Tokens: 100, MaxConcurrent: usual}, now)
	if err != nil {
		t.Fatalf("at %s: %v", now.Sub(noon), err)
	}
	return leave
}

// refused is why a score is not let in; "" where it is, which then ends and says nothing.
func refused(t *testing.T, g *ScoreLimiter, backend string, tokens int, now time.Time) ScoreRefusedError {
	t.Helper()
	leave, err := g.Acquire("big", backend, Score{Tokens: tokens, MaxConcurrent: usual}, now)
	if err == nil {
		leave(scoreNeutral, now)
		return ""
	}
	r, is := errors.AsType[ScoreRefusedError](err)
	if !is {
		t.Fatalf("an error of another kind: %v", err)
	}
	return r
}

// shut fails the test unless scoring is closed for just that long.
func shut(t *testing.T, g *ScoreLimiter, from time.Time, lasts time.Duration) {
	t.Helper()
	if r := refused(t, g, "b1", 100, from.Add(lasts-1)); r != ErrScoreClosed {
		t.Errorf("a nanosecond before the end of %s: %+v", lasts, r)
	}
	if r := refused(t, g, "b1", 100, from.Add(lasts)); r != "" {
		t.Errorf("after %s: %v", lasts, r)
	}
}

func TestATextThatIsTooLongIsNotScored(t *testing.T) {
	g := NewScoreLimiter()
	if r := refused(t, g, "b1", MaxScoreTokens+1, noon); r != ErrScoreTooLong {
		t.Errorf("got %+v", r)
	}
	if r := refused(t, g, "b1", MaxScoreTokens, noon); r != "" {
		t.Error(r)
	}
}

func TestOnlySoManyScoresAreUnderWayAtABackend(t *testing.T) {
	g := NewScoreLimiter()
	first, second := enter(t, g, noon), enter(t, g, noon)
	r := refused(t, g, "b1", 1, noon)
	if r != ErrScoreBusy {
		t.Errorf("got %+v", r)
	}
	if r := refused(t, g, "b2", 1, noon); r != "" {
		t.Errorf("another backend: %v", r)
	}
	first(scoreGood, noon)
	second(scoreGood, noon)
	if len(g.running) != 0 {
		t.Errorf("remembered: %v", g.running)
	}
	if _, err := g.Acquire("big", "b1", Score{Tokens: 1}, noon); err == nil {
		t.Error("one was let in where none may be")
	}
}

func TestThreeFaultsInARowCloseScoringForHalfAMinute(t *testing.T) {
	g := NewScoreLimiter()
	for _, o := range []scoreEnd{scoreFault, scoreFault, scoreGood, scoreFault, scoreNeutral, scoreFault} {
		enter(t, g, noon)(o, noon)
	}
	if open, _, _ := g.State("big"); open {
		t.Fatal("open, but three in a row there were not")
	}
	enter(t, g, noon)(scoreFault, noon)
	if open, why, until := g.State("big"); !open || why != openFaults || !until.Equal(noon.Add(30*time.Second)) {
		t.Errorf("got %t, %q, %s", open, why, until)
	}
	shut(t, g, noon, 30*time.Second)
	if r := refused(t, NewScoreLimiter(), "b1", 1, noon); r != "" {
		t.Errorf("elsewhere: %v", r)
	}
	leave, err := g.Acquire("other", "b1", Score{Tokens: 100, MaxConcurrent: usual}, noon)
	if err != nil {
		t.Fatalf("another pool: %v", err)
	}
	leave(scoreGood, noon)
}

func TestATrialThatFailsDoublesTheTimeUpToTenMinutes(t *testing.T) {
	g, now := NewScoreLimiter(), noon
	for range 3 {
		enter(t, g, now)(scoreFault, now)
	}
	for _, lasts := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute} {
		shut(t, g, now, lasts)
		now = now.Add(lasts)
		trial := enter(t, g, now)
		now = now.Add(time.Second)
		trial(scoreFault, now)
		if _, why, _ := g.State("big"); why != openTrial {
			t.Errorf("after %s: %q", lasts, why)
		}
	}
	now = now.Add(10 * time.Minute)
	enter(t, g, now)(scoreGood, now)
	if open, why, until := g.State("big"); open || why != "" || !until.IsZero() {
		t.Errorf("after a trial that went well: %t, %q, %s", open, why, until)
	}
	for range 2 {
		enter(t, g, now)(scoreFault, now)
	}
	if open, _, _ := g.State("big"); open {
		t.Error("two faults opened it again: the old ones were not forgotten")
	}
	enter(t, g, now)(scoreFault, now)
	shut(t, g, now, 30*time.Second)
}

func TestOneScoreAtATimeTriesAPoolThatIsHalfOpen(t *testing.T) {
	g := NewScoreLimiter()
	for range 3 {
		enter(t, g, noon)(scoreFault, noon)
	}
	later := noon.Add(time.Minute)
	trial := enter(t, g, later)
	if r := refused(t, g, "b2", 1, later); r != ErrScoreClosed {
		t.Errorf("beside the trial: %+v", r)
	}
	if open, _, until := g.State("big"); !open || until.After(later) {
		t.Errorf("half-open: %t until %s", open, until)
	}
	trial(scoreNeutral, later) // it said nothing: somebody else tries
	second := enter(t, g, later)
	second(scoreGood, later)
	if open, _, _ := g.State("big"); open {
		t.Error("still open")
	}
}

func TestAnEngineThatDiesOfAScoreClosesScoringForFiveMinutes(t *testing.T) {
	g := NewScoreLimiter()
	all := []func(scoreEnd, time.Time){enter(t, g, noon), enter(t, g, noon)}
	all[0](scoreDied, noon)
	if open, why, until := g.State("big"); !open || why != openEngineDied || !until.Equal(noon.Add(5*time.Minute)) {
		t.Errorf("got %t, %q, %s", open, why, until)
	}
	all[1](scoreDied, noon.Add(time.Second)) // it took the other along
	shut(t, g, noon.Add(time.Second), 5*time.Minute)

	now := noon.Add(6 * time.Minute)
	enter(t, g, now)(scoreDied, now) // the trial kills it again
	shut(t, g, now, 10*time.Minute)
}

func TestWhatBeganBeforeTheBreakerMovedHasNoSay(t *testing.T) {
	g := NewScoreLimiter()
	old, older := enter(t, g, noon), enter(t, g, noon)
	for range 3 {
		leave, err := g.Acquire("big", "b2", Score{Tokens: 1, MaxConcurrent: usual}, noon)
		if err != nil {
			t.Fatal(err)
		}
		leave(scoreFault, noon)
	}
	old(scoreGood, noon.Add(time.Second))
	shut(t, g, noon, 30*time.Second)
	older(scoreFault, noon.Add(time.Second))
	shut(t, g, noon, 30*time.Second)

	now := noon.Add(time.Minute)
	enter(t, g, now)(scoreGood, now)
	dying := enter(t, g, now)
	for range 3 {
		enter(t, g, now)(scoreFault, now)
	}
	dying(scoreDied, now) // but what kills an engine counts whenever it began
	shut(t, g, now, 5*time.Minute)
}

func TestALateDeathDoesNotShortenATimeThatIsLonger(t *testing.T) {
	g, now := NewScoreLimiter(), noon
	late := enter(t, g, now)
	for _, lasts := range []time.Duration{0, 5 * time.Minute} {
		now = now.Add(lasts)
		enter(t, g, now)(scoreDied, now)
	}
	late(scoreDied, now.Add(time.Minute)) // the second opening is for ten minutes
	shut(t, g, now.Add(time.Minute), 10*time.Minute)
}

func TestFaultsOfOneTenantsScoresAreNotHeldAgainstTheOthers(t *testing.T) {
	g, now := NewScoreLimiter(), noon
	ends := func(tenant string, o scoreEnd) {
		t.Helper()
		leave, err := g.Acquire("big", "b1", Score{Tenant: tenant, Tokens: 100, MaxConcurrent: usual}, now)
		if err != nil {
			t.Fatal(err)
		}
		leave(o, now)
	}
	ends("other", scoreGood)
	for range 30 {
		ends("one", scoreFault)
	}
	if ends("other", scoreFault); refused(t, g, "b1", 100, now) != ErrScoreClosed {
		t.Error("the scores of two tenants fail, and it is closed")
	}
	g = NewScoreLimiter()
	ends("other", scoreGood)
	now = now.Add(blame.Window + 1)
	for range maxFaults {
		ends("one", scoreFault)
	}
	if refused(t, g, "b1", 100, now) != ErrScoreClosed {
		t.Error("the only tenant's scores fail, and it is closed")
	}
}

// Whatever happens: as many are under way as were let in, never too many, and one alone where it is not closed.
func TestTheGateKeepsItsBoundsWhateverHappens(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	g, now := NewScoreLimiter(), noon
	type score struct {
		backend string
		leave   func(scoreEnd, time.Time)
	}
	var under []score
	refusals, trials := map[ScoreRefusedError]int{}, 0
	for range 100_000 {
		now = now.Add(time.Duration(rng.IntN(4000)) * time.Millisecond)
		if len(under) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(under))
			outcome := []scoreEnd{scoreGood, scoreGood, scoreGood, scoreFault, scoreFault, scoreFault, scoreNeutral, scoreDied}[rng.IntN(8)]
			under[i].leave(outcome, now)
			under = append(under[:i], under[i+1:]...)
			continue
		}
		backend := fmt.Sprintf("b%d", rng.IntN(3))
		before := 0
		for _, s := range under {
			if s.backend == backend {
				before++
			}
		}
		open, _, until := g.State("big")
		leave, err := g.Acquire("big", backend, Score{Tokens: 1 + rng.IntN(MaxScoreTokens*101/100), MaxConcurrent: usual}, now)
		r, refused := errors.AsType[ScoreRefusedError](err)
		switch {
		case refused:
			refusals[r]++
		case before >= usual || open && until.After(now):
			t.Fatalf("let in with %d under way, open %t until %s", before, open, until)
		default:
			if open {
				trials++
				if _, err := g.Acquire("big", "b9", Score{Tokens: 1, MaxConcurrent: usual}, now); err == nil {
					t.Fatal("two trials at once")
				}
			}
			under = append(under, score{backend, leave})
		}
	}
	if refusals[ErrScoreBusy] == 0 || refusals[ErrScoreTooLong] == 0 || refusals[ErrScoreClosed] == 0 || trials == 0 {
		t.Errorf("the walk saw too little: %v, %d trials", refusals, trials)
	}
}
