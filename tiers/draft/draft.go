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
	ReasonLost      = "draft_lost"     // it broke off
	ReasonMalformed = "not_plain_text" // it holds more than text
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
	judge accept.State
	text  *transcript.Transcript

	finish     string // finish_reason, "" while it is under way or broke off
	stopReason []byte // of the engine, as raw JSON
	usage      openai.Usage
	estimated  bool // tokens were counted by their chunks, of which one may hold several
	past       int  // tokens that came with a stop string, behind it
	whole      bool // it came in one piece
	calls      int  // of tools
	lost       bool // it broke off
	shown      bool // the client may have it, whatever this one comes to

	json       accept.JSONState // of the text, where JSON was asked for
	loops      accept.RepetitionDetector
	promptText []byte // see prompt
	track      scoreSeries
}

// New begins a draft.
func New(o Options) *Draft {
	d := &Draft{o: o}
	d.judge = accept.NewState(o.Config.Accept, accept.State{
		HoldbackTokens: o.Config.HoldbackTokens, Whole: o.Plan.Whole, CanResume: o.Plan.CanResume(), CheckPolicy: o.Plan.CheckPolicy,
		MissingLogprobsReason: missingLogprobsReason(&o.Config).Reason(), KeepCommitted: !o.Config.MidstreamFailover,
		AllowLowScore: o.Plan.AllowLowScore, MinLowScore: o.Config.Risk.PressureThreshold, Warmup: o.Warmup,
	})
	d.text = transcript.New(transcript.Options{
		Stop: o.Request.Stop, IncludeStop: o.Request.IncludeStop, WholeWords: o.Plan.Resume == plan.ResumeText,
	})
	return d
}

// missingLogprobsReason says what becomes of a draft without logprobs: in the audited modes it is none.
func missingLogprobsReason(cfg *plan.Config) plan.MissingLogprobs {
	if cfg.Mode.Audited() {
		return plan.MissingLogprobsEscalate
	}
	return cfg.OnMissingLogprobs
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

// EstimatedTokens reports whether the tokens are no more than their chunks, of which one may hold several.
func (d *Draft) EstimatedTokens() bool { return d.estimated }

// NeedsTopLogprobs reports whether the alternatives of the next token matter.
func (d *Draft) NeedsTopLogprobs() bool { return d.judge.NeedsTopLogprobs() }

// Rejected reports whether the draft can no longer be kept.
func (d *Draft) Rejected() bool { return d.judge.Rejected() }

// Committed reports whether the draft may be released as it comes.
func (d *Draft) Committed() bool { return d.judge.Committed() }

// CanResume reports whether the target can carry on from a part of the draft.
func (d *Draft) CanResume() bool { return d.judge.CanResume }

// EndsItself reports whether the draft ended by itself: by no stop string, and by no id that the
// client named.
func (d *Draft) EndsItself() bool {
	_, _, stopped := d.text.Stop()
	return d.finish == "stop" && !stopped && (len(d.stopReason) == 0 || string(d.stopReason) == "null")
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

// ScoreSeries is how the score fell: at 8, 12, 16, 24, 32, 48 tokens and so on, where it was decided whether the
// client gets the draft, and now.
func (d *Draft) ScoreSeries() []accept.ScorePoint {
	d.addScorePoint()
	return d.track
}

// addScorePoint notes the score so far.
func (d *Draft) addScorePoint() { d.track.add(d.Tokens(), d.Score()) }

// malformed says what is wrong with the format of a text, "" is nothing.
func (d *Draft) malformed(text []byte) string {
	if format := d.o.Request.Raw("response_format"); format != nil {
		return d.o.Schemas.CheckFormat(text, format)
	}
	return ""
}
