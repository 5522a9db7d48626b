package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// What a request is counted by: limits per minute count the first three, budgets tokens and nano-dollars.
const (
	ofRequests = iota
	ofTokens
	ofHigh // requests of priority high
	ofNanos
	numCosts

	numLevels = ofNanos
	numHeard  = ofHigh // levels that Redis tells
)

// maxAmount bounds every sum: 9e15 tokens, or 9 million USD. Lua and JSON count so far exactly.
const maxAmount = 9_000_000_000_000_000

// plus is a sum that stays within ±maxAmount.
func plus(a, b int64) int64 { return max(-maxAmount, min(a+b, maxAmount)) }

// cost is what requests have used, or may use. What corrects another may be negative.
type cost [numCosts]int64

func (c cost) plus(o cost) cost {
	for i := range c {
		c[i] = plus(c[i], o[i])
	}
	return c
}

func (c cost) times(n int64) cost {
	for i := range c {
		c[i] *= n
	}
	return c
}

// of returns what a budget counts.
func (c cost) of(b identity.Budget) int64 {
	if b.Tokens > 0 {
		return c[ofTokens]
	}
	return c[ofNanos]
}

// nanos converts expected dollars to nano-dollars, rounded up. What is no price is 0.
func nanos(usd float64) int64 {
	if !(usd > 0) {
		return 0
	}
	return int64(math.Ceil(math.Min(usd*nanosPerUSD, maxAmount)))
}

// periods are the lengths of windows, in the order of Redis.
var periods = [...]identity.Period{identity.Hour, identity.Day, identity.Month}

// indexOf is where a budget's window is among a tenant's.
func indexOf(b identity.Budget) int { return max(0, slices.Index(periods[:], b.Per)) }

// part is what some processes have spent in a window: settled by requests that have ended, and reserved for those
// that have not.
type part struct{ settled, reserved cost }

func (p part) total() cost { return p.settled.plus(p.reserved) }

// window is this process' part of a tenant's window, and what it knows of the others'.
type window struct {
	begin, end int64 // Unix time; 0: it is not counted
	own        part
	others     part // as heard last; what is settled never becomes less, so a reply with less lacks something
	base       cost // total of own when it was heard
}

// windows are a tenant's, in the order of periods.
type windows [len(periods)]window

// begins name windows by their begin; 0: none.
type begins [len(periods)]int64

// open begins the windows of budgets, unless they have begun.
func (ws *windows) open(budgets []identity.Budget, now time.Time) (in begins) {
	for _, b := range budgets {
		w := &ws[indexOf(b)]
		if now.Unix() >= w.end {
			begin, end := b.Per.Window(now)
			*w = window{begin: begin.Unix(), end: end.Unix()}
		}
		in[indexOf(b)] = w.begin
	}
	return in
}

// add adds to what is settled and reserved in windows that are not over. It reports whether one is not.
func (ws *windows) add(in begins, settled, reserved cost) (some bool) {
	for i := range ws {
		w := &ws[i]
		if in[i] == 0 || in[i] != w.begin {
			continue
		}
		some, w.own.settled = true, w.own.settled.plus(settled)
		for k, n := range w.own.reserved.plus(reserved) {
			w.own.reserved[k] = max(n, 0)
		}
	}
	return some
}

// hear takes over the others' parts of windows that are not over.
func (ws *windows) hear(in begins, others [len(periods)]part) {
	for i := range ws {
		w, told := &ws[i], others[i]
		if in[i] != w.begin {
			continue
		}
		for k, n := range told.settled {
			told.settled[k] = max(w.others.settled[k], n)
		}
		w.others, w.base = told, w.own.total()
	}
}

// room is what a budget has left beside what is settled and, with reserved, what is reserved. It may be negative.
func (w *window) room(b identity.Budget, reserved bool) int64 {
	n := limitOf(b) - w.own.settled.of(b) - w.others.settled.of(b)
	if reserved {
		n -= w.own.reserved.of(b) + w.others.reserved.of(b)
	}
	return n
}

// overdrawn reports whether what is settled, as far as this process knows, leaves no room for a request, whatever Redis says.
func (w *window) overdrawn(b identity.Budget, ask cost) bool {
	left := w.room(b, false)
	return left <= 0 || ask.of(b) > left
}

// admits decides from what this process knows, as one of n replicas: whether own, which includes ask, fits into the
// budget, and into 1/n of what was left when all were counted last.
func (w *window) admits(b identity.Budget, ask cost, n int) bool {
	left := w.room(b, true)
	if left < 0 || left+ask.of(b) <= 0 {
		return false
	}
	added := w.own.total().of(b) - w.base.of(b)
	return added <= max(0, left+added)/int64(n)
}

// reservedWait is when a request may try again that only reservations of others are in the way of: about the time of an
// answer.
const reservedWait = 2 * time.Second

// refusal is the refusal of a request that own includes.
func (w *window) refusal(b identity.Budget, ask cost, n int, now time.Time) *BudgetError {
	e := &BudgetError{Budget: b, Need: ask.of(b), Wait: time.Unix(w.end, 0).Sub(now), Left: max(0, w.room(b, true)+ask.of(b))}
	idle := *w // if the requests in progress used nothing
	idle.own.reserved, idle.others.reserved, idle.base = ask, cost{}, w.own.settled
	if e.Reserved = idle.admits(b, ask, n); e.Reserved {
		e.Wait = min(e.Wait, reservedWait)
	}
	return e
}
