package tiers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
)

// escalate hands the request to the target, with the accepted part of the draft
// where there is one.
func (d *draft) escalate(ctx context.Context) error {
	rc := d.job.receipt
	at := d.course.Seam(rc.Verdict, d.finish != "")
	d.finish, d.stopped = "", nil // how the draft ended is not how the answer will
	switch {
	case d.own != nil && !d.course.Committed():
		at = d.adopt()
	case d.course.Committed() && !d.job.cfg.Takeover:
		return &BrokenError{fmt.Errorf("the draft did not hold (%s), and speculation.takeover is no", rc.Verdict.Reason)}
	}
	rc.AcceptedTokens = at.Tokens
	rc.WastedTokens = max(d.course.Tokens()-at.Tokens, 0)
	if at.Tokens == 0 && !d.reply.began {
		return errNoDraft
	}
	said := d.reply.owe(at.Text)
	d.ids = d.ids[:min(at.IDs, len(d.ids))]
	rc.Tier = plan.Mixed
	if d.course.Committed() {
		d.job.over(receipt.Takeover{Why: rc.Verdict.Reason, Tokens: at.Tokens, Bytes: at.Text})
	}
	err := d.continueOn(ctx, at)
	if errors.Is(err, errUnlike) && ctx.Err() == nil {
		d.reply.text, d.reply.owed = said, nil
		d.course.Shorten(at.Text)
		at = accept.Step{Tokens: at.Tokens + 1, Text: len(said)}
		d.course.Mark(at)
		err = d.continueOn(ctx, at)
	}
	if err == nil || d.reply.began {
		return err
	}
	if f, ok := errors.AsType[*engine.Failure](err); ok && f.Kind != engine.Gone && f.Kind != engine.Expired {
		// This target cannot continue, or broke off while it did. Nothing was sent, so
		// a fresh answer is as good.
		rc.AcceptedTokens, rc.TargetTokens, rc.WastedTokens = 0, 0, d.course.Tokens()
		return errNoDraft
	}
	return err
}

// adopt takes the target's own ids of what it stood by for the draft's.
func (d *draft) adopt() accept.Step {
	d.promptIDs, d.ids, d.exact = d.own.prompt, d.own.ids, true
	return accept.Step{Tokens: len(d.ids), Text: d.own.text, IDs: len(d.ids), Clean: true}
}

// continueOn lets the target carry on from the seam, and another backend of it where the one
// that does is lost.
func (d *draft) continueOn(ctx context.Context, at accept.Step) error {
	j := d.job
	for {
		k, whole := d.continuation(ctx, &at)
		if whole {
			d.reply.unheal()
			return d.finishAt("length", openai.Usage{Prompt: d.promptTokens(), Completion: at.Tokens})
		}
		if !d.reply.began && (len(d.reply.text) == 0 || !at.Clean && j.receipt.Plan.Mode == plan.ModeVerify) {
			return errNoDraft // from the words alone the target need not say what it would have said
		}
		d.course.Shorten(at.Text) // what was cut off is not counted with what comes
		d.course.Mark(at)
		k.stream = true
		k.turn.Must = d.reply.began && !d.patient
		k.demand.Warm, k.demand.Exclude = d.warm, d.left
		k.firstByte = j.firstByte(j.cfg.Timeouts.TargetFirstByte)
		j.enter(d.phase())
		started := j.cascade.now()
		x, err := j.cascade.dispatch(ctx, k, j.cfg, j.receipt)
		if _, spent := errors.AsType[*ExhaustedError](err); len(d.left) > 0 && (spent || errors.Is(err, pool.ErrNoBackend)) {
			k.demand.Exclude, d.left = nil, nil // nobody else is left
			x, err = j.cascade.dispatch(ctx, k, j.cfg, j.receipt)
		}
		if err != nil {
			j.leave()
			return d.broken(err)
		}
		if !d.stays() {
			j.receipt.TargetFirst += j.cascade.now().Sub(started)
		}
		f, err := d.carryOn(x, &at)
		j.leave()
		switch {
		case err != nil || f == nil:
			return err
		case !d.reply.began || !j.mayTakeOver(f):
			return d.broken(f)
		}
		d.warm, d.left, d.patient, d.counting = "", append(d.left, x.lease.Backend()), true, 0
		j.lost(at)
	}
}

// stays reports whether it is the draft pool's own answer that is carried on with there.
func (d *draft) stays() bool { return d.after != nil && d.job.receipt.Tier == plan.Draft }

// phase is the part of the answer's time that carrying on belongs to.
func (d *draft) phase() *time.Duration {
	if d.stays() {
		return &d.job.receipt.Draft
	}
	return &d.job.receipt.Target
}

// continuation builds the call that continues from the seam: by ids where they are known,
// else by text, which moves the seam back to the end of a word. whole says that there is nothing to continue: the
// answer has as many tokens as it may have.
func (d *draft) continuation(ctx context.Context, at *accept.Step) (k call, whole bool) {
	j := d.job
	r := j.ask.Request
	limit, rest := r.Limit(), 0
	if limit > 0 {
		if rest = limit - at.Tokens; rest <= 0 {
			return call{}, true
		}
	}
	prompt, ids := d.promptIDs, d.ids
	window := j.cascade.windows.of(d.heir())
	if rest == 0 && window > 0 {
		rest = window - len(prompt) - len(ids) // all that the context still holds
	}
	told := len(prompt) > 0 && len(ids) == at.IDs && at.IDs > 0 && at.IDs == at.Tokens // of all tokens the ids
	if (j.receipt.Plan.Resume == plan.ResumeIDs || d.exact && plan.Repeats(r)) && told && at.Clean && rest > 0 {
		k = j.call(d.heir(), openai.Completion.Path(), d.byIDs(prompt, ids, rest))
		k.judged = true
		k.demand.IDs = func() []int32 { return slices.Concat(prompt, ids) }
		k.demand.PromptTokens, k.demand.PromptBytes = len(prompt)+len(ids), 0
		return k, false
	}
	// The released text ends at a whole word; the rest of the accepted part is
	// dropped, so that the target chooses its own next token at the seam.
	d.reply.lagWord = true
	if len(d.reply.owed) == 0 {
		d.reply.cut(d.reply.releasable())
	}
	kept, exact := d.course.TokensIn(len(d.reply.text))
	if d.guessed || !exact {
		if n, err := d.counted(ctx, d.heir()); err == nil {
			kept = n
		}
	}
	if limit > 0 {
		rest = limit - kept
	}
	at.Tokens = kept
	j.receipt.AcceptedTokens = min(j.receipt.AcceptedTokens, kept)
	j.receipt.WastedTokens = max(d.course.Tokens()-j.receipt.AcceptedTokens, 0)
	at.Text, at.IDs, at.Clean = len(d.reply.text), 0, false
	d.ids = d.ids[:0]
	if limit > 0 && rest <= 0 { // there were more than the chunks told
		return call{}, true
	}
	k = j.call(d.heir(), r.Kind.Path(), d.byText(rest))
	k.demand.PromptBytes += len(d.reply.text)
	return k, false
}

// countedStream asks for the usage in every chunk, so that it is known too where
// a stop string ends the answer before the last one.
const countedStream = `{"include_usage":true,"continuous_usage_stats":true}`

func (d *draft) byIDs(prompt, ids []int32, rest int) []byte {
	b := d.job.idsBody(d.heir(), prompt, ids, rest)
	return append(b, `,"stream":true,"return_token_ids":true,"stream_options":`+countedStream+`}`...)
}

// idsBody begins the body of a completion behind ids, as the request samples; its last brace
// is missing.
func (j *job) idsBody(p *pool.Pool, prompt, ids []int32, rest int) []byte {
	r := j.ask.Request
	b := append(make([]byte, 0, 512+8*(len(prompt)+len(ids))), `{"model":`...)
	b = append(b, openai.Quote(p.Model())...)
	b = append(b, `,"prompt":[`...)
	for i, part := range [][]int32{prompt, ids} {
		for n, id := range part {
			if i > 0 || n > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, int64(id), 10)
		}
	}
	b = append(b, `],"max_tokens":`...)
	b = strconv.AppendInt(b, int64(rest), 10)
	if salt := j.ask.Salt; salt != "" {
		b = append(append(b, `,"cache_salt":`...), openai.Quote(salt)...)
	}
	if priority := j.enginePriority(p); priority != nil {
		b = strconv.AppendInt(append(b, `,"priority":`...), *priority, 10)
	}
	for _, name := range plan.Sampling {
		if raw := r.Raw(name); raw != nil {
			b = append(b, `,"`+name+`":`...)
			b = append(b, raw...)
		}
	}
	return b
}

func (d *draft) byText(rest int) []byte {
	r := d.job.ask.Request
	edits := d.job.streamEdits(d.heir(), countedStream)
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

// carryOn streams the target's part behind the accepted one. Where the backend is lost it
// returns why, and at is the place from which another can carry on.
func (d *draft) carryOn(x *exchange, at *accept.Step) (*engine.Failure, error) {
	defer x.drop()
	leg := leg{draft: d, x: x, from: *at, at: *at}
	defer func() { *at = leg.at }()
	d.reply.lagWord, d.reply.bound = false, unbounded
	x.moves(d.job.mayTakeOver(&engine.Failure{Kind: engine.Silent}))
	for over := false; !over; {
		_, chunk, err := x.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			f := err.(*engine.Failure) // next returns nothing else
			x.close(f, leg.tokens)
			if d.finish != "" {
				break // the answer is whole
			}
			d.guessed = d.guessed || leg.guessed
			d.reply.owe(leg.at.Text)
			d.ids = d.ids[:min(leg.at.IDs, len(d.ids))]
			return f, nil
		}
		if !d.reply.honours(chunk.Text) {
			x.close(nil, leg.tokens)
			return nil, errUnlike
		}
		if over, err = leg.take(chunk); err != nil {
			return nil, err
		}
	}
	x.close(nil, leg.tokens)
	if len(d.reply.owed) > 0 {
		return nil, errUnlike
	}
	if d.promptTokens() == 0 || d.after != nil {
		d.usage.Prompt = max(leg.usage.Prompt-leg.from.Tokens, 0)
	}
	return nil, d.finishAt(d.finish, openai.Usage{Prompt: d.promptTokens(), Completion: leg.from.Tokens + leg.tokens})
}

// errUnlike says that a backend which was to write a word again wrote another.
var errUnlike = errors.New("the last word was written differently")

// leg is the part of an answer that one backend carries on with.
type leg struct {
	*draft
	x        *exchange
	from, at accept.Step // where it began, and as far as another could follow
	tokens   int         // that came, as the engine counts them
	guessed  bool        // it did not tell: they are one for each chunk with text
	usage    openai.Usage
}

// count counts the tokens of a chunk, and takes the engine's word for all where it is the last.
func (l *leg) count(c *openai.Chunk) {
	n, told := came(c, l.tokens)
	l.tokens, l.guessed = l.tokens+n, l.guessed || !told
	if c.HasUsage {
		l.usage = c.Usage
	}
	if c.Usage.Completion > 0 && (c.Choices == 0 || len(c.Finish) > 0) {
		l.tokens, l.guessed = c.Usage.Completion, false
	}
}

// take takes in a chunk and sends what may be sent; over says that the answer is.
func (l *leg) take(c *openai.Chunk) (over bool, err error) {
	d := l.draft
	l.count(c)
	if len(c.Finish) > 0 {
		d.finish = string(c.Finish)
		d.stopped = append(d.stopped[:0], c.Stop...)
	}
	if int64(len(d.reply.text)+len(c.Text)) > d.job.cascade.mostBody {
		f := l.x.failure(fmt.Errorf("%w: an answer of more than %d bytes", engine.ErrBody, d.job.cascade.mostBody))
		l.x.close(f, l.tokens)
		return true, d.broken(f)
	}
	d.ids = append(d.ids, c.IDs...)
	if over = d.reply.add(c.Text); over {
		d.finish = "stop"
	} else if len(c.Text) > 0 && len(c.Finish) == 0 {
		ids := len(d.ids)
		l.at = accept.Step{Tokens: l.from.Tokens + l.tokens, Text: len(d.reply.text), IDs: ids, Clean: l.from.Clean && len(c.IDs) == 1}
		d.course.Mark(l.at)
	}
	if l.x.buffered() || over || len(c.Finish) > 0 || len(d.reply.owed) > 0 {
		return over, nil
	}
	if err := d.reply.release(); err != nil {
		l.x.close(nil, l.tokens)
		return true, err
	}
	return false, nil
}

func (d *draft) finishAt(finish string, usage openai.Usage) error {
	rc := d.job.receipt
	rc.Finish, rc.PromptTokens = finish, usage.Prompt
	rc.AcceptedTokens = min(rc.AcceptedTokens, usage.Completion)
	rc.TargetTokens = usage.Completion - rc.AcceptedTokens
	if d.stays() {
		rc.AcceptedTokens, rc.TargetTokens = usage.Completion, 0
	}
	return d.reply.finish(openai.Ending{Finish: finish, Stop: d.stopped, Usage: usage, Extra: rc.Extra()})
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
