package risk

import (
	"math"
	"time"
)

// WarmupEnd says why a warm-up is over.
type WarmupEnd uint8

// The endings. Their numbers are kept in Redis.
const (
	WarmupRuns       WarmupEnd = 0 // it is not over, or has not begun
	WarmupCertified  WarmupEnd = 1 // a threshold was certified: the promise holds from then on
	WarmupInfeasible WarmupEnd = 2 // audits say that no threshold can be certified
	WarmupWrong      WarmupEnd = 3 // too many of the drafts that it served were wrong, or their audits came to no outcome
)

// lookAhead is how many thresholds beyond the operating one have their drafts audited, too: what is
// not audited cannot be certified.
const lookAhead = 3

const (
	// warmupScores is from how many scores on the best third of the drafts is known well enough: the place of
	// a third among 100 is off by 5 % of the drafts at most (one standard deviation).
	warmupScores = 100
	// warmupIndex is the threshold of a placed grid that the warm-up serves by: it accepts 30 % of the drafts,
	// the last step of the grid below a third. It is also the last that is audited while nothing is certified.
	warmupIndex = lookAhead
	// maxWarmupOpen is how many of its audits may be without an outcome: under way, or lost, or of drafts that the target cannot be
	// asked about. Of more, nobody knows what is served.
	maxWarmupOpen = 256
	// minServed is how many drafts it serves before any audit has an outcome, and servedPerOutcome how many more for each that has.
	minServed, servedPerOutcome = 50, 20
)

// WarmupShare is the share of the drafts that a warm-up serves once a grid is placed.
func WarmupShare() float64 { return AcceptanceShare(warmupIndex) }

// Warmup is the first time of a kind of request: drafts above a cautious threshold are served before
// anything is certified, and audited. What it serves is no part of the promise, and its audits alone say nothing
// about a threshold. It begins with the first request, and it ends once.
type Warmup struct {
	Began  int64     // µs of the Unix epoch; 0: no request came in it yet
	Drafts int       // that were made for requests in it
	Served int       // of these, that were the answer, and that the target did not verify before
	Audits int       // that were booked: of those served, and of those that it would have served while too few audits had an outcome
	Bad    int       // of the booked, found bad or without an outcome
	Open   int       // of the booked, without an outcome: under way or lost
	Ended  WarmupEnd //
}

// IsRunning reports whether drafts may be served by it at a time; limit is how long it lasts.
func (w Warmup) IsRunning(now time.Time, limit time.Duration) bool {
	return w.Ended == WarmupRuns && w.Remaining(now, limit) > 0
}

// Remaining is how much of its time is left; all of it while it has not begun.
func (w Warmup) Remaining(now time.Time, limit time.Duration) time.Duration {
	if w.Began == 0 {
		return limit
	}
	return max(limit-now.Sub(time.UnixMicro(w.Began)), 0)
}

// Closed tells how many audits of served drafts have an outcome, and how many of these are bad.
func (w Warmup) Closed() (n, bad int) { return w.Audits - w.Open, w.Bad - w.Open }

// HasOutcomes reports whether enough is known of what it serves: it serves 50 drafts, and 20 for each audit with an outcome. Served counts
// answers that are over, so what is under way comes on top.
func (w Warmup) HasOutcomes() bool {
	n, _ := w.Closed()
	return w.Served < minServed+servedPerOutcome*n
}

// PerMinute is how many drafts a minute were made for requests since it began; 0 while that is not known.
func (w Warmup) PerMinute(now time.Time) float64 {
	if w.Began == 0 || w.Drafts < 2 {
		return 0
	}
	return float64(w.Drafts) / max(now.Sub(time.UnixMicro(w.Began)).Minutes(), 1./60)
}

// After is what is known of it by who knew it before: one that has begun is not begun anew, and one that is over stays over, where
// evidence is lost.
func (w Warmup) After(was Warmup) Warmup {
	if was.Began != 0 && (w.Began == 0 || w.Began > was.Began) {
		w.Began = was.Began
	}
	if w.Ended == WarmupRuns {
		w.Ended = was.Ended
	}
	return w
}

// end ends it, for good. The first reason counts.
func (w *Warmup) end(why WarmupEnd) {
	if w.Ended == WarmupRuns {
		w.Ended = why
	}
}

// drafted notes drafts that were made for requests in it, and how many of them were the answer. The first begins it.
func (w *Warmup) drafted(drafts, served int, now time.Time) {
	if w.Began == 0 {
		w.Began = now.UnixMicro()
	}
	w.Drafts += drafts
	w.Served += served
}

// close takes the outcome of one of its audits. It ends where the lower confidence bound on the share of wrong
// drafts among those served is above eps, with probability 1 − delta at every moment; audits without an outcome count as good.
func (w *Warmup) close(eps, delta float64, bad bool) {
	w.Open--
	if !bad {
		w.Bad--
	}
	if LogUpperE(w.Audits, w.Bad-w.Open, eps) >= math.Log(1/delta) {
		w.end(WarmupWrong)
	}
}
