package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// Every refusal is one of these, for errors.Is.
var (
	ErrLimited   = errors.New("rate limited")     // a [*LimitError]
	ErrExhausted = errors.New("budget exhausted") // a [*BudgetError]
)

// Kind is the limit that was reached.
type Kind string

// The limits, as metrics and messages name them.
const (
	Requests    Kind = "requests"
	Tokens      Kind = "tokens"
	Concurrency Kind = "concurrency"
)

// LimitError is a refusal by a limit.
type LimitError struct {
	Tenant    string
	Limit     Kind
	Max       int           // the limit: per minute, or concurrent
	Here      int           // of concurrent ones, those of this replica
	Requested int           // tokens, or answers at once, else 1
	Wait      time.Duration // until a place is free for this client
	Retry     bool          // whoever comes again after Wait is expected to be admitted
	// NeverFits means that the request can never be admitted: it asks for more tokens than the limit per
	// minute, or for more answers than the tenant may have at once. Wait is then 0.
	NeverFits bool
	Status    Status
}

// Error names the tenant, the limit and the wait.
func (e *LimitError) Error() string {
	switch {
	case e.NeverFits && e.Limit == Concurrency:
		return fmt.Sprintf("tenant %s asks for %d answers at once, more than its %d", e.Tenant, e.Requested, e.Max)
	case e.NeverFits:
		return fmt.Sprintf("tenant %s asks for %d tokens at once, more than its %d per minute", e.Tenant, e.Requested, e.Max)
	case e.Limit == Concurrency:
		return fmt.Sprintf("tenant %s may have %d answers under way here, and has no place for %d more", e.Tenant, e.Here, e.Requested)
	}
	return fmt.Sprintf("tenant %s has used up its %d %s per minute; the next in %s", e.Tenant, e.Max, e.Limit, e.Wait.Round(time.Millisecond))
}

// Unwrap makes it an [ErrLimited].
func (e *LimitError) Unwrap() error { return ErrLimited }

// BudgetError is a refusal by a budget.
type BudgetError struct {
	Tenant string
	Budget identity.Budget
	Need   int64         // what the request may need, in the unit of the budget: tokens or 1e-9 USD
	Left   int64         // what is left, in the same unit
	Wait   time.Duration // until the window ends, or shorter if Reserved
	// Reserved means that the budget is not used up: requests in progress have reserved the rest, and may use less.
	Reserved bool
	// Uncounted means that nobody knows what is left: Redis does not answer, and the budget has on_redis_loss: deny.
	Uncounted bool
}

// Error names the tenant, the budget and the wait.
func (e *BudgetError) Error() string {
	if e.Uncounted {
		return fmt.Sprintf("tenant %s has a budget per %s that cannot be counted now: Redis does not answer", e.Tenant, e.Budget.Per)
	}
	until := "the next window begins in "
	if e.Reserved {
		until = "requests in progress have reserved the rest, try again in "
	}
	return fmt.Sprintf("tenant %s has %s left of its budget of %s per %s, and the request may need %s; %s%s",
		e.Tenant, Amount(e.Budget, e.Left), Amount(e.Budget, limitOf(e.Budget)), e.Budget.Per, Amount(e.Budget, e.Need), until, e.Wait.Round(time.Second))
}

// Unwrap makes it an [ErrExhausted].
func (e *BudgetError) Unwrap() error { return ErrExhausted }

// limitOf returns a budget's limit, in its unit.
func limitOf(b identity.Budget) int64 { return max(b.Tokens, b.NanoUSD) }

// Amount returns an amount of a budget's unit as text: "0.5 USD" or "12 tokens".
func Amount(b identity.Budget, n int64) string {
	if b.Tokens > 0 {
		return fmt.Sprintf("%d tokens", n)
	}
	return fmt.Sprintf("%g USD", Nanos(n).USD())
}
