package tiers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"unicode/utf8"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
)

// rally is an answer that draft and target write in turns: the draft a block, the target its
// word on it and one token of its own (acceptance.md §3.2, ping-pong). What was sent is always
// what the target would have written, so that at any fault it carries on alone.
type rally struct {
	*draft
	exact accept.Exact
	on    string // backend of the draft pool that has the answer so far warm
	gone  error  // of the client's side
}

var (
	errDraft     = errors.New("no block came")            // from the draft pool
	errBlock     = errors.New("a block cannot be used")   // a round gave nothing to go on with
	errNoVerdict = errors.New("the target could not say") // of a block
)

// pingPong answers in turns. It is planned for greedy answers only.
func (j *job) pingPong(ctx context.Context) error {
	limit, window := j.ask.Request.Limit(), j.cascade.windows.of(j.route.Target)
	card := j.cascade.cards(j.route.Target.Name())
	if limit == 0 && window == 0 || card == nil {
		return j.speculate(ctx) // nothing bounds a block behind the context's end, or the engines are others now
	}
	b := &rally{draft: j.newDraft()}
	b.exact = accept.Exact{Block: j.receipt.Plan.Block, Limit: limit, Tie: j.cfg.Tie, EOS: card.EOS}
	for over := false; !over; {
		var err error
		over, err = b.round(ctx, window)
		switch {
		case b.gone != nil: // the client's side failed
			return b.gone
		case err != nil:
			return b.alone(ctx, err)
		}
	}
	return b.end()
}

// round drafts a block, has it scored, and sends what stands. An error that is not the
// client's leaves the answer as it was before.
func (b *rally) round(ctx context.Context, window int) (over bool, err error) {
	block, err := b.serve(ctx)
	if err != nil {
		return false, err
	}
	if b.exact.Limit == 0 {
		b.exact.Limit = max(window-len(b.promptIDs), 1)
	}
	began := b.job.cascade.now()
	said := receipt.Checked{Scorer: plan.ScorerIDs, Tokens: len(block), At: began.Sub(b.job.receipt.Began)}
	span, err := b.job.scoredAt(ctx, slices.Concat(b.promptIDs, b.exact.IDs), block, &said, b.warm)
	said.Took = b.job.cascade.now().Sub(began)
	b.job.receipt.Verify += said.Took
	if err != nil {
		said.Reason = whyUnheard(err)
		b.job.checked(said)
		return false, errNoVerdict
	}
	b.warm = said.Backend
	if span.Ends && !slices.Contains(b.exact.EOS, span.Next) {
		b.exact.EOS = append(slices.Clone(b.exact.EOS), span.Next)
	}
	said.Kept = b.exact.Take(block, opinions(span), span.Next)
	said.Pass, said.Reason = said.Kept == len(block), accept.ReasonStandsBy
	if !said.Pass {
		said.Reason = accept.ReasonDisagrees
	}
	b.job.checked(said)
	if n := len(b.exact.IDs); !said.Pass && b.exact.Finish == "" {
		// What the target would say instead may be an end that no probe has seen.
		if text, err := b.job.detokenized(ctx, b.job.route.Target, b.exact.IDs[n-1:]); err != nil || special(text) {
			b.exact.IDs = b.exact.IDs[:n-1]
			return false, fmt.Errorf("%w: the target's own token is no word", errBlock)
		}
	}
	return b.show(ctx)
}

// special reports whether a token's text is none that people read: empty, or a mark such as
// <|eot_id|>.
func special(text []byte) bool {
	n := len(text)
	return n == 0 || n > 2 && text[0] == '<' && text[n-1] == '>' && !bytes.ContainsAny(text, " \n")
}

// serve has the draft pool write the next block.
func (b *rally) serve(ctx context.Context) ([]int32, error) {
	j := b.job
	want := strconv.AppendInt(nil, int64(max(b.exact.Want(), 1)), 10)
	k := j.call(j.route.Draft, openai.Completion.Path(), nil)
	if len(b.promptIDs) == 0 {
		k.path = j.ask.Request.Kind.Path()
		k.body = j.ask.Request.Apply(nil, append(j.engineEdits(j.route.Draft),
			openai.Edit{Name: "stream", Value: []byte("false")}, openai.Edit{Name: "stream_options"}, openai.Edit{Name: "stop"},
			openai.Edit{Name: "include_stop_str_in_output"}, openai.Edit{Name: "max_completion_tokens"},
			openai.Edit{Name: "max_tokens", Value: want}, openai.Edit{Name: "return_token_ids", Value: []byte("true")})...)
	} else {
		k.body = append(j.idsBody(j.route.Draft, b.promptIDs, b.exact.IDs, b.exact.Want()), `,"return_token_ids":true}`...)
		k.demand.PromptTokens, k.demand.PromptBytes = len(b.promptIDs)+len(b.exact.IDs), 0
	}
	var c *openai.Chunk
	parser := openai.ChunkParser{Judged: true, NoTop: true}
	k.read = func(body []byte) (err error) {
		c, err = parser.Parse(body)
		return err
	}
	k.made = func() *openai.Usage { return &c.Usage }
	k.turn.Now, k.demand.Warm, k.demand.Whole = true, b.on, true
	k.firstByte = j.firstByte(j.cfg.Timeouts.DraftFirstByte)
	backend, err := j.cascade.question(ctx, k, j.receipt)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errDraft, err)
	case c.Fault != nil || len(c.IDs) == 0 || !c.Plain || string(c.Finish) == "abort":
		return nil, fmt.Errorf("%w: no ids of plain text from %s", errBlock, backend)
	case len(b.promptIDs) == 0 && len(c.PromptIDs) == 0:
		return nil, fmt.Errorf("%w: the prompt's ids are not told by %s", errBlock, backend)
	case len(b.promptIDs) == 0:
		b.promptIDs = slices.Clone(c.PromptIDs)
	}
	b.on = backend
	if n := len(c.IDs); string(c.Finish) == "stop" && !slices.Contains(b.exact.EOS, c.IDs[n-1]) {
		return nil, fmt.Errorf("%w: %s ended with an id that nobody knows for an end", errBlock, backend)
	}
	return c.IDs[:min(len(c.IDs), b.exact.Want())], nil
}

// show sends the text of what stands so far.
func (b *rally) show(ctx context.Context) (over bool, err error) {
	j, ids := b.job, b.exact.IDs
	if n := len(ids); b.exact.Finish == "stop" {
		ids = ids[:n-1] // the end has no text
	}
	text, err := j.detokenized(ctx, j.route.Target, ids)
	if err != nil {
		return false, err
	}
	size := len(text)
	text = bytes.TrimRight(text, "\uFFFD") // a character whose other bytes come later, or never: engines do not show it
	if !bytes.HasPrefix(text, b.reply.text) {
		return false, fmt.Errorf("%w: the text of its ids does not begin as before", errBlock)
	}
	before, _ := b.course.TokensIn(len(b.reply.text))
	if b.reply.add(text[len(b.reply.text):]) {
		b.finish = "stop"
		b.shorten(ctx, before, ids)
		return true, nil
	}
	b.course.Mark(accept.Step{Tokens: len(b.exact.IDs), Text: len(b.reply.text), IDs: len(b.exact.IDs), Clean: len(text) == size})
	if b.finish = b.exact.Finish; b.finish != "" {
		return true, nil
	}
	j.receipt.Tier = plan.Mixed
	j.ruled(accept.Verdict{Accept: true, Reason: accept.ReasonStandsBy, Tokens: b.exact.Drafted, Lot: accept.LotWhole})
	b.gone = b.reply.release()
	return false, b.gone
}

// shorten forgets the tokens behind the one with which a stop string ended the answer: an
// engine would not have made them.
func (b *rally) shorten(ctx context.Context, before int, ids []int32) {
	n := before + 1 + sort.Search(len(ids)-before-1, func(i int) bool {
		text, err := b.job.detokenized(ctx, b.job.route.Target, ids[:before+1+i])
		if err != nil {
			return false // then all count
		}
		seen := newStops(b.job.ask.Request.Stop)
		at, _ := seen.find(text)
		return at >= 0
	})
	b.exact.IDs = b.exact.IDs[:n]
	b.exact.Accepted = min(b.exact.Accepted, n)
}

// alone has the target carry on when a round failed.
func (b *rally) alone(ctx context.Context, cause error) error {
	rc := b.job.receipt
	why := whyAlone(cause)
	b.book(why)
	if ctx.Err() != nil {
		return b.interrupted(ctx, cause)
	}
	at := b.seam(ctx)
	if at.Text < b.reply.sent || at.Tokens == 0 {
		n, _ := b.course.TokensIn(len(b.reply.text))
		at = accept.Step{Tokens: n, Text: len(b.reply.text)}
	}
	switch {
	case at.Tokens == 0 && !b.reply.began:
		rc.AcceptedTokens, rc.WastedTokens = 0, b.exact.Drafted
		if why == reasonLost && b.exact.Rounds == 0 {
			rc.Verdict, rc.Judged = accept.Verdict{}, 0
			return b.job.undrafted(ctx, cause)
		}
		return errNoDraft
	case b.reply.began && !b.job.cfg.Takeover:
		return &BrokenError{cause}
	}
	b.ids = slices.Clone(b.exact.IDs[:at.IDs])
	b.reply.cut(at.Text)
	rc.Tier = plan.Mixed
	b.job.over(receipt.Takeover{Why: why, Tokens: at.Tokens, Bytes: at.Text})
	err := b.continueOn(ctx, at)
	if errors.Is(err, errNoDraft) {
		rc.AcceptedTokens, rc.TargetTokens, rc.WastedTokens = 0, 0, b.exact.Drafted
	}
	return err
}

// whyAlone is why a round failed: the draft was lost, what it wrote cannot be used, or the target could not say.
func whyAlone(cause error) string {
	switch {
	case errors.Is(cause, errDraft):
		return reasonLost
	case errors.Is(cause, errBlock):
		return reasonBlock
	}
	return accept.ReasonNoVerdict
}

// seam is the last place from which the target can carry on by ids. Where the answer so far ends
// within a character, that is before it.
func (b *rally) seam(ctx context.Context) accept.Step {
	at := b.course.LastClean(len(b.exact.IDs))
	for n := len(b.exact.IDs) - 1; at.Text < len(b.reply.text) && n > at.IDs && n > len(b.exact.IDs)-utf8.UTFMax; n-- {
		text, err := b.job.detokenized(ctx, b.job.route.Target, b.exact.IDs[:n])
		if err == nil && bytes.Equal(text, b.reply.text) {
			return accept.Step{Tokens: n, Text: len(text), IDs: n, Clean: true}
		}
	}
	return at
}

// end finishes the answer with what both wrote.
func (b *rally) end() error {
	b.book("")
	rc := b.job.receipt
	rc.Tier = plan.Mixed
	if rc.AcceptedTokens == len(b.exact.IDs) {
		rc.Tier = plan.Draft
	}
	return b.finishAt(b.finish, openai.Usage{Prompt: len(b.promptIDs), Completion: len(b.exact.IDs)})
}

// book writes the rounds into the receipt; why is what ended them, "" the answer's end.
func (b *rally) book(why string) {
	rc := b.job.receipt
	rc.DraftedTokens, rc.AcceptedTokens = b.exact.Drafted, b.exact.Accepted
	rc.WastedTokens = max(b.exact.Drafted-b.exact.Accepted, 0)
	rc.Draft = b.job.cascade.now().Sub(b.started) - rc.Verify
	v := accept.Verdict{Reason: why, Tokens: b.exact.Drafted}
	if why == "" {
		v.Accept, v.Reason, v.Lot = true, accept.ReasonStandsBy, accept.LotWhole
	}
	b.job.ruled(v)
}

// detokenized has an engine turn ids into text.
func (j *job) detokenized(ctx context.Context, p *pool.Pool, ids []int32) (text []byte, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	k := j.aside(p, openai.DetokenizePath, openai.Detokenize(p.Model(), ids))
	k.read = func(body []byte) (err error) {
		text, err = openai.ParseText(body)
		return err
	}
	_, err = j.cascade.question(ctx, k, j.receipt)
	return text, err
}
