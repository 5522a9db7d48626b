package budgets

import (
	"errors"
	"fmt"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// ErrExhausted is every refusal, for errors.Is.
var ErrExhausted = errors.New("budget exhausted")

// Error is a refusal; it is an [ErrExhausted].
type Error struct {
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
func (e *Error) Error() string {
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
func (e *Error) Unwrap() error { return ErrExhausted }

// limitOf returns a budget's limit, in its unit.
func limitOf(b identity.Budget) int64 { return max(b.Tokens, b.NanoUSD) }

// Amount returns an amount of a budget's unit as text: "0.5 USD" or "12 tokens".
func Amount(b identity.Budget, n int64) string {
	if b.Tokens > 0 {
		return fmt.Sprintf("%d tokens", n)
	}
	return fmt.Sprintf("%g USD", float64(n)/nanosPerUSD)
}
