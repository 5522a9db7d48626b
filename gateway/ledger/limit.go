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

// rate holds the parameters of a bucket: how much drains per minute, and up to which level the next request
// is admitted. A zero rate admits all.
type rate struct{ perMinute, slack float64 }

// rates are the rates of a tenant's three buckets.
type rates struct{ requests, tokens, high rate }

// A burst of requests is slack + 1: 1.2 s worth; for small limits 4 requests, but at most a tenth of a
// minute, and at least one.
func requestSlack(n float64) float64 { return math.Max(0, math.Max(n/50, math.Min(4, n/10))-1) }

// Three seconds' worth: requests come with hundreds or thousands of tokens each.
func tokenSlack(n float64) float64 { return n / 20 }

// A quarter of a minute's share: requests beyond it are demoted, not refused.
func highSlack(n float64) float64 { return math.Max(0, n/4-1) }

// shared are the rates of a tenant's buckets in Redis.
func (l Limit) shared() rates {
	r, t, h := float64(l.RPM), float64(l.TPM), float64(l.RPM)*l.HighShare
	return rates{rate{r, requestSlack(r)}, rate{t, tokenSlack(t)}, rate{h, highSlack(h)}}
}

// local are the rates of one of n replicas that count for themselves. The drain is reduced by the slack, so
// that all replicas together admit no more than the limit in any minute.
func (l Limit) local(n int) rates {
	share := func(whole float64, slack func(float64) float64) rate {
		part := whole / float64(n)
		s := slack(part)
		return rate{part - s, s}
	}
	r := float64(l.RPM)
	return rates{share(r, requestSlack), share(float64(l.TPM), tokenSlack), share(r*l.HighShare, highSlack)}
}

// slots is the number of concurrent requests that one of n replicas admits.
func (l Limit) slots(n int) int { return max(1, (l.Concurrent+n-1)/n) }

// burst is what an empty bucket admits.
func (w rate) burst() float64 { return w.slack + 1 }

// localLevel converts the shared level to the level of one of n replicas: each has 1/n of the part that is free, its burst
// minus its level. There and back creates no free part.
func localLevel(level float64, there, here rate, n int) float64 {
	return math.Max(0, here.burst()-(there.burst()-level)/float64(n))
}

// sharedLevel converts the level of one of n replicas, which speaks for all, to a shared level, at most a burst.
func sharedLevel(level float64, there, here rate, n int) float64 {
	return math.Max(0, math.Min(there.burst(), there.burst()-float64(n)*(here.burst()-level)))
}

const (
	epsilon  = 1e-6 // tolerates rounding errors
	maxLevel = 2    // of a bucket, in minutes of its limit: a wrong charge is forgotten after that time
)

// wait is the time until the next request is admitted at this level; 0 is now.
func (w rate) wait(level float64) time.Duration {
	if w.perMinute <= 0 || level <= w.slack+epsilon {
		return 0
	}
	return minutes((level - w.slack) / w.perMinute)
}

// bucket is a level that drains with time. The zero value is empty.
type bucket struct {
	level float64
	at    time.Time
}

// drain updates the level to now. A clock that steps back drains nothing.
func (b *bucket) drain(w rate, now time.Time) {
	b.level = math.Min(b.level, maxLevel*w.perMinute)
	if passed := now.Sub(b.at); passed > 0 {
		b.level, b.at = math.Max(0, b.level-passed.Minutes()*w.perMinute), now
	}
}

// add charges n; a negative n is a refund.
func (b *bucket) add(w rate, n int) {
	b.level = math.Max(0, math.Min(b.level+float64(n), maxLevel*w.perMinute))
}

// Window is a tenant's state for one limit.
type Window struct {
	Limit     int           // per minute; 0: no limit
	Remaining int           // could be requested now
	Reset     time.Duration // until the bucket is empty
}

// Status is a tenant's state after its request. Clients receive it in headers.
type Status struct{ Requests, Tokens Window }

// status says how many requests are admitted at once, and how large an admitted request may be.
func (l Limit) status(w rates, requests, tokens float64) (s Status) {
	if l.RPM > 0 {
		s.Requests = Window{Limit: l.RPM, Reset: minutes(requests / w.requests.perMinute)}
		if requests <= w.requests.slack+epsilon {
			s.Requests.Remaining = min(l.RPM, int(w.requests.slack-requests+epsilon)+1)
		}
	}
	if l.TPM > 0 {
		s.Tokens = Window{Limit: l.TPM, Reset: minutes(tokens / w.tokens.perMinute)}
		if tokens <= w.tokens.slack+epsilon {
			s.Tokens.Remaining = max(0, l.TPM-int(math.Ceil(tokens)))
		}
	}
	return s
}

func minutes(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }
