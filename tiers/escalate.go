package tiers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
)

// escalate hands the request to the target, with the accepted part of the draft
// where there is one.
func (d *draft) escalate(ctx context.Context) error {
	rc := d.job.receipt
	at := d.course.Seam(rc.Verdict, d.finish != "")
	rc.AcceptedTokens = at.Tokens
	rc.WastedTokens = d.course.Tokens() - at.Tokens
	if at.Tokens == 0 && !d.reply.began {
		return errNoDraft
	}
	d.reply.cut(at.Text)
	d.ids = d.ids[:min(at.IDs, len(d.ids))]
	rc.Tier = Mixed
	err := d.continueOn(ctx, at)
	if err == nil || d.reply.began {
		return err
	}
	if f, ok := errors.AsType[*Failure](err); ok && f.Kind != Gone && f.Kind != Expired {
		// This target cannot continue, or broke off while it did. Nothing was sent, so
		// a fresh answer is as good.
		rc.AcceptedTokens, rc.WastedTokens = 0, d.course.Tokens()
		return errNoDraft
	}
	return err
}

// continueOn lets the target carry on from the seam.
func (d *draft) continueOn(ctx context.Context, at accept.Step) error {
	j := d.job
	limit := j.ask.Request.Limit()
	if limit > 0 && at.Tokens >= limit {
		return d.finishAt("length", openai.Usage{Prompt: d.promptTokens(), Completion: at.Tokens})
	}
	k := d.continuation(&at)
	if len(d.reply.text) == 0 && !d.reply.began {
		return errNoDraft
	}
	k.stream = true
	k.turn.Must = d.reply.began
	k.firstByte = j.firstByte(j.cfg.Timeouts.TargetFirstByte)
	started := j.cascade.now()
	x, err := j.cascade.dispatch(ctx, k, j.cfg, j.receipt)
	if err != nil {
		return d.broken(err)
	}
	j.receipt.Target = j.cascade.now().Sub(started)
	return d.carryOn(x, at)
}

// continuation builds the call that continues from the seam: by ids where the
// pools share a tokenizer, else by text, which moves the seam back to the end of
// a word.
func (d *draft) continuation(at *accept.Step) call {
	j := d.job
	r := j.ask.Request
	rest := r.Limit()
	if rest > 0 {
		rest -= at.Tokens
	}
	window := j.cascade.windows.of(j.route.Target)
	if rest == 0 && window > 0 {
		rest = window - len(d.promptIDs) - len(d.ids) // all that the context still holds
	}
	if j.receipt.Plan.resume == resumeIDs && len(d.promptIDs) > 0 && len(d.ids) == at.Tokens && rest > 0 {
		k := j.call(j.route.Target, openai.Completion.Path(), d.byIDs(rest))
		k.demand.IDs = func() []int32 { return slices.Concat(d.promptIDs, d.ids) }
		k.demand.PromptTokens, k.demand.PromptBytes = len(d.promptIDs)+len(d.ids), 0
		return k
	}
	// The released text ends at a whole word; the rest of the accepted part is
	// dropped, so that the target chooses its own next token at the seam.
	d.reply.lagWord = true
	d.reply.cut(d.reply.releasable())
	kept := d.course.TokensIn(len(d.reply.text))
	if r.Limit() > 0 {
		rest += at.Tokens - kept
	}
	j.receipt.AcceptedTokens, j.receipt.WastedTokens = kept, d.course.Tokens()-kept
	at.Tokens = kept
	k := j.call(j.route.Target, r.Kind.Path(), d.byText(rest))
	k.demand.PromptBytes += len(d.reply.text)
	return k
}

// countedStream asks for the usage in every chunk, so that it is known too where
// a stop string ends the answer before the last one.
const countedStream = `{"include_usage":true,"continuous_usage_stats":true}`

// sampling are the fields that a continuation keeps as the client sent them.
var sampling = []string{
	"temperature", "top_p", "top_k", "min_p", "seed", "stop_token_ids", "ignore_eos",
	"skip_special_tokens", "spaces_between_special_tokens", "user",
}

func (d *draft) byIDs(rest int) []byte {
	r := d.job.ask.Request
	b := append(make([]byte, 0, 512+8*(len(d.promptIDs)+len(d.ids))), `{"model":`...)
	b = append(b, openai.Quote(d.job.route.Target.Model())...)
	b = append(b, `,"prompt":[`...)
	for i, ids := range [][]int32{d.promptIDs, d.ids} {
		for n, id := range ids {
			if i > 0 || n > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(id), 10)
		}
	}
	b = append(b, `],"max_tokens":`...)
	b = strconv.AppendInt(b, int64(rest), 10)
	b = append(b, `,"stream":true,"stream_options":`+countedStream...)
	if salt := d.job.ask.Salt; salt != "" {
		b = append(append(b, `,"cache_salt":`...), openai.Quote(salt)...)
	}
	if d.job.route.Target.Priorities() {
		b = strconv.AppendInt(append(b, `,"priority":`...), EnginePriority(d.job.ask.Class), 10)
	}
	for _, name := range sampling {
		if raw := r.Raw(name); raw != nil {
			b = append(b, `,"`+name+`":`...)
			b = append(b, raw...)
		}
	}
	return append(b, '}')
}

func (d *draft) byText(rest int) []byte {
	r := d.job.ask.Request
	edits := d.job.streamEdits(d.job.route.Target, countedStream)
	if rest > 0 {
		edits = append(edits, openai.Edit{Name: "max_completion_tokens"}, openai.Edit{Name: "max_tokens", Value: strconv.AppendInt(nil, int64(rest), 10)})
	}
	switch {
	case len(d.reply.text) == 0: // only the role was sent: there is nothing to carry over
	case r.Kind == openai.Completion:
		prompt := append(r.Text(), d.reply.text...)
		edits = append(edits, openai.Edit{Name: "prompt", Value: openai.Quote(string(prompt))})
	default:
		edits = append(edits,
			openai.Edit{Name: "messages", Value: r.Extended(d.reply.text)},
			openai.Edit{Name: "add_generation_prompt", Value: []byte("false")},
			openai.Edit{Name: "continue_final_message", Value: []byte("true")})
	}
	return r.Apply(nil, edits...)
}

// carryOn streams the target's part behind the accepted one.
func (d *draft) carryOn(x *exchange, at accept.Step) error {
	rc := d.job.receipt
	d.reply.lagWord, d.reply.bound = false, unbounded
	chunks, ended := 0, false
	var usage openai.Usage
	for !ended {
		_, chunk, err := x.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			f := err.(*Failure) // next returns nothing else
			x.close(f, chunks)
			return d.broken(f)
		}
		if len(chunk.Text) > 0 || len(chunk.Finish) > 0 {
			chunks++
		}
		if chunk.HasUsage {
			usage = chunk.Usage
		}
		if len(chunk.Finish) > 0 {
			d.finish = string(chunk.Finish)
			d.stopped = append(d.stopped[:0], chunk.Stop...)
		}
		if int64(len(d.reply.text)+len(chunk.Text)) > d.job.cascade.mostBody {
			f := x.failure(fmt.Errorf("%w: an answer of more than %d bytes", errBody, d.job.cascade.mostBody))
			x.close(f, chunks)
			return d.broken(f)
		}
		if ended = d.reply.add(chunk.Text); ended {
			d.finish = "stop"
		}
		if x.buffered() || ended || len(chunk.Finish) > 0 {
			continue
		}
		if err := d.reply.release(); err != nil {
			x.close(nil, chunks)
			return err
		}
	}
	if usage.Completion == 0 {
		usage.Completion = chunks // a stop string ended it before the usage came
	}
	x.close(nil, usage.Completion)
	rc.TargetTokens = usage.Completion
	return d.finishAt(d.finish, openai.Usage{Prompt: d.promptTokens(), Completion: at.Tokens + usage.Completion})
}

func (d *draft) finishAt(finish string, usage openai.Usage) error {
	rc := d.job.receipt
	rc.Finish, rc.PromptTokens = finish, usage.Prompt
	return d.reply.finish(openai.Ending{Finish: finish, Stop: d.stopped, Usage: usage, Extra: rc.extra()})
}

func (d *draft) promptTokens() int {
	switch {
	case d.usage.Prompt > 0:
		return d.usage.Prompt
	case len(d.promptIDs) > 0:
		return len(d.promptIDs)
	}
	return d.job.ask.Request.PromptTokens
}

// broken words a failure after the draft: before the first byte it is an
// ordinary one.
func (d *draft) broken(err error) error {
	if d.reply.began {
		return &BrokenError{err}
	}
	return err
}
