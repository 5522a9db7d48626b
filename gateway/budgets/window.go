package budgets

import (
	"math"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	nanosPerUSD = 1e9
	// maxAmount bounds every sum: 9e15 tokens, or 9 million USD. Lua and JSON count so far exactly.
	maxAmount = 9_000_000_000_000_000
)

// nanos converts dollars to nano-dollars, rounded up. What is no price is 0.
func nanos(usd float64) int64 {
	if !(usd > 0) {
		return 0
	}
	return int64(math.Ceil(math.Min(usd*nanosPerUSD, maxAmount)))
}

// amounts are tokens and nano-dollars.
type amounts struct{ tokens, nanos int64 }

func (a amounts) plus(b amounts) amounts {
	return amounts{min(a.tokens+b.tokens, maxAmount), min(a.nanos+b.nanos, maxAmount)}
}

func (a amounts) minus(b amounts) amounts {
	return amounts{max(a.tokens-b.tokens, 0), max(a.nanos-b.nanos, 0)}
}

// of returns the amount in the unit of a budget.
func (a amounts) of(b identity.Budget) int64 {
	if b.Tokens > 0 {
		return a.tokens
	}
	return a.nanos
}

// part is what some processes have spent in a window: settled by requests that have ended, and reserved for those
// that have not.
type part struct{ settled, reserved amounts }

func (p part) total() amounts { return p.settled.plus(p.reserved) }

// windowID names a tenant's window.
type windowID struct {
	tenant string
	per    identity.Period
	begin  int64 // Unix time
}

// window is this process's part of a tenant's window, and what it knows of the others'. The ledger's lock guards it.
type window struct {
	id         windowID
	key, field string // in Redis
	end        time.Time

	version int64 // of own, as sent last
	own     part
	pending int // requests that wait for a reply about it

	heard  int64   // version of the newest call with a usable reply; 0: none
	others part    // in that reply
	base   amounts // total of own when it came
}

// left returns what is left of a budget as far as this process knows. own includes the request that asks.
func (w *window) left(b identity.Budget, ask amounts) int64 {
	return max(0, limitOf(b)-w.others.total().of(b)-w.own.total().of(b)+ask.of(b))
}

// admits decides from what this process knows, as one of n replicas: whether own, which includes ask, fits into the
// budget, and into 1/n of what was left when all were counted last.
func (w *window) admits(b identity.Budget, ask amounts, n int) bool {
	limit, own := limitOf(b), w.own.total().of(b)
	all, asked := own+w.others.total().of(b), ask.of(b)
	if all > limit || all-asked >= limit {
		return false
	}
	share := max(0, limit-w.others.total().of(b)-w.base.of(b)) / int64(max(n, 1))
	return own-w.base.of(b) <= share
}

// onlyReserved reports whether a request that is refused would be admitted if those in progress used nothing, so that it may
// pass when they end.
func (w *window) onlyReserved(b identity.Budget, ask amounts, n int) bool {
	idle := *w
	idle.own.reserved, idle.others.reserved, idle.base = ask, amounts{}, w.own.settled
	return idle.admits(b, ask, n)
}

// reply is the others' part of a window, as Redis reported it for a version.
func (w *window) reply(version int64, others part) {
	if version < w.heard {
		return // a newer call was answered before
	}
	w.heard, w.others, w.base = version, others, w.own.total()
}
