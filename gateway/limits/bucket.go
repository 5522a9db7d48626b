package limits

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

// counted reports whether the limit needs counts of all replicas.
func (l Limit) counted() bool { return l.RPM > 0 || l.TPM > 0 }

// rate holds the parameters of a bucket: how much drains per minute, and up to which level the next request
// is admitted. A zero rate admits all.
type rate struct{ perMinute, burstSlack float64 }

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
		part := whole / float64(max(n, 1))
		s := slack(part)
		return rate{part - s, s}
	}
	r := float64(l.RPM)
	return rates{share(r, requestSlack), share(float64(l.TPM), tokenSlack), share(r*l.HighShare, highSlack)}
}

// When Redis fails, a replica continues from the shared level; when Redis returns, Redis continues from the
// replica's. The free part of a bucket (burst minus level) is converted: each of n replicas gets 1/n of the
// free part of the shared bucket, and the shared bucket gets n times the free part of the replica that speaks
// for all. So changing back and forth creates no free part. burst is what an empty bucket admits.
func (w rate) burst() float64 { return w.burstSlack + 1 }

// localLevel converts the shared level to the level of one of n replicas.
func localLevel(debt float64, there, here rate, n int) float64 {
	return math.Max(0, here.burst()-(there.burst()-debt)/float64(max(n, 1)))
}

// sharedLevel converts the level of one of n replicas to a shared level, at most a burst.
func sharedLevel(debt float64, there, here rate, n int) float64 {
	return math.Max(0, math.Min(there.burst(), there.burst()-float64(max(n, 1))*(here.burst()-debt)))
}

// slots is the number of concurrent requests that one of n replicas admits.
func (l Limit) slots(n int) int {
	n = max(n, 1)
	return max(1, (l.Concurrent+n-1)/n)
}

// epsilon tolerates rounding errors.
const epsilon = 1e-6

// wait is the time until the next request is admitted at this level; 0 is now.
func (w rate) wait(debt float64) time.Duration {
	if w.perMinute <= 0 || debt <= w.burstSlack+epsilon {
		return 0
	}
	return minutes((debt - w.burstSlack) / w.perMinute)
}

// bucket is a level that drains with time. The zero value is empty.
type bucket struct {
	level float64
	at    time.Time
}

// drain updates the level to now. A clock that steps back drains nothing.
func (b *bucket) drain(w rate, now time.Time) {
	b.level = math.Min(b.level, maxDebt*w.perMinute)
	if passed := now.Sub(b.at); passed > 0 {
		b.level = math.Max(0, b.level-passed.Minutes()*w.perMinute)
		b.at = now
	}
}

// add charges n; a negative n is a refund.
func (b *bucket) add(w rate, n float64) {
	b.level = math.Max(0, math.Min(b.level+n, maxDebt*w.perMinute))
}

// Window is a tenant's state for one limit.
type Window struct {
	Limit     int           // per minute; 0: no limit
	Remaining int           // could be requested now
	Reset     time.Duration // until the bucket is empty
}

// requestWindow says how many requests are admitted at once.
func requestWindow(limit int, w rate, debt float64) Window {
	v := window(limit, w, debt)
	if limit > 0 && debt <= w.burstSlack+epsilon {
		v.Remaining = min(limit, int(w.burstSlack-debt+epsilon)+1)
	}
	return v
}

// tokenWindow says how large an admitted request may be.
func tokenWindow(limit int, w rate, debt float64) Window {
	v := window(limit, w, debt)
	if debt <= w.burstSlack+epsilon {
		v.Remaining = max(0, limit-int(math.Ceil(debt)))
	}
	return v
}

func window(limit int, w rate, debt float64) Window {
	if limit <= 0 {
		return Window{}
	}
	return Window{Limit: limit, Reset: minutes(debt / w.perMinute)}
}

func minutes(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }
