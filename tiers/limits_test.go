package tiers

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/pressure"
)

func TestWhatWasUsedIsWhatTheReceiptKnows(t *testing.T) {
	got := dispatch.Try{Pool: "p", Backend: "b"}
	failed := dispatch.Try{Pool: "p", Backend: "b", Failed: engine.Refused}
	for _, c := range []struct {
		name string
		rc   *Receipt
		want int
	}{
		{"nothing was tried", nil, 0},
		{"all tries failed", &Receipt{Tries: []dispatch.Try{failed}}, 0},
		{"the whole answer", &Receipt{Tier: plan.Target, Tries: []dispatch.Try{got}, PromptTokens: 20, AcceptedTokens: 3, TargetTokens: 4, WastedTokens: 50}, 27},
		{"broken off before its usage", &Receipt{Tier: plan.Target, Tries: []dispatch.Try{got}, TargetTokens: 4}, 14},
		{"passed through", &Receipt{Tier: plan.Target, Tries: []dispatch.Try{got}}, -1},
		{"the client hung up before the first byte", &Receipt{Tries: []dispatch.Try{failed, {Failed: engine.ClientGone}}}, -1},
		{"its time was over before the first byte", &Receipt{Tries: []dispatch.Try{{Failed: engine.Expired}}}, -1},
		{"its answer was above limits.response_bytes", &Receipt{Tries: []dispatch.Try{{Failed: engine.TooLarge}}}, -1},
		{"nothing but its tokens were counted", &Receipt{Tries: []dispatch.Try{{Role: dispatch.RoleTokenize}, failed}}, 0},
	} {
		if used := (estimate{prompt: 10, answer: 100}).used(c.rc); used != c.want {
			t.Errorf("%s: %d, want %d", c.name, used, c.want)
		}
	}
}

func TestARequestIsChargedToItsBudgetOnceAndARefusalIsChargedToNoLimit(t *testing.T) {
	book := ledger.New(ledger.Options{})
	inBubble(t, func(o *PipelineOptions) { o.Ledger = book }, func(t *testing.T, b *bench) {
		acme := identity.Caller{Tenant: "acme", RPM: 60, Access: identity.Access{Budgets: []identity.Budget{{Tokens: 1000, Per: identity.Month}, {NanoUSD: 1e9, Per: identity.Day}}}}
		b.speaker.judged = func(_ int, _ made, rc *Receipt) { rc.USD = 0.25 }
		states := func() []ledger.BudgetState {
			return book.States(t.Context(), []ledger.BudgetQuery{{Tenant: "acme", Budgets: acme.Access.Budgets}})[0]
		}
		state := func() ledger.BudgetState { return states()[0] }
		first := b.ask(question{caller: acme, more: `,"max_tokens":900`})
		if first.err != nil {
			t.Fatal(first.err)
		}
		used := state()
		rc := first.record.Receipt
		if want := rc.PromptTokens + rc.AcceptedTokens + rc.TargetTokens; want == 0 || used.Used != int64(want) || used.Reserved != 0 {
			t.Errorf("%+v, want %d", used, want)
		}
		if usd := states()[1].Used; usd != 0.25e9 {
			t.Errorf("%d billionths of a dollar, want a quarter of one", usd)
		}
		if hit := b.ask(question{caller: acme, more: `,"max_tokens":900`}); hit.err != nil || state() != used {
			t.Errorf("a hit: %v, %+v", hit.err, state())
		}
		for range 20 { // far more than the burst of the limit
			refused := b.ask(question{caller: acme, more: `,"max_tokens":2000`})
			if e, ok := errors.AsType[*ledger.BudgetError](refused.err); !ok || e.Uncounted || e.Left != 1000-used.Used || refused.head != nil {
				t.Fatalf("%v", refused.err)
			}
		}
		b.speaker.fails = func(int) error { return errEngine }
		if a := b.ask(question{caller: acme, more: `,"max_tokens":90`}); !errors.Is(a.err, errEngine) || state() != used {
			t.Errorf("where no engine worked, nothing is used: %v, %+v", a.err, state())
		}
		acme.RPM = 1
		for range 2 {
			_ = b.ask(question{caller: acme, more: `,"max_tokens":91`})
		}
		if a := b.ask(question{caller: acme, more: `,"max_tokens":91`}); !errors.Is(a.err, ledger.ErrLimited) || state() != used {
			t.Errorf("refused by a limit: %v, %+v", a.err, state())
		}
	})
}

func TestTheEstimateInDollarsIsThatOfTheTargetAndTheDraft(t *testing.T) {
	prices := func() economy.Prices {
		return economy.Prices{DraftPrefill: 1e-7, DraftDecode: 2e-7, TargetPrefill: 1e-6, TargetDecode: 4e-6}
	}
	for name, c := range map[string]struct {
		prices economy.Prices
		want   float64
	}{
		"cascade":   {prices(), 1000*1.1e-6 + 100*4.2e-6},
		"forwarded": {targetPrices(&Route{Prices: prices}), 1000*1e-6 + 100*4e-6},
		"unknown":   {targetPrices(&Route{}), 0},
	} {
		if got := (estimate{prompt: 1000, answer: 100, prices: c.prices}).usd(); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %g, want %g", name, got, c.want)
		}
	}
}

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
