package limits

import (
	"math"
	"time"
)

// Limit is what a tenant may have. Zero fields are unlimited.
type Limit struct {
	RPM        int     // requests per minute
	TPM        int     // tokens per minute, of prompts and answers
	Concurrent int     // requests under way
	HighShare  float64 // of RPM, what may have priority high, 0 … 1; 0 is all
}

// counted says whether the limit needs more than this replica's own count.
func (l Limit) counted() bool { return l.RPM > 0 || l.TPM > 0 }

// rate is that of one bucket: what it loses in a minute, and what may be owed when the next is
// let in. A law of 0 lets all in.
type rate struct{ perMinute, burstSlack float64 }

// rates are those of a tenant's three buckets.
type rates struct{ requests, tokens, high rate }

// A burst of requests is slack + 1: 1.2 s worth; of small limits 4 requests, but at most a
// tenth of a minute, and at least one.
func requestSlack(n float64) float64 { return math.Max(0, math.Max(n/50, math.Min(4, n/10))-1) }

// Three seconds' worth: requests come with hundreds or thousands of tokens each.
func tokenSlack(n float64) float64 { return n / 20 }

// A quarter of a minute's share: who goes beyond it is demoted, not refused.
func highSlack(n float64) float64 { return math.Max(0, n/4-1) }

// shared are the laws of a tenant's buckets in Redis.
func (l Limit) shared() rates {
	r, t, h := float64(l.RPM), float64(l.TPM), float64(l.RPM)*l.HighShare
	return rates{rate{r, requestSlack(r)}, rate{t, tokenSlack(t)}, rate{h, highSlack(h)}}
}

// local are the laws of one of n replicas that count for themselves. The slack is taken off
// the drain, so that their sum is no more than the limit in any minute.
func (l Limit) local(n int) rates {
	share := func(whole float64, slack func(float64) float64) rate {
		part := whole / float64(max(n, 1))
		s := slack(part)
		return rate{part - s, s}
	}
	r := float64(l.RPM)
	return rates{share(r, requestSlack), share(float64(l.TPM), tokenSlack), share(r*l.HighShare, highSlack)}
}

// A replica takes over what is owed when Redis goes, and Redis when it returns. What is handed
// on is room, which is a burst less what is owed: each of n replicas has an nth of the room in
// the bucket that they share, and that has n times the room of a replica that speaks for all.
// So no room is made by going back and forth. burst is what an empty bucket lets in.
func (w rate) burst() float64 { return w.burstSlack + 1 }

// localLevel is what one of n replicas is owed when so much is owed to all of them.
func localLevel(owed float64, there, here rate, n int) float64 {
	return math.Max(0, here.burst()-(there.burst()-owed)/float64(max(n, 1)))
}

// sharedLevel is what all of n replicas are owed, at most a burst, if each is owed so much.
func sharedLevel(owed float64, there, here rate, n int) float64 {
	return math.Max(0, math.Min(there.burst(), there.burst()-float64(max(n, 1))*(here.burst()-owed)))
}

// slots are the concurrent requests that one of n replicas lets in.
func (l Limit) slots(n int) int {
	n = max(n, 1)
	return max(1, (l.Concurrent+n-1)/n)
}

// epsilon forgives the rounding of what was drained.
const epsilon = 1e-6

// wait is how long until the next is let in while so much is owed; 0 is now.
func (w rate) wait(owed float64) time.Duration {
	if w.perMinute <= 0 || owed <= w.burstSlack+epsilon {
		return 0
	}
	return minutes((owed - w.burstSlack) / w.perMinute)
}

// bucket is a level that falls with time. The zero value is empty.
type bucket struct {
	level float64
	at    time.Time
}

// drain brings the bucket to now. A clock that steps back drains nothing.
func (b *bucket) drain(w rate, now time.Time) {
	b.level = math.Min(b.level, maxOwed*w.perMinute)
	if passed := now.Sub(b.at); passed > 0 {
		b.level = math.Max(0, b.level-passed.Minutes()*w.perMinute)
		b.at = now
	}
}

// add charges n, or gives it back where it is negative.
func (b *bucket) add(w rate, n float64) {
	b.level = math.Max(0, math.Min(b.level+n, maxOwed*w.perMinute))
}

// Window is how a tenant stands with one limit.
type Window struct {
	Limit     int           // per minute; 0: there is no such limit
	Remaining int           // may be asked for at once
	Reset     time.Duration // until nothing is owed
}

// requestWindow tells how many requests are let in at once.
func requestWindow(limit int, w rate, owed float64) Window {
	v := window(limit, w, owed)
	if limit > 0 && owed <= w.burstSlack+epsilon {
		v.Remaining = min(limit, int(w.burstSlack-owed+epsilon)+1)
	}
	return v
}

// tokenWindow tells the largest request that is let in.
func tokenWindow(limit int, w rate, owed float64) Window {
	v := window(limit, w, owed)
	if owed <= w.burstSlack+epsilon {
		v.Remaining = max(0, limit-int(math.Ceil(owed)))
	}
	return v
}

func window(limit int, w rate, owed float64) Window {
	if limit <= 0 {
		return Window{}
	}
	return Window{Limit: limit, Reset: minutes(owed / w.perMinute)}
}

func minutes(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }
