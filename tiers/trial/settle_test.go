package trial

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/compare"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/strategy"
)

// unanswered counts requests without an answer by side and reason.
type unanswered struct {
	compare.Recorder // no other method is called
	seen             map[compare.Side]map[compare.Unanswered]int
}

func (u *unanswered) AddUnanswered(_ compare.Pair, s compare.Side, why compare.Unanswered) {
	if u.seen[s] == nil {
		u.seen[s] = map[compare.Unanswered]int{}
	}
	u.seen[s][why]++
}

func TestARequestWithoutAWholeAnswerIsCountedWithItsReason(t *testing.T) {
	rejected := func(status int) error { return &engine.Failure{Kind: engine.Rejected, Status: status} }
	for what, c := range map[string]struct {
		err      error
		first    time.Duration // until the first byte; 0: there was none
		left     bool
		diverted bool
		want     compare.Unanswered
	}{
		"the engines are down":                   {&engine.Failure{Kind: engine.Refused}, 0, false, false, compare.Failed},
		"they are busy":                          {fmt.Errorf("queue: %w", pool.ErrFull), 0, false, false, compare.Failed},
		"there is no backend":                    {&pool.NoBackendError{Total: 2, Full: 1}, 0, false, false, compare.Failed},
		"they do not know the model":             {rejected(http.StatusNotFound), 0, false, false, compare.Failed},
		"the answer broke off":                   {&strategy.BrokenError{Cause: &engine.Failure{Kind: engine.Cut}}, time.Second, false, false, compare.Failed},
		"a field is not supported":               {rejected(http.StatusBadRequest), 0, false, false, compare.Rejected},
		"the prompt is too long for each":        {&pool.NoBackendError{Total: 2, Full: 2}, 0, false, false, compare.Rejected},
		"the client left":                        {&engine.Failure{Kind: engine.Cut}, 0, true, false, compare.Left},
		"the client's connection broke":          {errors.New("write: broken pipe"), time.Second, false, false, compare.Left},
		"the call ended because the client left": {&engine.Failure{Kind: engine.ClientGone}, 0, false, false, compare.Left},
		"the incumbent answered":                 {nil, time.Second, false, true, compare.Diverted},
	} {
		var u unanswered
		u.seen = map[compare.Side]map[compare.Unanswered]int{}
		trial := &Trial{
			trials: &Trials{Options: Options{Recorder: &u}}, request: &inflight.Request{}, counts: true,
			setup: Setup{Pairs: make([]compare.Pair, 2), Side: compare.Candidate, Diverted: c.diverted},
		}
		trial.Settle(Done{Outcome: &strategy.Outcome{First: c.first}, Err: c.err, Left: c.left})
		want := map[compare.Side]map[compare.Unanswered]int{compare.Candidate: {c.want: 2}}
		if diff := cmp.Diff(want, u.seen); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}
