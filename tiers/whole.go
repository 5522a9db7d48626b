package tiers

import (
	"context"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/schema"
)

// speculateWhole drafts an answer that may call tools: it is asked for in one piece, since
// half a call is none, and is the client's if it holds in all its parts.
func (j *job) speculateWhole(ctx context.Context) error {
	d := j.newDraft()
	k, a := j.draftWholeCall()
	if _, err := j.cascade.question(ctx, k, j.receipt); err != nil {
		return j.undrafted(ctx, err)
	}
	v := d.judgeWhole(ctx, a)
	j.receipt.Draft = j.cascade.now().Sub(d.started) - j.receipt.Verify
	j.receipt.Verdict, j.receipt.DraftedTokens = v, d.course.Tokens()
	if j.audited() {
		j.auditWhole(a)
	}
	if ctx.Err() != nil {
		return d.interrupted(ctx, nil)
	}
	if !v.Accept {
		j.receipt.WastedTokens = d.course.Tokens()
		return errNoDraft
	}
	return j.giveWhole(a)
}

// draftWholeCall asks the draft pool for an answer in one piece, with all that judging needs.
func (j *job) draftWholeCall() (call, *openai.DraftAnswer) {
	return j.wholeCall(j.route.Draft, j.cfg.Timeouts.DraftFirstByte,
		openai.Edit{Name: "return_token_ids", Value: []byte("true")},
		openai.Edit{Name: "logprobs", Value: []byte("true")}, openai.Edit{Name: "top_logprobs", Value: []byte("5")})
}

// wholeCall asks a pool for an answer in one piece, which is there once the call was made. It does
// not wait for room.
func (j *job) wholeCall(p *pool.Pool, firstByte time.Duration, more ...openai.Edit) (call, *openai.DraftAnswer) {
	r := j.ask.Request
	edits := append(j.engineEdits(p), openai.Edit{Name: "stream", Value: []byte("false")}, openai.Edit{Name: "stream_options"})
	body := r.Apply(make([]byte, 0, len(r.Body)+256), append(edits, more...)...)
	a := new(openai.DraftAnswer)
	k := j.call(p, r.Kind.Path(), body)
	k.read = func(body []byte) (err error) {
		*a, err = openai.ParseDraftAnswer(body)
		return err
	}
	k.made = func() *openai.Usage { return &a.Usage }
	k.turn.Now, k.demand.Whole = true, true
	k.firstByte = j.cfg.Timeouts.Whole(j.firstByte(firstByte), r)
	return k, a
}

// judgeWhole is the verdict on a draft that came in one piece.
func (d *draft) judgeWhole(ctx context.Context, a *openai.DraftAnswer) accept.Verdict {
	d.promptIDs, d.ids, d.finish, d.usage = a.PromptIDs, a.IDs, a.Finish, a.Usage
	d.reply.text = a.Text
	for i, lp := range a.Logprobs {
		if !d.course.Add(lp, a.Top(i)) {
			break
		}
	}
	missing := max(len(a.IDs), a.Usage.Completion) - len(a.Logprobs)
	if missing > 0 && (a.Finish == "stop" || a.Finish == "tool_calls") {
		d.course.End()
		missing--
	}
	d.course.Missing(missing)
	d.mark()
	d.unlimited()
	if a.Choices != 1 || !a.Plain || a.Foreign || a.Fault != nil {
		d.course.Refuse(reasonShape)
	} else if reason := d.job.unsound(a); reason != "" {
		d.course.Refuse(reason)
	}
	v := d.finalOf(len(a.Calls))
	if v.Reason == accept.ReasonDoubtful {
		d.course.Heard(d.ask(ctx))
		v = d.finalOf(len(a.Calls))
	}
	return v
}

// unsound says what is wrong with the calls of an answer, or its format; "" is nothing.
func (j *job) unsound(a *openai.DraftAnswer) string {
	r := j.ask.Request
	calls := make([]schema.ToolCall, len(a.Calls))
	for i, c := range a.Calls {
		calls[i] = schema.ToolCall{Name: c.Name, Arguments: []byte(c.Arguments)}
	}
	if reason := j.cascade.schemas.CheckCalls(calls, r.Raw("tools"), r.Raw("tool_choice")); reason != "" {
		return reason
	}
	if len(calls) > 0 {
		return ""
	}
	return j.misshapen(a.Text)
}

// misshapen says what is wrong with the format of a text, "" is nothing.
func (j *job) misshapen(text []byte) string {
	if format := j.ask.Request.Raw("response_format"); format != nil {
		return j.cascade.schemas.CheckFormat(text, format)
	}
	return ""
}

// giveWhole sends a draft that came in one piece, in the client's shape.
func (j *job) giveWhole(a *openai.DraftAnswer) error {
	rc, r := j.receipt, j.ask.Request
	rc.Tier, rc.Finish, rc.PromptTokens, rc.AcceptedTokens = plan.Draft, a.Finish, a.Usage.Prompt, a.Usage.Completion
	framer := openai.NewFramer(r.Kind, j.ask.ID, j.route.Model, j.cascade.now().Unix())
	whole := a.Whole(r.Kind)
	body := framer.Whole(nil, whole, rc.Extra())
	j.ask.Tap.Body(body)
	j.ask.Tap.End(openai.Ending{Usage: a.Usage})
	j.begun()
	if r.Stream {
		if err := j.sink.Begin(Head{Stream: true, Receipt: rc}); err != nil {
			return err
		}
		return j.sink.Write(framer.WholeStream(nil, whole, rc.Extra(), r.IncludeUsage))
	}
	if err := j.sink.Begin(Head{Receipt: rc, Length: int64(len(body))}); err != nil {
		return err
	}
	return j.sink.Write(body)
}
