package ledger

import (
	"math"
	"time"
)

// Limit is a tenant's limits. Zero fields are unlimited.
type Limit struct {
	RPM        int     // requests per minute
	TPM        int     // tokens per minute, of prompts and answers
	Concurrent int     // requests in progress
	HighShare  float64 // share of RPM that may have priority high, 0 … 1; 0 is all
}

// perMinute reports whether the limit needs counts of all replicas.
func (l Limit) perMinute() bool { return l.RPM > 0 || l.TPM > 0 }

// slots is the number of concurrent requests that one of n replicas admits.
func (l Limit) slots(n int) int { return max(1, (l.Concurrent+n-1)/n) }

// rate holds the parameters of a level: how much drains per minute, and up to which level the next request is admitted. A zero
// rate admits all.
type rate struct{ perMinute, slack float64 }

// burst is what an empty level admits.
func (r rate) burst() float64 { return r.slack + 1 }

// rates are those of a tenant's levels.
type rates [numLevels]rate

// slacks are the slacks of whole limits per minute.
var slacks = [numLevels]func(n float64) float64{
	// A burst of requests is slack + 1: 1.2 s worth; for small limits 4 requests, but at most a tenth of a minute, and at least one.
	ofRequests: func(n float64) float64 { return math.Max(0, math.Max(n/50, math.Min(4, n/10))-1) },
	// Three seconds' worth: requests come with hundreds or thousands of tokens each.
	ofTokens: func(n float64) float64 { return n / 20 },
	// A quarter of a minute's share: requests beyond it are demoted, not refused.
	ofHigh: func(n float64) float64 { return math.Max(0, n/4-1) },
}

// shared are the rates of a tenant's levels in Redis.
func (l Limit) shared() rates { return l.rates(1, 0) }

// local are the rates of one of n replicas that count for themselves. The drain is reduced by the slack, so that all replicas
// together admit no more than the limit in any minute.
func (l Limit) local(n int) rates { return l.rates(n, 1) }

func (l Limit) rates(n int, reduced float64) (w rates) {
	for i, whole := range [...]float64{float64(l.RPM), float64(l.TPM), float64(l.RPM) * l.HighShare} {
		part := whole / float64(n)
		s := slacks[i](part)
		w[i] = rate{part - reduced*s, s}
	}
	return w
}

const (
	epsilon  = 1e-6 // tolerates rounding errors
	maxLevel = 2    // in minutes of the limit: a wrong charge is forgotten after that time
)

// wait is the time until the next request is admitted at this level; 0 is now.
func (r rate) wait(level float64) time.Duration {
	if r.perMinute <= 0 || level <= r.slack+epsilon {
		return 0
	}
	return minutes((level - r.slack) / r.perMinute)
}

// levels drain with time. The zero value is empty.
type levels struct {
	now [numLevels]float64
	at  time.Time
}

// add drains the levels until now, and charges n, up to some minutes of the limits. A clock that steps back drains nothing.
func (l *levels) add(n cost, w rates, now time.Time) {
	passed := math.Max(0, now.Sub(l.at).Minutes())
	if now.After(l.at) {
		l.at = now
	}
	for i, r := range w {
		level := math.Max(0, math.Min(l.now[i], maxLevel*r.perMinute)-passed*r.perMinute)
		l.now[i] = math.Max(0, math.Min(level+float64(n[i]), maxLevel*r.perMinute))
	}
}

// follow takes over the levels that Redis told, as one of n replicas: if Redis fails next, each has 1/n of the part that is free, its
// burst less its level.
func (l *levels) follow(told [numHeard]float64, there, here rates, n int, now time.Time) {
	l.add(cost{}, here, now)
	for i, level := range told {
		if there[i].perMinute > 0 {
			l.now[i] = math.Max(0, here[i].burst()-(there[i].burst()-level)/float64(n))
		}
	}
}

// admit decides about a request by these levels, and charges it.
func (l *levels) admit(n cost, w rates, now time.Time) (got answer) {
	l.add(cost{}, w, now)
	switch requests, tokens := w[ofRequests].wait(l.now[ofRequests]), w[ofTokens].wait(l.now[ofTokens]); {
	case tokens > requests:
		got.refused = refusedTokens
	case requests > 0:
		got.refused = refusedRequests
	default:
		if got.demoted = n[ofHigh] > 0 && w[ofHigh].wait(l.now[ofHigh]) > 0; got.demoted {
			n[ofHigh] = 0
		}
		l.add(n, w, now)
	}
	got.levels = [numHeard]float64(l.now[:numHeard])
	return got
}

// Window is a tenant's state for one limit.
type Window struct {
	Limit     int           // per minute; 0: no limit
	Remaining int           // could be requested now
	Reset     time.Duration // until the level is 0
}

// Status is a tenant's state after its request. Clients receive it in headers.
type Status struct{ Requests, Tokens Window }

// status says how many requests are admitted at once, and how large an admitted request may be.
func (l Limit) status(w rates, levels [numHeard]float64) (s Status) {
	requests, tokens := levels[ofRequests], levels[ofTokens]
	if l.RPM > 0 {
		s.Requests = Window{Limit: l.RPM, Reset: minutes(requests / w[ofRequests].perMinute)}
		if requests <= w[ofRequests].slack+epsilon {
			s.Requests.Remaining = min(l.RPM, int(w[ofRequests].slack-requests+epsilon)+1)
		}
	}
	if l.TPM > 0 {
		s.Tokens = Window{Limit: l.TPM, Reset: minutes(tokens / w[ofTokens].perMinute)}
		if tokens <= w[ofTokens].slack+epsilon {
			s.Tokens.Remaining = max(0, l.TPM-int(math.Ceil(tokens)))
		}
	}
	return s
}

func minutes(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }
