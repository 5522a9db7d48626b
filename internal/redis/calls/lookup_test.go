package calls

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const budget = 15 * time.Millisecond

func newClient(o Options) *Client {
	o.Budget = func() time.Duration { return budget }
	if o.Slots == 0 {
		o.Slots = 4
	}
	return New(o)
}

// tried is a background whose probes end with an error.
func tried(err error) Background {
	return Background{Probe: func(context.Context) error { return err }, Back: func(context.Context) {}}
}

func after(d time.Duration, err error) func(context.Context) (int, error) {
	return func(context.Context) (int, error) {
		time.Sleep(d)
		return 7, err
	}
}

func TestAQuestionIsWaitedForNoLongerThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newClient(Options{})
		began := time.Now()
		if got, err := Do(t.Context(), a, after(budget-1, nil), Late[int]{}); got != 7 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		if got, err := Do(t.Context(), a, after(time.Minute, nil), Late[int]{}); got != 0 || !errors.Is(err, ErrLate) {
			t.Errorf("got %d, %v", got, err)
		}
		if took := time.Since(began); took != 2*budget-1 {
			t.Errorf("waited for %v", took)
		}
		if len(a.slots) != 1 {
			t.Errorf("%d are under way", len(a.slots))
		}
		a.Drain(time.Second)
		if took := time.Since(began); took != 2*budget-1+time.Second {
			t.Errorf("rested for %v", took-2*budget+1)
		}
		time.Sleep(time.Minute) // what is under way ends
	})
}

func TestAQuestionIsNotCancelledWithItsRequest(t *testing.T) {
	a := newClient(Options{})
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, 1))
	cancel()
	if _, err := Do(ctx, a, func(ctx context.Context) (int, error) {
		if ctx.Value(key{}) == nil {
			t.Error("the request's values are lost")
		}
		return 0, ctx.Err()
	}, Late[int]{}); err != nil {
		t.Error(err)
	}
}

func TestQuestionsUnderWayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newClient(Options{Slots: 3})
		var busy, late atomic.Int32
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				switch _, err := Do(t.Context(), a, after(time.Second, nil), Late[int]{}); {
				case errors.Is(err, ErrBusy):
					busy.Add(1)
				case errors.Is(err, ErrLate):
					late.Add(1)
				}
			})
		}
		all.Wait()
		if busy.Load() != 7 || late.Load() != 3 {
			t.Errorf("%d busy, %d late", busy.Load(), late.Load())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(a.slots) != 0 {
			t.Error("the slots are not given back")
		}
	})
}

func TestAQuestionWaitsForItsTurnWithinItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newClient(Options{Slots: 1})
		const each = budget * 2 / 7 // no answer comes just when the budget ends
		began := time.Now()
		var busy, answered atomic.Int32
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				switch _, err := Do(t.Context(), a, after(each, nil), Late[int]{}); {
				case errors.Is(err, ErrBusy):
					busy.Add(1)
				case err == nil:
					answered.Add(1)
				}
				if took := time.Since(began); took > budget {
					t.Errorf("waited for %v", took)
				}
			})
		}
		all.Wait()
		if answered.Load() != 3 || busy.Load() != 6 { // the fourth begins, and its answer comes too late
			t.Errorf("%d answered, %d busy", answered.Load(), busy.Load())
		}
		if a.Away() {
			t.Error("too many calls are no fault of Redis")
		}
		a.Drain(time.Second)
	})
}

func TestNobodyAsksAfterFiveFailuresUntilATryWasGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, wrong := errors.New("broken"), errors.New("wrong key")
		var closed []error
		a := newClient(Options{
			IsAnswer: func(err error) bool { return errors.Is(err, wrong) },
			OnAway:   func(err error) { closed = append(closed, err) },
		})
		for range 10 * MaxFailures { // these are answers
			_, _ = Do(t.Context(), a, after(0, wrong), Late[int]{})
		}
		for range MaxFailures {
			if a.Away() {
				t.Fatal("too early")
			}
			if _, err := Do(t.Context(), a, after(0, broken), Late[int]{}); !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		asked := false
		ask := func() error {
			_, err := Do(t.Context(), a, func(context.Context) (int, error) { asked = true; return 0, nil }, Late[int]{})
			return err
		}
		if err := ask(); !errors.Is(err, ErrAway) || asked || !a.Away() || a.untilProbe() <= 0 {
			t.Errorf("%v, asked %t", err, asked)
		}
		if len(closed) != 1 || !errors.Is(closed[0], broken) {
			t.Errorf("told %v", closed)
		}
		time.Sleep(2 * pause)
		if a.untilProbe() > 0 {
			t.Error("it is not tried")
		}
		a.probe(t.Context(), tried(errors.New("down")))
		if a.untilProbe() <= 0 {
			t.Error("it is tried again at once")
		}
		time.Sleep(2 * pause)
		a.probe(t.Context(), tried(nil))
		if a.Away() {
			t.Error("it is left alone still")
		}
		if err := ask(); err != nil || !asked {
			t.Error(err)
		}
	})
}

func TestAPanicIsAFailure(t *testing.T) {
	a := newClient(Options{})
	for range MaxFailures {
		if _, err := Do(t.Context(), a, func(context.Context) (int, error) { panic("a reply") }, Late[int]{}); err == nil {
			t.Error("no error")
		}
	}
	if !a.Away() {
		t.Error("it is asked on")
	}
	a.Drain(time.Second)
}

func TestAnAnswerIsHeardByWhoAskedOrByWhoIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gotReply, unheard atomic.Int32
		for i := range 200 { // around the very moment
			a := newClient(Options{})
			d := budget + time.Duration(i%3-1)
			got, err := Do(t.Context(), a, after(d, nil), Late[int]{OnLate: func(_ context.Context, n int) { unheard.Add(int32(n)) }})
			if err == nil {
				gotReply.Add(int32(got))
			}
			a.Drain(time.Minute)
		}
		if n := gotReply.Load() + unheard.Load(); n != 200*7 {
			t.Errorf("%d of 200 answers came to somebody", n/7)
		}
		a := newClient(Options{})
		_, _ = Do(t.Context(), a, after(time.Second, errors.New("broken")), Late[int]{OnLate: func(context.Context, int) { t.Error("an error is no answer") }})
		_, _ = Do(t.Context(), a, after(time.Second, nil), Late[int]{OnLate: func(context.Context, int) { panic("at an answer") }})
		a.Drain(time.Minute)
	})
}

func TestAnAnswerThatIsWorthMoreIsWaitedForLongerThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const extra = 2 * budget
		for _, c := range []struct {
			extra, answer time.Duration
			gotReply      bool
			wait          time.Duration
		}{
			{extra, budget / 2, true, budget / 2},
			{extra, 2 * budget, true, 2 * budget},
			{extra, 4 * budget, false, 3 * budget},
			{0, 2 * budget, false, budget},
		} {
			a := newClient(Options{})
			unheard := 0
			began := time.Now()
			_, err := Do(t.Context(), a, after(c.answer, nil), Late[int]{Extra: c.extra, OnLate: func(context.Context, int) { unheard++ }})
			if took := time.Since(began); (err == nil) != c.gotReply || took != c.wait {
				t.Errorf("%+v: %v after %v", c, err, took)
			}
			a.Drain(time.Minute)
			if (unheard == 0) != c.gotReply {
				t.Errorf("%+v: %d answers went to nobody", c, unheard)
			}
			if (a.failures > 0) == c.gotReply {
				t.Errorf("%+v: %d failures", c, a.failures)
			}
		}
	})
}

func TestAWaitThatWasCutShortSaysNothingOfRedisBeforeItsAnswerComes(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		err   error
		away  bool
	}{
		"in time for the whole budget":  {takes: budget},
		"late for the whole budget too": {takes: budget + 1, away: true},
		"an error":                      {takes: budget, err: errors.New("broken"), away: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := newClient(Options{Slots: 2 * MaxFailures})
			for range 2 * MaxFailures {
				p := new(Waited)
				p.total.Add(int64(budget / 2))
				if _, err := Do(WithWaited(t.Context(), p), a, after(c.takes, c.err), Late[int]{}); !errors.Is(err, ErrLate) {
					t.Errorf("%s: %v", name, err)
				}
				if a.Away() {
					t.Fatalf("%s: it is left alone before anybody knows", name)
				}
				time.Sleep(c.takes - budget/2)
				synctest.Wait()
				if a.Away() {
					break
				}
			}
			if a.Away() != c.away {
				t.Errorf("%s: left alone is %t", name, a.Away())
			}
		})
	}
}
