package draft

import (
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/transcript"
)

// Decide is to be asked after each chunk: it commits to the draft when its time has come, or wants the target asked first. waited
// says that the time is over for which a draft is held back.
func (d *Draft) Decide(waited bool) accept.Decision {
	decision := d.judge.Decide(waited)
	if decision != accept.Wait {
		d.addScorePoint()
	}
	return decision
}

// ApplyCheck takes the target's word on what came so far; nil is that it could not say.
func (d *Draft) ApplyCheck(said *accept.Check) { d.judge.ApplyCheck(said) }

// EarlyVerdict is the verdict on a draft that is under way.
func (d *Draft) EarlyVerdict() accept.Verdict { return d.judge.EarlyVerdict() }

// Fail notes that the draft broke off.
func (d *Draft) Fail() { d.lost = true }

// Verdict is that on a draft that is over. Where its reason is [accept.ReasonDoubtful] and nothing was
// committed, the target is to be asked and the verdict to be taken again.
func (d *Draft) Verdict() accept.Verdict {
	d.unlimited()
	r := d.o.Request
	if r.Structured && d.finish == "stop" && !d.whole && !d.Rejected() {
		if reason := d.malformed(d.text.Text()); reason != "" {
			d.judge.Reject(reason)
		}
	}
	_, _, stopped := d.text.Stop()
	v := d.judge.FinalVerdict(accept.Draft{
		Text: d.text.Text(), IDs: d.text.IDs(), Finish: d.finish, WantJSON: r.JSON, Calls: d.calls,
		Stopped: stopped, Refusals: d.o.Config.EscalateRefusals, PromptText: d.prompt(),
	})
	if d.lost && v.Reason == accept.ReasonCut {
		v.Reason = ReasonLost
	}
	return v
}

// IsAnswer reports whether a draft that is over is the answer.
func (d *Draft) IsAnswer(v accept.Verdict) bool { return d.judge.IsAnswer(v, d.finish != "") }

// CutPoint is where the target carries on with a draft that was not kept: the last clean place that may be
// kept, at a sentence's end if one is near. What was released is before it. The zero value means afresh.
func (d *Draft) CutPoint(v accept.Verdict) transcript.CutPoint {
	s := d.judge.Salvage(v, d.finish != "")
	if !s.AtSentence {
		return d.text.CutAt(s.Tokens)
	}
	at := d.text.CutAtSentence(s.Tokens)
	if at.Tokens < s.Min {
		return transcript.CutPoint{}
	}
	return at
}

// Release hands out what the client may have of a draft that is committed: what is sent, a cut point must be able
// to follow.
func (d *Draft) Release() []byte { return d.text.ReleaseTo(d.text.CutAt(d.Tokens())) }

// Ending is the end of an answer that is the draft.
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

// unlimited forgets an end that the draft's own context made, not the client's limit.
func (d *Draft) unlimited() {
	if limit := d.o.Request.Limit(); d.finish == "length" && (limit == 0 || max(d.Tokens(), d.usage.Completion) < limit) {
		d.finish = ""
	}
}

const (
	maxEcho   = 16 << 10 // bytes of a prompt that an answer is compared with: its end
	maxEchoed = 64 << 10 // bytes of a prompt that is still taken out of its JSON for that
)

// prompt is the text that an answer is compared with.
func (d *Draft) prompt() []byte {
	if r := d.o.Request; d.promptText == nil && r.PromptBytes <= maxEchoed {
		d.promptText = r.PromptText(maxEcho)
	}
	return d.promptText
}
