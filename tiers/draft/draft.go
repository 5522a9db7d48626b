// Package draft is a draft as it comes from the draft pool: its transcript, what the acceptance logic
// makes of it, and the checks of its structure. Start at [New] and [Draft.Take]; a draft that is audited is an
// [Audit], which sees the same chunks and is judged by another threshold.
//
// It asks nobody, sends nothing and knows no clock: who holds a draft has the target asked where
// Decide or the verdict says so, and tells it by Heard.
package draft

import (
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/schema"
	"github.com/foregate/foregate/tiers/transcript"
)

// Why a draft is not kept, beside the reasons of accept.
const (
	ReasonLost  = "draft_lost"     // it broke off
	ReasonShape = "not_plain_text" // it holds more than text
)

// Options say how a draft is judged.
type Options struct {
	Request  *openai.Request
	Config   plan.Config // the route's, with the threshold that holds for the request
	Plan     plan.Plan
	Warmup   bool            // the threshold is the warm-up's
	EOS      []int32         // ids with which the draft pool's engines end answers, as far as they are known
	Schemas  *schema.Schemas // compiled schemas of clients; nil is allowed where the request has none
	MaxBytes int64           // of the draft's text
}

// Draft is a draft in the making. It is for one goroutine.
type Draft struct {
	o     Options
	judge accept.Course
	text  *transcript.Transcript

	finish     string // finish_reason, "" while it is under way or broke off
	stopReason []byte // of the engine, as raw JSON
	usage      openai.Usage
	guessed    bool // tokens were counted by their chunks, of which one may hold several
	past       int  // tokens that came with a stop string, behind it
	whole      bool // it came in one piece
	calls      int  // of tools
	lost       bool // it broke off
	shown      bool // the client may have it, whatever this one comes to

	json       accept.JSONState // of the text, where JSON was asked for
	loops      accept.Loops
	promptText []byte // see prompt
	track      []accept.Mark
}

// New begins a draft.
func New(o Options) *Draft {
	d := &Draft{o: o}
	d.judge = accept.NewCourse(o.Config.Accept, accept.Course{
		Holdback: o.Config.HoldbackTokens, Whole: o.Plan.Whole, Resumes: o.Plan.Resumes(), Ask: o.Plan.Ask,
		Unscored: unscored(&o.Config).Reason(), Stays: !o.Config.Takeover,
		Pressed: o.Plan.Pressed, PressedAt: o.Config.Risk.PressedAt, Warmup: o.Warmup,
	})
	d.text = transcript.New(transcript.Options{
		Stop: o.Request.Stop, IncludeStop: o.Request.IncludeStop, WholeWords: o.Plan.Resume == plan.ResumeText,
	})
	return d
}

// unscored says what becomes of a draft without logprobs: in the audited modes it is none.
func unscored(cfg *plan.Config) plan.Unscored {
	if cfg.Mode.Audited() {
		return plan.UnscoredEscalate
	}
	return cfg.Unscored
}

// Transcript is the draft's text with its ids. Who carries on with the answer goes on with it.
func (d *Draft) Transcript() *transcript.Transcript { return d.text }

// Finish is the draft's finish_reason, "" while it is under way or where it broke off.
func (d *Draft) Finish() string { return d.finish }

// Tokens is how many tokens came, as far as they were judged.
func (d *Draft) Tokens() int { return d.judge.Tokens() }

// Score is the draft's own score so far.
func (d *Draft) Score() accept.Nats { return d.judge.Score() }

// Features are what a calibrated score is fitted to.
func (d *Draft) Features() accept.Features { return d.judge.Features() }

// Guessed reports whether the tokens are no more than their chunks, of which one may hold several.
func (d *Draft) Guessed() bool { return d.guessed }

// WantsTop reports whether the alternatives of the next token matter.
func (d *Draft) WantsTop() bool { return d.judge.WantsTop() }

// Rejected reports whether the draft can no longer be kept.
func (d *Draft) Rejected() bool { return d.judge.Rejected() }

// Committed reports whether the draft may be released as it comes.
func (d *Draft) Committed() bool { return d.judge.Committed() }

// Resumes reports whether the target can carry on from a part of the draft.
func (d *Draft) Resumes() bool { return d.judge.Resumes }

// TellsIDs reports whether the ids of the prompt and of all the draft's tokens are known, so that the target can score them.
func (d *Draft) TellsIDs() bool {
	n := len(d.text.IDs())
	return len(d.text.PromptIDs()) > 0 && n > 0 && n == d.Tokens()
}

// EndsItself reports whether the draft ended by itself: by no stop string, and by no id that the
// client named.
func (d *Draft) EndsItself() bool {
	_, _, stopped := d.text.Stop()
	return d.finish == "stop" && !stopped && (len(d.stopReason) == 0 || string(d.stopReason) == "null")
}

// Decide is to be asked after each chunk: it commits to the draft when its time has come, or wants the target asked first. waited
// says that the time is over for which a draft is held back.
func (d *Draft) Decide(waited bool) accept.Decision {
	decision := d.judge.Decide(waited)
	if decision != accept.Wait {
		d.mark()
	}
	return decision
}

// Heard takes the target's word on what came so far; nil is that it could not say.
func (d *Draft) Heard(said *accept.Check) { d.judge.Heard(said) }

// Early is the verdict on a draft that is under way.
func (d *Draft) Early() accept.Verdict { return d.judge.Early() }

// Lose notes that the draft broke off.
func (d *Draft) Lose() { d.lost = true }

// Verdict is that on a draft that is over. Where its reason is [accept.ReasonDoubtful] and nothing was
// committed, the target is to be asked and the verdict to be taken again.
func (d *Draft) Verdict() accept.Verdict {
	d.unlimited()
	r := d.o.Request
	if r.Structured && d.finish == "stop" && !d.whole && !d.Rejected() {
		if reason := d.misshapen(d.text.Text()); reason != "" {
			d.judge.Refuse(reason)
		}
	}
	_, _, stopped := d.text.Stop()
	v := d.judge.Final(accept.Draft{
		Text: d.text.Text(), IDs: d.text.IDs(), Finish: d.finish, WantJSON: r.JSON, Calls: d.calls,
		Stopped: stopped, Refusals: d.o.Config.Refusals, PromptText: d.prompt(),
	})
	if d.lost && v.Reason == accept.ReasonCut {
		v.Reason = ReasonLost
	}
	return v
}

// Keeps reports whether a draft that is over is the answer.
func (d *Draft) Keeps(v accept.Verdict) bool { return d.judge.Keeps(v, d.finish != "") }

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

// PromptTokens are those of the request's prompt: as the engine counts them, else by their ids, else as they are estimated.
func (d *Draft) PromptTokens() int {
	switch {
	case d.usage.Prompt > 0:
		return d.usage.Prompt
	case len(d.text.PromptIDs()) > 0:
		return len(d.text.PromptIDs())
	}
	return d.o.Request.PromptTokens
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
