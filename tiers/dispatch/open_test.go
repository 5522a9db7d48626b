package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

func TestWhatFailsBeforeItsFirstByteIsTriedElsewhere(t *testing.T) {
	for _, tc := range []struct {
		kind  engine.FailureKind
		tries int
	}{
		{engine.Refused, 2}, {engine.Timeout, 2}, {engine.Silent, 2}, {engine.Stalled, 2}, {engine.Reset, 2}, {engine.Cut, 2},
		{engine.ServerError, 2}, {engine.Backpressure, 2}, {engine.BadResponse, 2}, {engine.Aborted, 2}, {engine.Exhausted, 2},
		{engine.Unauthorized, 2}, {engine.WrongModel, 3}, // another backend may know the key
		{engine.Rejected, 1}, {engine.ClientGone, 1}, {engine.Expired, 1}, // no other backend would mend it
	} {
		r := newRig(t, 3)
		r.fails(engine.Failure{Kind: tc.kind})
		_, err := r.d.Open(t.Context(), r.order())
		exhausted, spent := errors.AsType[*ExhaustedError](err)
		f, failed := errors.AsType[*engine.Failure](err)
		if !failed || f.Kind != tc.kind || f.Pool != "p" || f.Backend != r.attempts[len(r.attempts)-1].Backend {
			t.Errorf("%s: %v", tc.kind, err)
		}
		busy := tc.kind == engine.Backpressure
		if spent != (tc.tries > 1) || spent && (exhausted.Pool != "p" || exhausted.Tries != tc.tries || exhausted.AllBusy != busy) {
			t.Errorf("%s: %+v", tc.kind, exhausted)
		}
		if len(r.attempts) != tc.tries || tc.tries > 1 && r.attempts[0].Backend == r.attempts[1].Backend || r.failed() != tc.tries {
			t.Errorf("%s: %d tries, %d counted", tc.kind, len(r.attempts), r.failed())
		}
		r.given(string(tc.kind))
	}
}

func TestTheSecondTryIsToldApartFromTheFirst(t *testing.T) {
	r := newRig(t, 2)
	r.fails(engine.Failure{Kind: engine.ServerError, Responded: 500}, engine.Failure{})
	x, err := r.d.Open(t.Context(), r.order())
	if err != nil {
		t.Fatal(err)
	}
	x.Close(nil, 7)
	one, two := r.attempts[0], r.attempts[1]
	if want := []string{one.Backend + " upstream_error", two.Backend + " ok"}; !slices.Equal(r.reports, want) {
		t.Errorf("breakers were told %v, want %v", r.reports, want)
	}
	if one.ID != "own-1" || two.ID != "own-2" || r.tries[0].Call != "1" || r.tries[1].Call != "2" {
		t.Errorf("ids %s and %s, calls %s and %s", one.ID, two.ID, r.tries[0].Call, r.tries[1].Call)
	}
	a, b := r.tries[0], r.tries[1]
	if a.Failed != engine.ServerError || a.Broke != "" || a.First != 0 || a.Status != 500 || a.Took <= 0 ||
		a.Tokens != 0 || a.Waited != time.Second {
		t.Errorf("the first try: %+v", a)
	}
	if b.Failed != "" || b.Broke != "" || b.First <= 0 || b.Status != 200 || b.Took < b.First || b.Tokens != 7 ||
		b.Backend != two.Backend || b.URL != two.URL || b.Role != RoleTarget {
		t.Errorf("the second: %+v", b)
	}
	// Who waited for one try has waited for the next, too.
	if r.waited != 2*time.Second || r.tickets[0].Waited != 0 || r.tickets[1].Waited != time.Second {
		t.Errorf("waited %v, tickets %+v", r.waited, r.tickets)
	}
	if r.costs != 1 {
		t.Errorf("costs were told %d times, want once: the first backend did nothing", r.costs)
	}
	r.given("at the end")
}

func TestTheLongestWaitThatABusyPoolAsksForIsTold(t *testing.T) {
	r := newRig(t, 3)
	busy := engine.Failure{Kind: engine.Backpressure, RetryAfter: 7 * time.Second}
	less := busy
	less.RetryAfter = time.Second
	r.fails(busy, less)
	_, err := r.d.Open(t.Context(), r.order())
	if e, ok := errors.AsType[*ExhaustedError](err); !ok || !e.AllBusy || e.RetryAfter != 7*time.Second {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestRetriesAreAShareOfTheCallsUnderWay(t *testing.T) {
	for _, tc := range []struct {
		active, retrying int64
		kind             engine.FailureKind
		tries, spent     int
	}{
		{0, minRetries - 1, engine.ServerError, 2, 0},
		{0, minRetries, engine.ServerError, 1, 1},
		{199, 39, engine.ServerError, 2, 0}, // and this one
		{199, 40, engine.ServerError, 1, 1},
		{0, minRetries, engine.Reset, 2, 0}, // whose backend is gone is tried elsewhere all the same
	} {
		r := newRig(t, 2)
		r.d.active.Store(tc.active)
		r.d.retrying.Store(tc.retrying)
		r.fails(engine.Failure{Kind: tc.kind})
		_, err := r.d.Open(t.Context(), r.order())
		if len(r.attempts) != tc.tries || r.spent() != tc.spent || err == nil {
			t.Errorf("%+v: %d tries, %d times the budget was spent, %v", tc, len(r.attempts), r.spent(), err)
		}
		if r.d.active.Load() != tc.active || r.d.retrying.Load() != tc.retrying {
			t.Errorf("%+v: %d under way and %d retries afterwards", tc, r.d.active.Load(), r.d.retrying.Load())
		}
	}
}

func TestTheOnlyBackendIsAskedAgainWhereItMayBeWell(t *testing.T) {
	for _, tc := range []struct {
		failure engine.Failure
		tries   int
	}{
		{engine.Failure{Kind: engine.Reset, ReusedConnection: true}, 3}, {engine.Failure{Kind: engine.Silent}, 3},
		{engine.Failure{Kind: engine.Reset}, 1}, {engine.Failure{Kind: engine.ServerError}, 1},
	} {
		r := newRig(t, 1)
		r.fails(tc.failure)
		o := r.order()
		o.Retry.MaxRetries = 2
		_, err := r.d.Open(t.Context(), o)
		if e, ok := errors.AsType[*ExhaustedError](err); len(r.attempts) != tc.tries || !ok || e.Tries != tc.tries {
			t.Errorf("%+v: %d tries, %v", tc.failure, len(r.attempts), err)
		}
		r.given(string(tc.failure.Kind))
	}
	r := newRig(t, 1)
	r.fails(engine.Failure{Kind: engine.Silent}, engine.Failure{})
	x, err := r.d.Open(t.Context(), r.order())
	if err != nil || !x.keepsBackend { // nobody else is left, however silent it is
		t.Fatalf("%v", err)
	}
	x.Drop()
	r = newRig(t, 1)
	r.d.retrying.Store(minRetries)
	r.fails(engine.Failure{Kind: engine.Silent})
	if _, err := r.d.Open(t.Context(), r.order()); err == nil || len(r.attempts) != 1 || r.spent() != 1 {
		t.Errorf("without a retry in the budget: %d tries, %v", len(r.attempts), err)
	}
}

func TestWhatAnOrderExcludesStaysAsItWas(t *testing.T) {
	r := newRig(t, 3)
	r.fails(engine.Failure{Kind: engine.Reset})
	o := r.order()
	o.Demand.Exclude = append(make([]string, 0, 8), "b0")
	_, _ = r.d.Open(t.Context(), o)
	all := o.Demand.Exclude[:cap(o.Demand.Exclude)]
	if all[1] != "" || len(r.attempts) != 2 || r.attempts[0].Backend == "b0" || r.attempts[1].Backend == "b0" {
		t.Errorf("the caller's list is %q; tried %v", all, r.attempts)
	}
}

func TestWhoIsTurnedAwayHearsWhy(t *testing.T) {
	away := errors.New("turned away")
	r := newRig(t, 2)
	r.enter = func() error { return away }
	if _, err := r.d.Open(t.Context(), r.order()); err != away || len(r.attempts) > 0 || r.waited != time.Second {
		t.Errorf("%v after %v, %d tries", err, r.waited, len(r.attempts))
	}
	// Behind a try that failed, too, and not what that failed of.
	r = newRig(t, 2)
	r.fails(engine.Failure{Kind: engine.Reset})
	r.enter = func() error {
		if len(r.attempts) > 0 {
			return away
		}
		return nil
	}
	if _, err := r.d.Open(t.Context(), r.order()); err != away || len(r.attempts) != 1 {
		t.Errorf("%v after %d tries", err, len(r.attempts))
	}
	r.given("at the end")
}

func TestABackendWithoutAPermitIsPassedOver(t *testing.T) {
	r := newRig(t, 3)
	r.allow = func(backend string) error {
		if backend != "b2" {
			return errors.New("open")
		}
		return nil
	}
	x, err := r.d.Open(t.Context(), r.order())
	if err != nil || x.Backend() != "b2" {
		t.Fatalf("%v", err)
	}
	x.Drop()
	r.given("at the end")
	r.allow = func(string) error { return errors.New("open") }
	if _, err = r.d.Open(t.Context(), r.order()); !errors.Is(err, pool.ErrNoBackend) {
		t.Errorf("%v", err)
	}
	r.given("without any")
}

func TestAQuestionIsAskedOnce(t *testing.T) {
	r := newRig(t, 3)
	o := r.order()
	o.Call = &engine.Answer{}
	r.answer = func(a *engine.Attempt) (engine.Stream, error) {
		a.Used = openai.Usage{Prompt: 5, Completion: 3}
		return &stream{}, nil
	}
	backend, err := r.d.Do(t.Context(), o)
	if err != nil || backend != r.attempts[0].Backend || r.tries[0].Tokens != 3 || r.tries[0].Waited != 0 || r.waited != 0 {
		t.Errorf("%q, %v, %+v", backend, err, r.tries)
	}
	r.fails(engine.Failure{Kind: engine.ServerError})
	backend, err = r.d.Do(t.Context(), o)
	if f, ok := err.(*engine.Failure); !ok || f.Backend != backend || f.Pool != "p" || len(r.attempts) != 2 || r.failed() != 1 {
		t.Errorf("%q, %v, %d attempts", backend, err, len(r.attempts))
	}
	r.enter = func() error { return pool.ErrFull }
	if backend, err = r.d.Do(t.Context(), o); err != pool.ErrFull || backend != "" || len(r.attempts) != 2 {
		t.Errorf("%q, %v", backend, err)
	}
	r.given("at the end")
}

func TestBeforeAQuestionThereIsAPlaceForIt(t *testing.T) {
	r := newRig(t, 1)
	unbooked := errors.New("unbooked")
	o := r.order()
	o.Call = &engine.Answer{}
	for _, end := range []error{nil, unbooked} {
		r.attempts, r.tries, r.reports = nil, nil, nil
		o.Before = func(context.Context) error {
			if n := r.pool.Snapshot()[0].InFlight; n != 1 || len(r.attempts) > 0 {
				t.Errorf("%d places, %d attempts before", n, len(r.attempts))
			}
			return end
		}
		backend, err := r.d.Do(t.Context(), o)
		if err != end || (backend == "") != (end != nil) || (len(r.attempts) == 0) != (end != nil) || (len(r.tries) == 0) != (end != nil) {
			t.Errorf("%q, %v, %d attempts, %d entries", backend, err, len(r.attempts), len(r.tries))
		}
		if want := map[bool]string{true: "b0 ok", false: "b0 client_gone"}[end == nil]; !slices.Equal(r.reports, []string{want}) {
			t.Errorf("breakers were told %v, want %s", r.reports, want)
		}
		r.given(fmt.Sprint(end))
	}
}

func TestAPanicGivesBackAllThatWasHeld(t *testing.T) {
	for name, set := range map[string]func(*rig, *Request){
		"of the engines": func(r *rig, _ *Request) {
			r.answer = func(*engine.Attempt) (engine.Stream, error) { panic("of a test") }
		},
		"of the breaker": func(r *rig, _ *Request) { r.allow = func(string) error { panic("of a test") } },
		"of the queue":   func(r *rig, _ *Request) { r.enter = func() error { panic("of a test") } },
		"of the record":  func(_ *rig, o *Request) { o.Events = panicky{o.Events} },
		"at the second try": func(r *rig, _ *Request) {
			r.answer = func(*engine.Attempt) (engine.Stream, error) {
				if len(r.attempts) == 2 {
					panic("of a test")
				}
				return nil, &engine.Failure{Kind: engine.ServerError}
			}
		},
		"before a question": func(_ *rig, o *Request) { o.Before = func(context.Context) error { panic("of a test") } },
	} {
		r := newRig(t, 2)
		o := r.order()
		set(r, &o)
		for way, call := range map[string]func(){
			"Open": func() {
				x, err := r.d.Open(t.Context(), o)
				if err == nil { // nothing comes before it
					x.Drop()
					panic("none of its own")
				}
			},
			"Ask": func() {
				o := o
				o.Call = &engine.Answer{}
				if _, err := r.d.Do(t.Context(), o); err != nil || name == "at the second try" {
					panic("none of its own")
				}
			},
		} {
			if panicked := func() (p any) {
				defer func() { p = recover() }()
				call()
				return nil
			}(); panicked == nil {
				t.Errorf("%s, %s: no panic", name, way)
			}
			r.given(name + ", " + way)
		}
	}
}

// panicky is a record that panics when it is told of a call.
type panicky struct{ Events }

func (panicky) Tried(Try, time.Time) int { panic("of a test") }

func TestAnotherCallIsMadeInsteadWhereOnlyItsPoolHasRoom(t *testing.T) {
	r := newRig(t, 1)
	var err error
	other := r.order()
	if other.Pool, err = pool.New(pool.Options{Name: "other", Model: "other", Backends: []string{"http://o0"}}); err != nil {
		t.Fatal(err)
	}
	o := r.order()
	o.Tier, o.Instead = plan.Draft, func() Request { return other }
	r.limit = pool.Admission{MaxUsage: 0.5}
	opened := map[plan.Tier]int{}
	for err == nil { // a backend without readings takes 32 requests with a limit
		var x *Exchange
		if x, err = r.d.Open(t.Context(), o); err == nil {
			opened[x.Tier()]++
			t.Cleanup(x.Drop)
			if want := x.Tier() == plan.Draft; (x.request.Pool == r.pool) != want {
				t.Fatalf("tier %s at pool %s", x.Tier(), x.request.Pool.Name())
			}
		}
	}
	full, ok := errors.AsType[*pool.FullError](err)
	if !ok || full.Pool != "p" || opened[plan.Draft] != 32 || opened[plan.Target] != 32 {
		t.Errorf("%v after %v, want 32 of each and then that p is full", err, opened)
	}
}
