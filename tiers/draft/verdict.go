package draft

import (
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
)

// Decide commits to the draft after a chunk if its score is accepted, and reports whether it did. waited says that the
// hold-back's time is over.
func (d *Draft) Decide(waited bool) (committed bool) {
	if committed = d.judge.Decide(waited); committed {
		d.addScorePoint()
	}
	return committed
}

// ApplyCheck takes the target's check of the whole draft; nil means that there is none.
func (d *Draft) ApplyCheck(check *accept.Check) { d.judge.ApplyCheck(check) }

// EarlyVerdict returns the verdict on an unfinished draft.
func (d *Draft) EarlyVerdict() accept.Verdict { return d.judge.EarlyVerdict() }

// Fail says that the draft's backend failed.
func (d *Draft) Fail() { d.lost = true }

// Verdict returns the verdict on a finished draft. If its reason is [accept.ReasonDoubtful] and nothing was committed,
// the caller asks the target and calls Verdict again.
func (d *Draft) Verdict() accept.Verdict {
	d.unlimited()
	r := d.o.Request
	if r.Structured && d.finish == "stop" && !d.whole && !d.Rejected() {
		if reason := d.malformed(d.text.Text()); reason != "" {
			d.judge.Reject(reason)
		}
	}
	v := d.judge.FinalVerdict(accept.Draft{Text: d.text.Text(), IDs: d.text.IDs(), Finish: d.finish, WantJSON: r.JSON, Calls: d.calls})
	if d.lost && v.Reason == accept.ReasonCut {
		v.Reason = accept.ReasonLost
	}
	return v
}

// IsAnswer reports whether a finished draft is the answer.
func (d *Draft) IsAnswer(v accept.Verdict) bool { return d.judge.IsAnswer(v, d.finish != "") }

// CutPoint returns where the target continues a rejected draft: the last clean position that may be kept, at a
// sentence's end if one is near. Sent text is before it. The zero value means a fresh answer.
func (d *Draft) CutPoint(v accept.Verdict) CutPoint {
	s := d.judge.Salvage(v, d.finish != "")
	if !s.AtSentence {
		return d.text.CutUnsent(min(s.Tokens, d.soundTokens))
	}
	at := d.text.CutAtSentence(s.Tokens)
	if at.Tokens < s.Min {
		return CutPoint{}
	}
	return at
}

// Release returns the text of a committed draft that may be sent now. Sent text must end before a cut point.
func (d *Draft) Release() []byte { return d.text.ReleaseTo(d.text.CutAt(d.Tokens())) }

// Ending returns the end of an answer that is the draft.
func (d *Draft) Ending() openai.Ending {
	e := openai.Ending{Finish: d.finish, Stop: d.stopReason, Usage: d.usage}
	word, _, stopped := d.text.Stop()
	if stopped {
		e.Stop = openai.Quote(string(word))
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
