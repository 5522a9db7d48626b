// Package draft is a draft while it streams from the draft pool: its transcript, its judgement by the acceptance logic,
// and the checks of its structure. Start at [Draft] and [State]. An audited draft also has an [Audit], which reads the same
// chunks and is judged by another threshold. The [Transcript] of an answer goes on behind its draft.
//
// The package makes no calls and has no clock. If a verdict asks for a check by the target, the caller makes it and passes
// the result to [Draft.Check].
package draft

import (
	"math"
	"slices"
	"strconv"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/schema"
)

// ReasonMalformed is the reason for rejecting a draft that is more or less than a text and the tokens that were judged.
const ReasonMalformed = "not_plain_text"

// State is where a draft is on its way. It begins as Arriving.
//
//	Arriving ── Commit ──▶ Committed
//	Arriving, Committed ── Lose ──▶ Lost
//	Arriving, Committed ── reject ──▶ Rejected
//	Arriving, Committed, Lost ── End ──▶ Accepted or Rejected
//
// End changes nothing while its verdict is that the target must be asked.
type State uint8

// The states.
const (
	Arriving  State = iota // chunks come, and the client has nothing of them
	Committed              // chunks come, and the client gets them: the tokens so far are part of the answer, whatever follows
	Accepted               // it is the answer
	Rejected               // it is not: the target continues a part of it, or answers
	Lost                   // its backend failed before its end
)

// Options say how a draft is judged.
type Options struct {
	Request  *openai.Request
	Config   *plan.Config   // of the route
	Decision *plan.Decision // by whose threshold it is judged
	EOS      []int32        // ids with which the draft pool's engines end answers, as far as they are known
	MaxBytes int64          // of the draft's text
}

// Draft is a draft that is being received. It is for one goroutine.
type Draft struct {
	o         Options
	state     State
	committed int                  // tokens at which it was committed; 0: never
	score     *accept.ScoreTracker // of its tokens
	check     *accept.Check        // what the target said of it; nil before
	text      *Transcript

	finish      string // finish_reason; "" while it streams, or if its backend failed
	stopReason  []byte // of the engine, as raw JSON
	usage       openai.Usage
	estimated   bool             // the token count is one per chunk, and a chunk may hold several tokens
	past        int              // tokens after a stop string in the same chunk
	whole       bool             // it came in one piece
	calls       int              // tool calls
	match       openai.TextMatch // of the text and the tokens
	loops       accept.RepetitionDetector
	squeezed    int // bytes of text that were looked through for loops, where there are no ids
	soundTokens int // tokens before the loop that it was rejected for
	track       scoreSeries
}

// New returns an empty draft.
func New(o Options) *Draft {
	d := &Draft{o: o, soundTokens: math.MaxInt, score: accept.NewScoreTracker(o.Decision.Accept)}
	if o.Decision.Checked {
		d.score.AwaitTarget()
	}
	d.text = NewTranscript(TranscriptOptions{
		Stop: o.Request.Stop, IncludeStop: o.Request.IncludeStop, WholeWords: o.Decision.Resume == plan.ResumeText,
	})
	return d
}

// Commit commits to the draft after a chunk if the hold-back is over and the score so far is accepted, and reports whether
// it did; if the score is not, it rejects the draft. waited says that the hold-back's time is over. It is called after every
// chunk, so that equal tokens lead to equal decisions however they were split into chunks.
func (d *Draft) Commit(waited bool) bool {
	if d.state != Arriving || d.o.Decision.Whole || !d.isDue(waited) {
		return false
	}
	if v := d.EarlyVerdict(); !v.Accept {
		d.reject(v.Reason)
		return false
	}
	d.state, d.committed = Committed, d.Tokens()
	d.addScorePoint()
	return true
}

// reject rejects the draft for a reason other than its score; the first one counts.
func (d *Draft) reject(reason string) {
	d.score.Reject(reason)
	d.state = Rejected
}

// add scores a token; the one that takes the score below the threshold rejects the draft.
func (d *Draft) add(logprob float64, top []float64) (ok bool) {
	if ok = d.score.Add(logprob, top); !ok {
		d.state = Rejected
	}
	return ok
}

// addMissing counts n tokens without logprobs.
func (d *Draft) addMissing(n int) {
	for range n {
		d.add(accept.NoLogprob, nil)
	}
}

// Lose says that the draft's backend failed.
func (d *Draft) Lose() {
	if d.state != Rejected {
		d.state = Lost
	}
}

// Check takes the target's check of the whole draft; nil means that there is none.
func (d *Draft) Check(check *accept.Check) {
	if check == nil {
		check = &accept.Check{Reason: accept.ReasonNoVerdict}
	}
	if d.check = check; !check.Pass {
		d.reject(check.Reason)
		return
	}
	d.score.Pass()
}

// End returns the verdict on a finished draft. If its reason is [accept.ReasonDoubtful] and nothing was committed, the
// caller asks the target, passes what it says to [Draft.Check] and calls End again.
func (d *Draft) End() accept.Verdict {
	d.unlimited()
	r := d.o.Request
	if r.Structured && d.finish == "stop" && !d.whole && d.state != Rejected {
		if reason := d.malformed(d.text.Text()); reason != "" {
			d.reject(reason)
		}
	}
	v := d.score.FinalVerdict(accept.Draft{Text: d.text.Text(), IDs: d.text.IDs(), Finish: d.finish, WantJSON: r.JSON, Calls: d.calls})
	if v.Accept && d.check != nil {
		v.Reason = accept.ReasonTargetAgrees
	}
	if d.state == Lost && v.Reason == accept.ReasonCut {
		v.Reason = accept.ReasonLost
	}
	switch {
	case v.Accept, d.staysCommitted(v):
		d.state = Accepted
	case v.Reason != accept.ReasonDoubtful || d.Committed():
		d.state = Rejected
	}
	return v
}

// staysCommitted reports whether a draft is the answer although its verdict is a rejection: the client has its beginning, it
// is complete, and only the way in which it ended is at fault.
func (d *Draft) staysCommitted(v accept.Verdict) bool {
	return d.Committed() && d.finish != "" && v.Reason == accept.ReasonCut
}

// EarlyVerdict returns the verdict on an unfinished draft.
func (d *Draft) EarlyVerdict() accept.Verdict { return d.score.EarlyVerdict() }

// isDue reports whether the hold-back is over after the tokens so far. waited is as in [Draft.Commit].
func (d *Draft) isDue(waited bool) bool {
	enough := max(d.o.Config.HoldbackTokens, 1)
	if waited {
		enough = min(enough, accept.HeadTokens) // the score of fewer tokens is mostly the prior
	}
	return d.Tokens() >= enough
}

// minSalvage is the least number of accepted tokens worth continuing if nothing was sent: for fewer a fresh answer is
// simpler and costs the same.
const minSalvage = 8

// CutPoint returns where the target continues a draft that was rejected for the verdict's reason: the last clean position
// that may be kept, at a sentence's end if one is near. Sent text is before it. The zero value means a fresh answer.
func (d *Draft) CutPoint(v accept.Verdict) CutPoint {
	asked := d.check != nil && d.check.Reason != accept.ReasonNoVerdict
	switch {
	case !d.o.Decision.CanResume():
		return d.text.CutUnsent(0)
	case d.Committed():
		return d.text.CutUnsent(min(d.Tokens(), d.soundTokens))
	case asked:
		return d.text.CutUnsent(min(d.check.Kept, d.soundTokens)) // exact: the engine has these tokens in its KV cache
	case d.o.Decision.Checked: // without a check by the target nothing is used
		return d.text.CutUnsent(0)
	case v.Reason != accept.ReasonScore && v.Reason != accept.ReasonLost && (v.Reason != accept.ReasonCut || d.finish != ""):
		return d.text.CutUnsent(0) // what is wrong with it is not a doubt behind a place, so no part of it was accepted
	}
	tokens := d.Tokens()
	if d.score.Rejected() {
		tokens = d.score.SafePrefix()
	}
	at := d.text.CutAtSentence(tokens)
	if at.Tokens < minSalvage {
		return CutPoint{}
	}
	return at
}

// State returns where the draft is on its way.
func (d *Draft) State() State { return d.state }

// Committed reports whether the draft was committed, whatever came of it: the client may have its beginning.
func (d *Draft) Committed() bool { return d.committed > 0 }

// Transcript returns the draft's text with its ids. A continuation of the answer uses the same transcript.
func (d *Draft) Transcript() *Transcript { return d.text }

// Finish returns finish_reason; "" while it streams, or if its backend failed.
func (d *Draft) Finish() string { return d.finish }

// Tokens returns the number of tokens received.
func (d *Draft) Tokens() int { return d.score.Tokens() }

// Features returns the inputs of a fitted score.
func (d *Draft) Features() accept.Features { return d.score.Features() }

// EstimatedTokens reports whether the token count is one per chunk only.
func (d *Draft) EstimatedTokens() bool { return d.estimated }

// NeedsTopLogprobs reports whether the score uses the alternatives of the next token.
func (d *Draft) NeedsTopLogprobs() bool { return d.score.NeedsTopLogprobs() }

// EndsItself reports whether the model ended the draft, not a stop string or a stop id of the client. vLLM names the id
// of all but the first of a model's own ends, too.
func (d *Draft) EndsItself() bool {
	if _, _, stopped := d.text.Stop(); stopped || d.finish != "stop" {
		return false
	}
	id, err := strconv.Atoi(string(d.stopReason))
	if err != nil {
		return len(d.stopReason) == 0 || string(d.stopReason) == "null"
	}
	return slices.Contains(d.o.EOS, int32(id)) || !d.o.Request.StopsAt(id)
}

// PromptTokens returns the prompt's length as the engine counts it, else by its ids; 0 if it has told neither.
func (d *Draft) PromptTokens() int {
	if d.usage.Prompt > 0 {
		return d.usage.Prompt
	}
	return len(d.text.PromptIDs())
}

// Release returns the text of a committed draft that may be sent now. Sent text must end before a cut point.
func (d *Draft) Release() []byte { return d.text.ReleaseTo(d.text.CutAt(d.Tokens())) }

// Ending returns the end of an answer that is the draft.
func (d *Draft) Ending() openai.Ending {
	e := openai.Ending{Finish: d.finish, Stop: d.stopReason, Usage: d.usage}
	word, _, stopped := d.text.Stop()
	if stopped {
		e.Stop = openai.Quote(word)
	}
	if stopped || e.Usage.Completion == 0 {
		e.Usage.Completion = d.Tokens() - d.past
	}
	e.Usage.Prompt = d.PromptTokens()
	return e
}

// unlimited drops a finish that the draft model's context limit caused, not the client's limit.
func (d *Draft) unlimited() {
	if limit := d.o.Request.Limit(); d.finish == "length" && (limit == 0 || max(d.Tokens(), d.usage.Completion) < limit) {
		d.finish = ""
	}
}

// malformed returns what is wrong with the format of a text, or "".
func (d *Draft) malformed(text []byte) string {
	if format := d.o.Request.Raw("response_format"); format != nil {
		return schema.CheckFormat(text, format)
	}
	return ""
}

// maxPoints bounds what is told of the score: with marks at powers of two and half between, all drafts fit.
const maxPoints = 40

// scoreSeries is how a draft's score fell.
type scoreSeries []accept.ScorePoint

// ScoreSeries returns the score at 8, 12, 16, 24, 32, 48 … tokens, at the decision, and now.
func (d *Draft) ScoreSeries() []accept.ScorePoint {
	d.addScorePoint()
	return d.track
}

// addScorePoint adds the current score to the series, once.
func (d *Draft) addScorePoint() {
	if tokens := d.Tokens(); tokens > 0 && tokens != d.track.last() && len(d.track) < maxPoints {
		d.track = append(d.track, accept.ScorePoint{Tokens: tokens, Score: d.score.Score()})
	}
}

// last is the token count of the last mark.
func (s scoreSeries) last() int {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].Tokens
}

// next is the token count at which the score is to be noted next.
func (s scoreSeries) next() int {
	next := 8
	for step := 4; next <= s.last(); {
		next += step
		if next&(next-1) == 0 {
			step = next / 2
		}
	}
	return next
}
