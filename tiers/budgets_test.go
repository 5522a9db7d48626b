package tiers

import (
	"errors"
	"math"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/gateway/ledger"
	"github.com/foregate/foregate/tiers/economy"
)

func TestARequestIsChargedToItsBudgetOnceAndARefusalIsChargedToNoLimit(t *testing.T) {
	book := ledger.New(ledger.Options{})
	inBubble(t, func(o *PipelineOptions) { o.Ledger = book }, func(t *testing.T, b *bench) {
		acme := identity.Caller{Tenant: "acme", RPM: 60, Access: &identity.Access{Budgets: []identity.Budget{{Tokens: 1000, Per: identity.Month}}}}
		state := func() ledger.BudgetState {
			return book.States(t.Context(), []ledger.BudgetQuery{{Tenant: "acme", Budgets: acme.Access.Budgets}})[0][0]
		}
		first := b.ask(question{caller: acme, more: `,"max_tokens":900`})
		if first.err != nil {
			t.Fatal(first.err)
		}
		used := state()
		rc := first.record.Receipt
		if want := rc.PromptTokens + rc.AcceptedTokens + rc.TargetTokens; want == 0 || used.Used != int64(want) || used.Reserved != 0 {
			t.Errorf("%+v, want %d", used, want)
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
