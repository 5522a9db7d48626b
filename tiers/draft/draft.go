// Package draft is a draft while it streams from the draft pool: its transcript, its judgement by the acceptance logic,
// and the checks of its structure. Start at [New] and [Draft.Take]. An audited draft also has an [Audit], which reads
// the same chunks and is judged by another threshold. The [Transcript] of an answer goes on behind its draft.
//
// The package makes no calls and has no clock. If Decide or the verdict asks for a check by the target, the caller makes
// it and passes the result to ApplyCheck.
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

// Options say how a draft is judged.
type Options struct {
	Request  *openai.Request
	Config   plan.Config // of the route, with the request's threshold
	Plan     plan.Plan
	Warmup   bool           // the threshold is the warm-up's
	EOS      []int32        // ids with which the draft pool's engines end answers, as far as they are known
	Schemas  schema.Checker // of the tenant's schemas; may be zero if the request has none
	MaxBytes int64          // of the draft's text
}

// Draft is a draft that is being received. It is for one goroutine.
type Draft struct {
	o     Options
	judge accept.State
	text  *Transcript

	finish      string // finish_reason; "" while it streams, or if its backend failed
	stopReason  []byte // of the engine, as raw JSON
	usage       openai.Usage
	estimated   bool             // the token count is one per chunk, and a chunk may hold several tokens
	past        int              // tokens after a stop string in the same chunk
	whole       bool             // it came in one piece
	calls       int              // tool calls
	lost        bool             // its backend failed
	match       openai.TextMatch // of the text and the tokens
	loops       accept.RepetitionDetector
	squeezed    int // bytes of text that were looked through for loops, where there are no ids
	soundTokens int // tokens before the loop that it was rejected for
	track       scoreSeries
}

// New returns an empty draft.
func New(o Options) *Draft {
	d := &Draft{o: o, soundTokens: math.MaxInt}
	d.judge = accept.NewState(o.Config.Accept, accept.State{
		HoldbackTokens: o.Config.HoldbackTokens, Whole: o.Plan.Whole, CanResume: o.Plan.CanResume(), Checked: o.Plan.Checked,
		KeepCommitted: !o.Config.MidstreamFailover, Warmup: o.Warmup,
	})
	d.text = NewTranscript(TranscriptOptions{
		Stop: o.Request.Stop, IncludeStop: o.Request.IncludeStop, WholeWords: o.Plan.Resume == plan.ResumeText,
	})
	return d
}

// Transcript returns the draft's text with its ids. A continuation of the answer uses the same transcript.
func (d *Draft) Transcript() *Transcript { return d.text }

// Finish returns finish_reason; "" while it streams, or if its backend failed.
func (d *Draft) Finish() string { return d.finish }

// Tokens returns the number of tokens received.
func (d *Draft) Tokens() int { return d.judge.Tokens() }

// Score returns the draft's score so far.
func (d *Draft) Score() accept.Nats { return d.judge.Score() }

// Features returns the inputs of a fitted score.
func (d *Draft) Features() accept.Features { return d.judge.Features() }

// EstimatedTokens reports whether the token count is one per chunk only.
func (d *Draft) EstimatedTokens() bool { return d.estimated }

// NeedsTopLogprobs reports whether the score uses the alternatives of the next token.
func (d *Draft) NeedsTopLogprobs() bool { return d.judge.NeedsTopLogprobs() }

// Rejected reports whether the draft can no longer be accepted.
func (d *Draft) Rejected() bool { return d.judge.Rejected() }

// Committed reports whether the draft is sent as it comes.
func (d *Draft) Committed() bool { return d.judge.Committed() }

// CanResume reports whether the target can continue a part of the draft.
func (d *Draft) CanResume() bool { return d.judge.CanResume }

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

// ScoreSeries returns the score at 8, 12, 16, 24, 32, 48 … tokens, at the decision, and now.
func (d *Draft) ScoreSeries() []accept.ScorePoint {
	d.addScorePoint()
	return d.track
}

// addScorePoint adds the current score to the series.
func (d *Draft) addScorePoint() { d.track.add(d.Tokens(), d.Score()) }

// malformed returns what is wrong with the format of a text, or "".
func (d *Draft) malformed(text []byte) string {
	if format := d.o.Request.Raw("response_format"); format != nil {
		return d.o.Schemas.CheckFormat(text, format)
	}
	return ""
}
