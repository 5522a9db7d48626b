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
		first, second := asker(Options{}), asker(Options{})
		ctx := WithPatience(t.Context(), new(Patience))
		began := time.Now()
		if got, err := Ask(ctx, first, after(budget/3, nil)); got != 7 || err != nil {
			t.Errorf("got %d, %v", got, err)
		}
		if _, err := Ask(ctx, second, after(time.Second, nil)); !errors.Is(err, ErrLate) {
			t.Errorf("the second question: %v", err)
		}
		asked := make(chan struct{})
		if _, err := Ask(ctx, first, func(context.Context) (int, error) { close(asked); time.Sleep(time.Second); return 0, nil }); !errors.Is(err, ErrLate) {
			t.Errorf("the third question: %v", err)
		}
		if took := time.Since(began); took != budget {
			t.Errorf("waited for %v", took)
		}
		<-asked // though nobody had time left for it
		if _, err := Ask(WithPatience(t.Context(), new(Patience)), second, after(budget-1, nil)); err != nil {
			t.Errorf("another request: %v", err)
		}
		first.Rest(time.Minute)
		second.Rest(time.Minute)
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
			a := asker(Options{Slots: 2 * FailuresInARow})
			for range 2 * FailuresInARow {
				p := new(Patience)
				p.spend(budget / 2)
				if _, err := Ask(WithPatience(t.Context(), p), a, after(c.takes, c.err)); !errors.Is(err, ErrLate) {
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
