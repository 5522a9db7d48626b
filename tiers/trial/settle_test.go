package trial

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/strategy"
)

// failures counts failures by side.
type failures struct {
	compare.Recorder // no other method is called
	sides            [2]int
}

func (f *failures) AddFailure(_ compare.Pair, s compare.Side) { f.sides[s]++ }

func TestARequestWithoutAnAnswerIsAFailureUnlessItOrItsClientIsAtFault(t *testing.T) {
	rejected := func(status int) error { return &engine.Failure{Kind: engine.Rejected, Status: status} }
	for what, c := range map[string]struct {
		err   error
		first time.Duration // until the first byte; 0: there was none
		left  bool
		want  int
	}{
		"the engines are down":                   {&engine.Failure{Kind: engine.Refused}, 0, false, 1},
		"they are busy":                          {fmt.Errorf("queue: %w", pool.ErrFull), 0, false, 1},
		"there is no backend":                    {&pool.NoBackendError{Total: 2, Full: 1}, 0, false, 1},
		"they do not know the model":             {rejected(http.StatusNotFound), 0, false, 1},
		"the answer broke off":                   {&strategy.BrokenError{Cause: &engine.Failure{Kind: engine.Cut}}, time.Second, false, 1},
		"the request is bad":                     {rejected(http.StatusBadRequest), 0, false, 0},
		"the prompt is too long for each":        {&pool.NoBackendError{Total: 2, Full: 2}, 0, false, 0},
		"the client left":                        {&engine.Failure{Kind: engine.Cut}, 0, true, 0},
		"the client's connection broke":          {errors.New("write: broken pipe"), time.Second, false, 0},
		"the call ended because the client left": {&engine.Failure{Kind: engine.ClientGone}, 0, false, 0},
	} {
		var f failures
		trial := &Trial{
			trials: &Trials{Options: Options{Recorder: &f}}, request: &inflight.Request{}, counts: true, mirrors: true,
			setup: Setup{Pairs: make([]compare.Pair, 2), Side: compare.Candidate, Mirror: &Mirror{}},
		}
		trial.Settle(Done{Outcome: &strategy.Outcome{First: c.first}, Err: c.err, Left: c.left})
		if f.sides != [2]int{0, 2 * c.want} {
			t.Errorf("%s: %d failures of the incumbent and %d of candidates, want 0 and %d", what, f.sides[0], f.sides[1], 2*c.want)
		}
	}
}
