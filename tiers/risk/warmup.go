package risk

import (
	"math"
	"time"
)

// WarmupEnd says why a warm-up ended.
type WarmupEnd uint8

// The reasons. Their numbers are stored in Redis.
const (
	WarmupRuns         WarmupEnd = 0 // it is running, or has not begun
	WarmupCertified    WarmupEnd = 1 // a threshold was certified: the promise holds from then on
	WarmupInfeasible   WarmupEnd = 2 // audits say that no threshold can be certified
	WarmupDisagreement WarmupEnd = 3 // the target disagreed with too many served drafts, or too many audits have no outcome
)

const (
	// lookAhead is the number of thresholds beyond the operating one that are audited, too; without audits they could not
	// be certified.
	lookAhead = 3
	// firstLook is the last index that is audited while nothing is certified: it accepts 70 % of the drafts. A looser one
	// is hardly ever certified first.
	firstLook = 11
)

// lookTo returns the last index that is audited while op is the operating index.
func lookTo(op int) int {
	if op == 0 {
		return firstLook
	}
	return op + lookAhead
}

const (
	// warmupScores is from how many scores on the best third of the drafts is known well enough: the place of
	// a third among 100 is off by 5 % of the drafts at most (one standard deviation).
	warmupScores = 100
	// warmupIndex is the threshold of a placed grid that the warm-up serves by: it accepts 30 % of the drafts,
	// the last step of the grid below a third.
	warmupIndex = 3
	// maxWarmupOpen is how many of its audits may be without an outcome: under way, or lost, or of drafts that the target cannot be
	// asked about. Of more, nobody knows what is served.
	maxWarmupOpen = 256
	// minServed is how many drafts it serves before any audit has an outcome, and servedPerOutcome how many more for each that has.
	minServed, servedPerOutcome = 50, 20
)

// WarmupShare returns the share of drafts that a warm-up serves once a grid is placed.
func WarmupShare() float64 { return AcceptanceShare(warmupIndex) }

// Warmup is the first phase of a traffic class: drafts above a cautious threshold are served before anything is
// certified, and audited. They are not part of the promise, and their audits are no evidence for a threshold. It begins
// with the first request and ends once.
type Warmup struct {
	Began  int64     `json:"began,omitzero"` // µs of the Unix epoch; 0: not begun
	Drafts int       `json:"drafts"`         // drafts that were made
	Served int       `json:"served"`         // of these, served without a check by the target
	Audits int       `json:"audits"`         // of served drafts, and of those that it would have served with more outcomes
	Bad    int       `json:"bad"`            // of these, bad or open
	Open   int       `json:"open"`           // of these, without an outcome
	Ended  WarmupEnd `json:"ended,omitzero"`
}

// IsRunning reports whether the warm-up may serve drafts now. limit is its duration.
func (w Warmup) IsRunning(now time.Time, limit time.Duration) bool {
	return w.Ended == WarmupRuns && w.Remaining(now, limit) > 0
}

// Remaining returns the rest of its duration; all of it before it has begun.
func (w Warmup) Remaining(now time.Time, limit time.Duration) time.Duration {
	if w.Began == 0 {
		return limit
	}
	return max(limit-now.Sub(time.UnixMicro(w.Began)), 0)
}

// Closed returns the number of audits with an outcome, and how many were bad.
func (w Warmup) Closed() (n, bad int) { return w.Audits - w.Open, w.Bad - w.Open }

// HasOutcomes reports whether enough outcomes are known to serve more: 50 drafts, plus 20 for each outcome. Served
// counts finished answers only, so running ones come on top.
func (w Warmup) HasOutcomes() bool {
	n, _ := w.Closed()
	return w.Served < minServed+servedPerOutcome*n
}

// end ends it for good. The first reason counts.
func (w *Warmup) end(why WarmupEnd) {
	if w.Ended == WarmupRuns {
		w.Ended = why
	}
}

// drafted counts drafts and served drafts. The first call starts the warm-up.
func (w *Warmup) drafted(drafts, served int, now time.Time) {
	if w.Began == 0 {
		w.Began = now.UnixMicro()
	}
	w.Drafts += drafts
	w.Served += served
}

// close stores the outcome of an audit. The warm-up ends if the lower confidence bound on the disagreement
// among those served is above eps, with probability 1 − delta at every moment; open audits count as good.
func (w *Warmup) close(eps, delta float64, bad bool) {
	w.Open--
	if !bad {
		w.Bad--
	}
	if LogUpperE(w.Audits, w.Bad-w.Open, eps) >= math.Log(1/delta) {
		w.end(WarmupDisagreement)
	}
}
