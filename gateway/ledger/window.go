package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// maxAmount bounds every sum: 9e15 tokens, or 9 million USD. Lua and JSON count so far exactly.
const maxAmount = 9_000_000_000_000_000

// plus is a sum that stays within ±maxAmount.
func plus(a, b int64) int64 { return max(-maxAmount, min(a+b, maxAmount)) }

// periods are the lengths of windows, in the order of Redis.
var periods = [...]identity.Period{identity.Hour, identity.Day, identity.Month}

// indexOf is where a budget's window is among a tenant's.
func indexOf(b identity.Budget) int { return max(0, slices.Index(periods[:], b.Per)) }

// amounts are tokens and nano-dollars, 0 or more.
type amounts struct{ tokens, nanos int64 }

// nanos converts expected dollars to nano-dollars, rounded up. What is no price is 0.
func nanos(usd float64) int64 {
	if !(usd > 0) {
		return 0
	}
	return int64(math.Ceil(math.Min(usd*nanosPerUSD, maxAmount)))
}

func (a amounts) plus(b amounts) amounts {
	return amounts{plus(a.tokens, b.tokens), plus(a.nanos, b.nanos)}
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

// window is this process' part of a tenant's window, and what it knows of the others'.
type window struct {
	begin, end int64 // Unix time; 0: it is not counted
	own        part
	others     part    // as heard last; what is settled never becomes less, so a reply with less lacks something
	base       amounts // total of own when it was heard
}

// begins are those of windows; 0: none.
type begins [len(periods)]int64

// open begins the window of a period that a time is in, unless it has begun.
func (w *window) open(per identity.Period, now time.Time) {
	if now.Unix() >= w.end {
		begin, end := per.Window(now)
		*w = window{begin: begin.Unix(), end: end.Unix()}
	}
}

// hear takes over the others' part.
func (w *window) hear(others part) {
	s := &w.others.settled
	s.tokens, s.nanos = max(s.tokens, others.settled.tokens), max(s.nanos, others.settled.nanos)
	w.others.reserved, w.base = others.reserved, w.own.total()
}

// left is what of a budget is neither settled nor reserved.
func (w *window) left(b identity.Budget) int64 {
	return max(0, limitOf(b)-w.others.total().of(b)-w.own.total().of(b))
}

// overdrawn reports whether what is settled, as far as this process knows, leaves no room for a request, whatever Redis says.
func (w *window) overdrawn(b identity.Budget, ask amounts) bool {
	spent := w.own.settled.plus(w.others.settled).of(b)
	return spent >= limitOf(b) || spent+ask.of(b) > limitOf(b)
}

// admits decides from what this process knows, as one of n replicas: whether own, which includes ask, fits into the
// budget, and into 1/n of what was left when all were counted last.
func (w *window) admits(b identity.Budget, ask amounts, n int) bool {
	limit, own := limitOf(b), w.own.total().of(b)
	all := own + w.others.total().of(b)
	if all > limit || all-ask.of(b) >= limit {
		return false
	}
	share := max(0, limit-w.others.total().of(b)-w.base.of(b)) / int64(n)
	return own-w.base.of(b) <= share
}

// reservedWait is when a request may try again that only reservations of others are in the way of: about the time of an
// answer.
const reservedWait = 2 * time.Second

// refusal is the refusal of a request that own includes.
func (w *window) refusal(b identity.Budget, ask amounts, n int, now time.Time) *BudgetError {
	e := &BudgetError{Budget: b, Need: ask.of(b), Wait: time.Unix(w.end, 0).Sub(now)}
	e.Left = max(0, limitOf(b)-w.others.total().of(b)-w.own.total().of(b)+ask.of(b))
	idle := *w // if the requests in progress used nothing
	idle.own.reserved, idle.others.reserved, idle.base = ask, amounts{}, w.own.settled
	if e.Reserved = idle.admits(b, ask, n); e.Reserved {
		e.Wait = min(e.Wait, reservedWait)
	}
	return e
}
