package cache

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// gate holds scripts up on their way to Redis until it is opened.
type gate chan struct{}

func (g gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			<-g
		}
		return next(ctx, cmd)
	}
}

func (g gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" {
			<-g
		}
		return next(ctx, cmds)
	}
}

// gated makes a replica's looks wait at a gate, with the budget that replicas have.
func (p *peer) gated() gate {
	g := make(gate)
	p.looks.AddHook(g)
	p.budget.Store(int64(defaultBudget))
	p.store.crowdWait = lookTime
	return g
}

// late has a replica's turn come to nothing in time, begins to make the answer, and then opens the gate.
func (p *peer) late(t *testing.T, id GenerationID, before func(lead *Leader)) (s *Subscriber, lead *Leader, cause func() error) {
	t.Helper()
	g := p.gated()
	s = p.Join(id)
	lead, _, found := p.turn(t.Context(), want(t, s, EventLead), id)
	if found != FoundLate || lead == nil {
		t.Fatalf("found %s, want to be late", found)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	lead.Begin(cancel)
	before(lead)
	close(g)
	p.store.looks.Drain(lookTime)
	return s, lead, func() error { return context.Cause(ctx) }
}

func TestWhoIsOneOfManyWaitsLongerForWhoLeads(t *testing.T) {
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	one, two := peerAt(t, m.Addr()), peerAt(t, m.Addr())
	id := streamed(1)
	here, lead := one.leads(t, id)
	g := two.gated()
	subscribers := []*Subscriber{two.Join(id), two.Join(id)}
	n := want(t, subscribers[0], EventLead)
	done := make(chan Found, 1)
	began := time.Now()
	go func() {
		_, _, found := two.turn(t.Context(), n, id)
		done <- found
	}()
	redistest.Within(t, lookTime, "the budget is over", func() bool { return time.Since(began) > 2*defaultBudget })
	close(g)
	if found := <-done; found != FoundFollow {
		t.Errorf("found %s", found)
	}
	one.kept(t, lead, id, wholeOf("x"))
	for _, s := range subscribers {
		want(t, s, EventComplete)
	}
	departed(here, subscribers[0], subscribers[1])
}

func TestALeaseThatIsTakenLateIsOfTheAnswerThatIsBeingMade(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	one, two := peerAt(t, m.Addr()), peerAt(t, m.Addr())
	id := streamed(1)
	here, lead, cause := one.late(t, id, func(lead *Leader) { lead.Append([]byte("It is")) })
	there, _ := two.followsAnother(t, id)
	isFollowed(t, here)
	lead.Append([]byte(" so."))
	one.kept(t, lead, id, wholeOf("It is so."))
	n := next(t, there)
	for n.Kind == EventText {
		n = next(t, there)
	}
	if n.Kind != EventComplete || string(n.Entry.Answer) != "It is so." || cause() != nil {
		t.Errorf("%+v, cancelled by %v", n, cause())
	}
	departed(here, there)
}

func TestWhoHearsLateThatAnotherLeadsFollowsUnlessSomebodyWasTold(t *testing.T) {
	t.Parallel()
	for told, tell := range map[string]func(*Leader){
		"":                   func(*Leader) {},
		"the client's begin": func(l *Leader) { l.Claim() },
		"text":               func(l *Leader) { l.Append([]byte("It is")) },
		"more than text":     func(l *Leader) { l.Opaque() },
	} {
		m := miniredis.RunT(t)
		m.ClockTTL(true)
		one, two := peerAt(t, m.Addr()), peerAt(t, m.Addr())
		id := streamed(1)
		here, lead := one.leads(t, id)
		there, own, cause := two.late(t, id, tell)
		if follows := told == ""; own.Follows() != follows || errors.Is(cause(), ErrFollows) != follows || own.Claim() == follows {
			t.Errorf("told %q: it follows %t, cancelled by %v", told, own.Follows(), cause())
		}
		own.Fail(cause(), true) // of no account where it follows
		one.kept(t, lead, id, wholeOf("x"))
		if told == "" {
			want(t, there, EventComplete)
		}
		departed(here, there)
	}
}
