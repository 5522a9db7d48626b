package pool

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// silent has the backends leave a question of half a second unanswered, so many times.
func (b *bench) silent(times int, backends ...int) {
	for range times {
		asked := b.now
		b.now = b.now.Add(500 * time.Millisecond)
		for _, i := range backends {
			b.noteUnanswered((*b.set.Load())[i], asked)
		}
	}
}

func (b *bench) well() {
	b.run(time.Second, func() pressure.Reading { return works(0, 5) })
}

func TestAnIdleBackendThatAnswersNothingIsSuspectAfterASecondAndDownAfterTwo(t *testing.T) {
	b := newBench(t, Options{})
	b.well()
	for i, want := range []State{StateUp, StateSuspect, StateSuspect, StateDown} {
		b.silent(1, 0)
		if s := b.Snapshot()[0]; s.State != want || (s.Why == "answers nothing") != (want != StateUp) {
			t.Errorf("after question %d: %+v", i+1, s)
		}
		if n := b.picks(40); n > 0 && want != StateUp {
			t.Errorf("after question %d: %d of 40 picks", i+1, n)
		}
	}
	b.noteAnswer(b.first(), nil)
	b.setUp(b.first(), b.now)
	if s := b.Snapshot()[0]; s.State != StateUp {
		t.Errorf("it answers again: %+v", s)
	}
}

func TestAnAnswerOfAnyKindEndsASilence(t *testing.T) {
	b := newBench(t, Options{})
	b.well()
	b.silent(1, 0)
	b.noteAnswer(b.first(), nil) // metrics are slow, its health is told
	b.silent(1, 0)
	if b.Snapshot()[0].State == StateSuspect {
		t.Error("suspect for slow metrics")
	}
	l := pick(t, b.Pool, Demand{Exclude: []string{"b", "c", "d"}})
	l.MarkAlive() // a token came
	if b.silent(1, 0); b.Snapshot()[0].State == StateSuspect {
		t.Error("suspect though a token came")
	}
	if b.silent(2, 0); b.Snapshot()[0].State != StateSuspect {
		t.Error("one token speaks for ever")
	}
	if l.MarkAlive(); b.Snapshot()[0].State == StateSuspect {
		t.Error("suspect though a token came just now")
	}
}

func TestAQuestionThatEndsLateSaysNothingOfTheBackend(t *testing.T) {
	b := newBench(t, Options{})
	b.well()
	for range 20 { // this replica gets the processor every 700 ms
		asked := b.now
		b.now = b.now.Add(700 * time.Millisecond)
		for _, o := range *b.set.Load() {
			b.noteUnanswered(o, asked)
		}
	}
	for _, s := range b.Snapshot() {
		if s.State != StateUp {
			t.Errorf("condemned by a replica that is slow: %+v", s)
		}
	}
}

func TestNobodyIsSentToAPoolThatIsSilentAndOneTokenIsAskedFor(t *testing.T) {
	b := newBench(t, Options{})
	b.well()
	b.silent(2, 0, 1, 2, 3)
	pick(t, b.Pool, Demand{PromptTokens: 10}).Done(0) // silent for one second: a suspect is better than none
	if !b.needsProbe(b.first()) {
		t.Error("a suspect is not asked for a token")
	}
	b.silent(2, 0, 1, 2, 3)
	if b.Readiness() == Ready {
		t.Error("the pool is reached")
	}
	for _, optional := range []bool{false, true} {
		var none *NoBackendError
		if _, err := b.pick(Demand{PromptTokens: 10, Optional: optional}); !errors.As(err, &none) || none.Down != 4 {
			t.Errorf("optional %v: %v", optional, err)
		}
	}
	if !b.needsProbe(b.first()) || b.needsProbe(b.first()) {
		t.Error("who is down for its silence is not asked for a token, or twice at once")
	}
	if b.setUpByTokens(b.first()) {
		t.Error("up without a token")
	}
	b.noteTokens(b.first())
	if !b.setUpByTokens(b.first()) || b.Snapshot()[0].State == StateDown || b.Snapshot()[0].State == StateSuspect {
		t.Error("not up though it gave a token")
	}
	b.setUp(b.first(), b.now.Add(1))
	b.noteAnswer(b.first(), nil)
	if n := b.picks(40); n != 40 {
		t.Errorf("%d of 40 picks for the only one that answers", n)
	}
}

// under way is a lease on a backend, with what becomes of its call.
func (b *bench) underWay(only string, spare bool) (*Lease, context.Context) {
	d := Demand{PromptTokens: 10, Optional: spare}
	for _, o := range *b.set.Load() {
		if o.id != only {
			d.Exclude = append(d.Exclude, o.id)
		}
	}
	ctx, cancel := context.WithCancelCause(b.t.Context())
	l := pick(b.t, b.Pool, d)
	l.OnLost(cancel, false)
	return l, ctx
}

func TestRequestsUnderWayAtASilentBackendMoveWhereAnotherDoesBetter(t *testing.T) {
	b := newBench(t, Options{})
	b.well()
	l, waits := b.underWay("a", false)
	other, elsewhere := b.underWay("b", false)
	if b.silent(1, 0); waits.Err() != nil {
		t.Error("moved after half a second")
	}
	if b.silent(1, 0); context.Cause(waits) != ErrLost {
		t.Errorf("not moved after a second: %v", context.Cause(waits))
	}
	if elsewhere.Err() != nil {
		t.Error("one at another backend was moved")
	}
	l.Done(0)
	other.Done(0)

	b = newBench(t, Options{})
	b.well()
	l, waits = b.underWay("a", false)
	spare, draft := b.underWay("a", true)
	b.silent(2, 0, 1, 2, 3)
	if waits.Err() != nil {
		t.Error("moved though nobody else answers")
	}
	if draft.Err() == nil {
		t.Error("a draft waits for a pool that is silent")
	}
	b.noteAnswer((*b.set.Load())[1], nil)
	b.silent(1, 0)
	if waits.Err() == nil {
		t.Error("not moved when another came back")
	}
	l.Done(0)
	spare.Done(0)
}

func TestWhenAPoolIsKnownToBeSilentWhoWaitsThereEndsAtOnceAndAnswersThatHaveBegunSoonAfter(t *testing.T) {
	b := newBench(t, Options{})
	b.well()
	whole := func() (*Lease, context.Context) {
		ctx, cancel := context.WithCancelCause(t.Context())
		l := pick(t, b.Pool, Demand{PromptTokens: 10, Whole: true, Exclude: []string{"b", "c", "d"}})
		l.OnLost(cancel, true)
		return l, ctx
	}
	oldWhole, underWay := whole()
	b.now = b.now.Add(2 * time.Second)
	newWhole, comes := whole()
	waiting, waits := b.underWay("a", false)
	stream, begun := b.underWay("a", false)
	stream.FirstToken()
	for _, c := range []struct {
		silent int
		over   []context.Context
		goOn   []context.Context
	}{{3, nil, []context.Context{waits, comes, underWay, begun}}, {1, []context.Context{waits, comes}, []context.Context{underWay, begun}}} {
		b.silent(c.silent, 0, 1, 2, 3)
		for i, ctx := range c.over {
			if context.Cause(ctx) != ErrLost {
				t.Errorf("request %d waits for a pool that is silent", i)
			}
		}
		for i, ctx := range c.goOn {
			if ctx.Err() != nil {
				t.Errorf("request %d did not get its time", i)
			}
		}
	}
	b.now = b.now.Add(silentStream - 2*time.Second)
	b.release(b.first())
	if context.Cause(underWay) != ErrLost || context.Cause(begun) != ErrLost {
		t.Error("an answer that has begun is waited for")
	}
	for _, l := range []*Lease{oldWhole, newWhole, waiting, stream} {
		l.Done(0)
	}
}

func TestNothingMovesToABackendThatHasNeverAnswered(t *testing.T) {
	b := newBench(t, Options{Backends: []string{"http://a", "http://b"}})
	b.give(0, works(0, 5))
	b.noteMissed((*b.set.Load())[1], unresolved)
	l, waits := b.underWay("a", false)
	if b.silent(3, 0); waits.Err() != nil {
		t.Error("moved to one whose host does not resolve")
	}
	b.give(1, works(0, 5))
	if b.silent(1, 0); waits.Err() == nil {
		t.Error("not moved when the other answered")
	}
	l.Done(0)
}

func TestRequestsMoveFromAnEngineThatStandsStillForTwiceAsLongAsASuspect(t *testing.T) {
	b := newBench(t, Options{})
	b.run(2*time.Second, func() pressure.Reading { return works(3, float64(b.now.UnixMilli()%1_000_000)) })
	l, ctx := b.underWay("a", false)
	steps := b.first().reading.Iterations
	still := func(d time.Duration) {
		b.run(d, func() pressure.Reading { return works(3, steps) })
		b.release(b.first())
	}
	if still(1500 * time.Millisecond); b.Snapshot()[0].State != StateSuspect || ctx.Err() != nil {
		t.Errorf("after 1.5 s: suspect %v, moved %v", b.Snapshot()[0].State == StateSuspect, ctx.Err())
	}
	if still(500 * time.Millisecond); ctx.Err() == nil {
		t.Error("not moved after 2 s")
	}
	l.Done(0)
}

// follower is a fleet in which another replica reads all metrics, and tells nothing.
type follower struct{ alone }

func (follower) Mine(string, string) bool { return false }

func TestAProcessThatFreezesIsFoundOutByEachReplicaAndComesBack(t *testing.T) {
	a, other := serve(t, usage), serve(t, usage)
	p, log := runWith(t, follower{}, Options{ScrapeInterval: func() time.Duration { return pressure.Interval }, ScrapeTimeout: pressure.Timeout}, a, other)
	eventually(t, "readings", func() bool { return !looked(p)[0].usageUnknown && !looked(p)[1].usageUnknown })
	thaw := make(chan struct{})
	a.frozen.Store(&thaw)
	eventually(t, "suspect", func() bool { return p.Snapshot()[0].State == StateSuspect })
	log.await(t, "backend is down")
	if s := p.Snapshot(); s[1].State != StateUp {
		t.Errorf("the other: %+v", s[1])
	}
	close(thaw)
	log.await(t, "backend is up again")
	if s := p.Snapshot()[0]; s.State != StateUp {
		t.Errorf("after the thaw: %+v", s)
	}
}
