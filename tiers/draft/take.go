package draft

import (
	"bytes"
	"slices"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/schema"
)

// Take judges a chunk and appends it; it reports whether the draft is over for this reason: it was
// rejected, or a stop string ended it. An end that the engine tells shows in Finish, and its usage may still come.
func (d *Draft) Take(c *openai.Chunk) (over bool) {
	d.text.AppendPrompt(c.PromptIDs)
	if c.HasUsage {
		d.usage = c.Usage
	}
	goesOn := c.Choices > 0 && (len(c.Text) > 0 || len(c.Finish) > 0 || len(c.IDs) > 0)
	switch {
	case !c.Plain, c.Choices > 1, d.finish != "" && goesOn, len(c.IDs) > 0 && len(c.Logprobs) > len(c.IDs):
		d.reject(ReasonMalformed)
		return true
	case int64(d.text.Len()+len(c.Text)) > d.o.MaxBytes:
		d.reject(accept.ReasonLong)
		return true
	}
	for i, lp := range c.Logprobs {
		if !d.add(lp, c.Top(i)) {
			return true // the crossing chunk is not part of what was accepted
		}
	}
	if d.addUnscored(c); d.isHopeless(c) {
		return true
	}
	before := d.text.Len()
	if stopped, _ := d.text.Append(c.Text, c.IDs); stopped { // nothing of a draft is ever pending
		_, end, _ := d.text.Stop()
		d.finish, d.past = "stop", c.TokensPast(end-before)
		return true
	}
	d.cutPoints(c)
	if d.Tokens() >= d.track.next() {
		d.addScorePoint()
	}
	if len(c.Finish) > 0 {
		d.finish = string(c.Finish)
		d.stopReason = append(d.stopReason[:0], c.Stop...)
		if !d.match.Ends() {
			d.reject(ReasonMalformed)
		}
	}
	return d.state == Rejected
}

// addUnscored counts the tokens of a chunk that came without logprobs. Where all but the last have
// one, and that ended the answer, none is missing. Unless the target checks all of it, any other ends the draft.
func (d *Draft) addUnscored(c *openai.Chunk) {
	missing := len(c.IDs) - len(c.Logprobs)
	switch {
	case missing > 0 && d.endsIn(c):
		d.score.AddEnd()
		missing--
	case len(c.Logprobs) == 0 && len(c.IDs) == 0:
		n, reported := c.Tokens(d.Tokens())
		missing, d.estimated = n, d.estimated || !reported
	}
	if d.addMissing(missing); missing > 0 && !d.o.Decision.Checked {
		d.reject(accept.ReasonNoLogprobs)
	}
}

// endsIn reports whether the last id of a chunk is the token that ended the answer: the chunk says
// so itself, or the engine is known to end answers with it and was not told to go on behind it.
func (d *Draft) endsIn(c *openai.Chunk) bool {
	if len(c.Finish) > 0 {
		return string(c.Finish) == "stop" && !bytes.HasPrefix(c.Stop, []byte{'"'})
	}
	return !d.o.Request.IgnoresEOS() && slices.Contains(d.o.EOS, c.IDs[len(c.IDs)-1])
}

// isHopeless refuses what will not hold at the end, as soon as that shows: text that is not that of
// its tokens, text that no JSON begins with, and a loop.
func (d *Draft) isHopeless(c *openai.Chunk) bool {
	if !d.match.Add(c.Told, c.Text) {
		d.reject(ReasonMalformed)
	}
	if d.state == Rejected {
		return true
	}
	if d.o.Request.JSON && d.text.Len() == 0 && !accept.BeginsJSON(c.Text) {
		d.reject(accept.ReasonInvalid)
		return true
	}
	for i, id := range c.IDs {
		if repeated := d.loops.Add(id); repeated > 0 {
			d.soundTokens = max(d.Tokens()-(len(c.IDs)-1-i)-repeated, 0)
			d.reject(accept.ReasonRepetition)
			return true
		}
	}
	return len(c.IDs) == 0 && d.isSqueezed()
}

// isSqueezed refuses a text without ids that runs in circles. It looks at each 64 bytes more.
func (d *Draft) isSqueezed() bool {
	const step = 64
	text := d.text.Text()
	if len(text) < d.squeezed+step {
		return false
	}
	d.squeezed = len(text)
	if !accept.IsCompressible(text) {
		return false
	}
	d.reject(accept.ReasonRepetition)
	return true
}

// cutPoints notes where the chunk ends, and the tokens within it, as places where the draft may be cut.
func (d *Draft) cutPoints(c *openai.Chunk) {
	if len(c.IDs) == 0 && len(c.Text) == 0 {
		return
	}
	reported := c.BytesReported()
	if reported {
		d.text.MarkWithin(d.Tokens(), c.TokenBytes)
	}
	// An engine sends a character only when it has all of its bytes, so the text of
	// a one-token chunk ends where the token does. A chunk of several may hold half
	// a character that it does not show; the tokens' own bytes would tell. The last
	// chunk also holds the token that ended the answer, which a continuation must
	// not see.
	inStep := len(c.IDs) <= 1 || reported || d.o.Decision.Resume != plan.ResumeIDs
	d.text.Mark(d.Tokens(), len(c.Text) > 0 && len(c.Finish) == 0 && inStep)
}

// TakeWhole judges a draft that came in one piece, which may call tools. It is taken instead of chunks.
func (d *Draft) TakeWhole(a *openai.DraftAnswer) {
	d.text = NewTranscript(TranscriptOptions{Text: a.Text})
	d.text.AppendPrompt(a.PromptIDs)
	_, _ = d.text.Append(nil, a.IDs) // nothing of a draft is ever pending
	d.whole, d.calls, d.finish, d.usage = true, len(a.Calls), a.Finish, a.Usage
	for i, lp := range a.Logprobs {
		if !d.add(lp, a.Top(i)) {
			break
		}
	}
	missing := max(len(a.IDs), a.Usage.Completion) - len(a.Logprobs)
	if missing > 0 && (a.Finish == "stop" || a.Finish == "tool_calls") {
		d.score.AddEnd()
		missing--
	}
	d.addMissing(missing)
	d.addScorePoint()
	agrees := len(a.Calls) > 0 || d.match.Add(a.Told, a.Text) && d.match.Ends() // the text of calls is the engine's own
	if a.Choices != 1 || !a.Plain || a.Foreign || a.Fault != nil || !agrees {
		d.reject(ReasonMalformed)
	} else if reason := d.isUnsound(a); reason != "" {
		d.reject(reason)
	}
}

// isUnsound says what is wrong with the calls of an answer, or its format; "" is nothing.
func (d *Draft) isUnsound(a *openai.DraftAnswer) string {
	r := d.o.Request
	calls := make([]schema.ToolCall, len(a.Calls))
	for i, c := range a.Calls {
		calls[i] = schema.ToolCall{Name: c.Name, Arguments: []byte(c.Arguments)}
	}
	if reason := schema.CheckCalls(calls, r.Raw("tools"), r.Raw("tool_choice")); reason != "" {
		return reason
	}
	if len(calls) > 0 {
		return ""
	}
	return d.malformed(a.Text)
}

// Audit is a draft that is audited: it is judged like the one that the client may get, but goes on
// to its end while its score is of interest, whatever becomes of the other meanwhile. A draft in
// the shadow is an Audit only. Nobody gets it, and nobody is asked before it is over.
type Audit struct {
	*Draft                  // committed where the client would have been shown its beginning
	over    bool            // nothing more of it is wanted
	left    bool            // the client left before its end
	verdict *accept.Verdict // of one that came in one piece
}

// NewAudit starts the audit of a draft with the given options. Scores below floor are of no interest.
func NewAudit(o Options, floor accept.Nats) *Audit {
	was := o.Decision
	d := &plan.Decision{Plan: plan.Plan{Tier: plan.Draft, Judged: true, Whole: was.Whole, Calls: was.Calls, Resume: was.Resume}, Accept: was.Accept}
	d.Accept.Threshold = floor
	o.Decision = d
	return &Audit{Draft: New(o)}
}

// Observe takes a chunk of the client's draft. waited says that the hold-back's time is over. Whoever has a threshold that
// is at or below the score would have been shown the draft from the end of the hold-back on, as [Draft.Commit] does.
func (a *Audit) Observe(c *openai.Chunk, waited bool) {
	if !a.NeedsMore() {
		return
	}
	if a.over = a.Take(c) || a.state == Rejected; a.over || a.finish != "" {
		return
	}
	a.Commit(waited)
	a.over = a.state == Rejected
}

// ObserveWhole takes a draft that came in one piece.
func (a *Audit) ObserveWhole(whole *openai.DraftAnswer) {
	a.TakeWhole(whole)
	v := a.End()
	a.verdict, a.over = &v, !v.Accept
}

// Leave says that the draft ended with its request. It reports whether the client was shown its beginning, which is then
// the draft.
func (a *Audit) Leave() (shown bool) {
	a.left = a.finish == ""
	return a.Committed()
}

// Left reports whether the draft is only the beginning of one, whose client has left.
func (a *Audit) Left() bool { return a.left }

// NeedsMore reports whether the audit needs more of the draft. It is false on nil.
func (a *Audit) NeedsMore() bool { return a != nil && !a.over && a.finish == "" }

// Verdict is that on the whole draft; zero where it was not read to its end.
func (a *Audit) Verdict() accept.Verdict {
	switch {
	case a.verdict != nil:
		return *a.verdict
	case a.left:
		return a.EarlyVerdict()
	case a.over && a.finish == "" && !a.Committed():
		return accept.Verdict{}
	}
	return a.End()
}

// IsMalformed reports whether the shape of a draft turned out to be at fault after the client was shown its beginning.
// Nobody needs to be asked: it is bad.
func (a *Audit) IsMalformed(v accept.Verdict) bool {
	return a.Committed() && v.Tokens > 0 && v.Reason != accept.ReasonScore
}
