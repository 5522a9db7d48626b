package lookup

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestARequestWaitsForAllItsQuestionsTogetherNoLongerThanOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newClient(Options{}), newClient(Options{})
		ctx := WithWaited(t.Context(), new(Waited))
		began := time.Now()
		if got, err := Do(ctx, first, after(budget/3, nil)); got != 7 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		if _, err := Do(ctx, second, after(time.Second, nil)); !errors.Is(err, ErrLate) {
			t.Errorf("the second call: %v", err)
		}
		asked := make(chan struct{})
		if _, err := Do(ctx, first, func(context.Context) (int, error) { close(asked); time.Sleep(time.Second); return 0, nil }); !errors.Is(err, ErrLate) {
			t.Errorf("the third call: %v", err)
		}
		if took := time.Since(began); took != budget {
			t.Errorf("waited for %v", took)
		}
		<-asked // though nobody had time left for it
		if _, err := Do(WithWaited(t.Context(), new(Waited)), second, after(budget-1, nil)); err != nil {
			t.Errorf("another request: %v", err)
		}
		first.Drain(time.Minute)
		second.Drain(time.Minute)
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
				p.add(budget / 2)
				if _, err := Do(WithWaited(t.Context(), p), a, after(c.takes, c.err)); !errors.Is(err, ErrLate) {
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
