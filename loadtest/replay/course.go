package replay

import (
	"math"

	"github.com/foregate/foregate/tiers/accept"
)

// Words of receipts, as the gateway writes them.
const (
	modeOff, modeConfidence             = "off", "confidence"
	askAlways, askExact                 = "always", "exact"
	whyModeOff, whyNoSaving, whyTooLate = "mode_off", "no_saving", "ttft"
)

// Fate is what became of a draft, or may have: a set.
type Fate uint8

// The fates.
const (
	Skipped   Fate = 1 << iota // there was none: the target answered
	Accepted                   // it is the answer
	Rejected                   // the target answered before any of it was released
	TakenOver                  // the target carried on in mid-answer
)

// branch is one way that a request may have gone.
type branch struct {
	fate          Fate
	targetChecked bool // the target was asked about the draft
	drafted       span // tokens that were drafted
	kept          span // tokens of the draft in the answer
	decided       int  // tokens at which the draft was committed; 0 never
}

// span is from the least to the most.
type span struct{ lo, hi int }

func exactly(n int) span { return span{n, n} }

// course is what a receipt tells of a draft that was judged.
type course struct {
	r      *Receipt
	marks  []mark
	n      int // tokens at which the draft ended or was given up
	length int // tokens of the answer
	as     branch
	give   bool // it was given up for its score: more might have come
}

type mark struct {
	tokens int
	score  float64
}

func courseOf(r *Receipt) *course {
	v := r.Verdict
	c := &course{r: r, n: v.Tokens, length: r.Tokens.Accepted + r.Tokens.Target, as: asItWas(r), give: v.Reason == accept.ReasonScore}
	for _, m := range r.ScoreSeries {
		if int(m[0]) < c.n {
			c.marks = append(c.marks, mark{int(m[0]), m[1]})
		}
	}
	if c.n > 0 {
		c.marks = append(c.marks, mark{c.n, v.Score})
	}
	return c
}

// asItWas is the way that a request went.
func asItWas(r *Receipt) branch {
	return branch{
		fate: fateOf(r), targetChecked: len(r.Checks) > 0, decided: r.Tokens.Committed,
		drafted: exactly(r.Tokens.Drafted), kept: exactly(r.Tokens.Accepted),
	}
}

func fateOf(r *Receipt) Fate {
	switch {
	case !r.Plan.Judged || r.Verdict == nil:
		return Skipped
	case r.Verdict.Accept || r.Tier == "draft":
		return Accepted
	case r.Tokens.Committed > 0:
		return TakenOver
	}
	return Rejected
}

// at is what the score's running minimum was when so many tokens had come: between two
// marks only bounds are known, and so before the eighth token, where it is none yet.
func (c *course) at(tokens int) (lo, hi float64) {
	lo, hi = math.Inf(-1), math.Inf(1)
	for _, m := range c.marks {
		switch {
		case m.tokens == tokens:
			return m.score, m.score
		case m.tokens < tokens && m.tokens >= headTokens:
			hi = m.score
		case m.tokens > tokens && tokens >= headTokens:
			return m.score, hi
		}
	}
	return lo, hi
}

// crossing is where after so many tokens the score fell below a level, from the earliest
// to the latest token; ok says that it did.
func (c *course) crossing(level float64, after int) (at span, ok bool) {
	before := max(after, headTokens-1)
	for _, m := range c.marks {
		switch {
		case m.tokens <= after, m.tokens < headTokens && m.tokens < c.n: // a score, and no minimum yet
		case m.score >= level:
			before = max(before, m.tokens)
		case m.tokens == c.n && c.give && level <= c.level():
			return exactly(c.n), true // or it would have been given up before
		default:
			return span{min(before+1, m.tokens), m.tokens}, true
		}
	}
	return span{}, false
}

// level is what the score was held against at the end.
func (c *course) level() float64 {
	return c.r.Verdict.Threshold
}

// rule is how drafts are judged.
type rule struct {
	need, floor float64
	asks        bool // the target is asked about what is between
	always      bool // and about what is above
	stays       bool // what was committed is not taken back
}

// ended are the ways from a draft's end, or from where it was given up, without its having
// been committed.
func (c *course) ended(w rule) []branch {
	score := c.r.Verdict.Score
	at, crossed := c.crossing(w.floor, 0)
	whole := branch{fate: Accepted, drafted: exactly(c.n), kept: exactly(c.length)}
	refused := branch{fate: Rejected, drafted: exactly(c.n), kept: span{0, c.n}}
	switch {
	case crossed || score < w.floor:
		if !crossed {
			at = exactly(c.n)
		}
		if c.give && at == exactly(c.n) && c.as.fate == Rejected {
			return []branch{c.as}
		}
		refused.drafted, refused.kept = at, span{0, at.hi}
		return []branch{refused}
	case c.give:
		return c.unknown(w.asks)
	case c.faulty() && c.as.fate == Rejected:
		return []branch{c.as}
	case c.faulty():
		return []branch{refused}
	case score >= w.need && !w.always && !c.forced():
		if c.as.fate == Accepted && !c.as.targetChecked {
			return []branch{c.as.undecided()}
		}
		return []branch{whole}
	case !w.asks && score < w.need:
		return []branch{refused}
	case c.as.targetChecked && c.atEnd():
		return []branch{c.as.undecided()}
	}
	whole.targetChecked, refused.targetChecked = true, true
	return []branch{whole, refused}
}

// undecided is the branch without a decision before its end.
func (b branch) undecided() branch {
	b.decided = 0
	return b
}

// forced reports whether the target was asked about a draft that the score had nothing
// against.
func (c *course) forced() bool {
	return c.as.targetChecked && c.r.Verdict.Score >= c.r.Verdict.Threshold
}

// atEnd reports whether the target was asked when the whole draft was there.
func (c *course) atEnd() bool {
	return c.as.targetChecked && c.r.Tokens.Committed == 0 && c.r.Checks[len(c.r.Checks)-1].Tokens >= c.n
}

// faulty reports whether a draft was refused for something that no score tells.
func (c *course) faulty() bool {
	switch c.r.Verdict.Reason {
	case accept.ReasonConfident, accept.ReasonScore, accept.ReasonDoubtful, accept.ReasonTargetAgrees, accept.ReasonTargetDisagrees, accept.ReasonNoVerdict:
		return false
	}
	return !c.r.Verdict.Accept
}

// unknown are all ways that a draft may have gone on of which a part is known.
func (c *course) unknown(asks bool) []branch {
	var all []branch
	for _, asked := range []bool{false, true} {
		if asked && !asks {
			break
		}
		maximum := span{c.n, max(c.n, c.length)}
		all = append(all,
			branch{fate: Accepted, targetChecked: asked, drafted: maximum, kept: exactly(c.length)},
			branch{fate: Rejected, targetChecked: asked, drafted: maximum, kept: span{0, c.length}})
		if !c.r.Plan.Whole {
			all = append(all, branch{fate: TakenOver, targetChecked: asked, drafted: maximum, kept: span{0, c.length}, decided: c.n})
		}
	}
	return all
}

// decision are the ways of a draft that is decided on at exactly so many tokens.
func (c *course) decision(w rule, at int) []branch {
	lo, hi := c.at(at)
	var all []branch
	if lo < w.floor {
		b := branch{fate: Rejected, drafted: span{min(headTokens, at), at}, kept: span{0, at}}
		if x, ok := c.crossing(w.floor, 0); ok && x.hi <= at {
			b.drafted = x
		}
		if c.give && c.as.fate == Rejected && b.drafted == exactly(c.n) {
			b = c.as
		}
		all = append(all, b)
	}
	forced := c.as.targetChecked && c.r.Checks[0].Tokens == at && lo >= c.r.Verdict.Threshold // for want of logprobs
	if hi >= w.need && !forced {
		all = append(all, c.committed(w, w.need, branch{decided: at})...)
	}
	if !w.asks || hi < w.floor || lo >= w.need && !forced {
		return all
	}
	pass, fail := true, true
	if c.as.targetChecked && c.r.Checks[0].Tokens == at {
		pass, fail = c.r.Checks[0].Pass, !c.r.Checks[0].Pass
	}
	if pass {
		all = append(all, c.committed(w, w.floor, branch{decided: at, targetChecked: true})...)
	}
	if fail {
		b := branch{fate: Rejected, targetChecked: true, drafted: exactly(at), kept: span{0, at}}
		if c.as.fate == Rejected && c.as.targetChecked && c.n == at {
			b = c.as
		}
		all = append(all, b)
	}
	return all
}

// committed are the ways of a draft that was committed and must keep to a level.
func (c *course) committed(w rule, level float64, b branch) []branch {
	mine := c.as.fate&(Accepted|TakenOver) != 0 && c.as.targetChecked == b.targetChecked && c.as.decided > 0
	early := c.n < headTokens && (c.give || c.failed()) // given up before its score was final
	if x, ok := c.crossing(level, b.decided); ok && !w.stays && !early {
		if c.as.fate == TakenOver && c.give && x == exactly(c.n) && mine {
			return []branch{c.as.at(b.decided)}
		}
		b.fate, b.drafted, b.kept = TakenOver, x, span{b.decided, max(x.hi, b.decided)}
		return []branch{b}
	}
	switch {
	case c.as.fate == Accepted && mine, c.faulty() && c.as.fate == TakenOver && mine:
		return []branch{c.as.at(b.decided)}
	case c.as.fate == Accepted, c.r.Verdict.Accept:
		b.fate, b.drafted, b.kept = Accepted, exactly(c.n), exactly(c.length)
		return []branch{b}
	}
	// The draft was given up here, or what ended it would not have taken back what was released.
	on := b
	b.fate, b.drafted, b.kept = Accepted, span{c.n, max(c.n, c.length)}, exactly(c.length)
	on.fate, on.drafted, on.kept = TakenOver, b.drafted, span{on.decided, max(c.length, on.decided)}
	return []branch{b, on}
}

// at is the branch with a decision at so many tokens.
func (b branch) at(tokens int) branch {
	b.decided = tokens
	return b
}
