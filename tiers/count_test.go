package tiers

import (
	"errors"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
)

func TestAPromptIsRefusedByItsCountAndNotByItsEstimate(t *testing.T) {
	for name, c := range map[string]struct {
		counted int // by the engine; 0: it cannot
		sent    bool
	}{
		"blanks": {800, true}, "a large prompt": {1601, false}, "an engine without a tokenizer": {0, true},
	} {
		r := newCheckRig(t, "0")
		for _, b := range r.target.Snapshot() { // memory for 1,600 tokens
			r.target.Observe(b.ID, pressure.Reading{At: time.Now(), BlockSize: 16, Blocks: 101, Engines: 1}, nil)
		}
		asked := 0
		r.reply = func(a *engine.Attempt) error {
			q, tokenizes := a.Call.(*engine.TokenizePrompt)
			switch {
			case !tokenizes:
				asked++
			case c.counted == 0:
				return &engine.Failure{Kind: engine.Rejected, Status: 404}
			default:
				*q.Into = make([]int32, c.counted)
			}
			return nil
		}
		caller := r.asker.caller
		caller.Needs.PromptBytes = 700 << 10
		o := caller.NewRequest(caller.Target, &engine.ContinueText{Request: caller.Body})
		x, err := caller.Open(t.Context(), o)
		if x != nil {
			x.Drop()
		}
		none, refused := errors.AsType[*pool.NoBackendError](err)
		if (err == nil) != c.sent || asked > 0 != c.sent {
			t.Errorf("%s: %v, sent %d times", name, err, asked)
		}
		if !c.sent && (!refused || !none.TooLong || none.Prompt != c.counted || none.Largest != 1600) {
			t.Errorf("%s: %+v", name, none)
		}
	}
}
