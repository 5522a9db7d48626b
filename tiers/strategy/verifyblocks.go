package strategy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/transcript"
	"github.com/foregate/foregate/tiers/verify"
)

// verifyBlocks is an answer that draft and target write in turns: the draft a block, the target its
// word on it and one token of its own (block verification of greedy speculative decoding). What was
// sent is always what the target would have written, so that at any fault it carries on alone.
type verifyBlocks struct {
	*Answer
	window  int // the target's context length in tokens; 0 is unknown
	exact   accept.Exact
	t       *transcript.Transcript
	prompt  []int32
	drafter string // backend of the draft pool that has the answer so far in its cache
	scorer  string // the target's
	started time.Time
	ended   string // finish_reason of an answer that is whole
	gone    error  // of the client's side
}

var (
	errDraft     = errors.New("no block came")            // from the draft pool
	errBlock     = errors.New("a block cannot be used")   // a round gave nothing to go on with
	errNoVerdict = errors.New("the target could not say") // of a block
)

// blocks prepares to answer in turns, which is planned for greedy answers only. It is nil where nothing bounds a
// block behind the context's end.
func (a *Answer) blocks() *verifyBlocks {
	limit, window := a.Body.Limit(), a.Window(a.Target.Name())
	if limit == 0 && window == 0 || a.Target.Card == nil {
		return nil
	}
	return &verifyBlocks{
		Answer: a, window: window, t: a.newTranscript(),
		exact: accept.Exact{Block: a.Plan.Block, Limit: limit, Tie: a.Config.Tie, EOS: a.Target.Card.EOS},
	}
}

func (b *verifyBlocks) run(ctx context.Context) error {
	b.started = b.World.Now()
	b.noteJudging()
	for b.ended == "" {
		err := b.round(ctx)
		switch {
		case b.gone != nil:
			return b.gone
		case err != nil:
			return b.alone(ctx, err)
		}
	}
	return b.finish()
}

// round drafts a block, has it scored, and sends what stands. An error that is not the
// client's leaves the answer as it was before.
func (b *verifyBlocks) round(ctx context.Context) error {
	block, err := b.draft(ctx)
	if err != nil {
		return err
	}
	if b.exact.Limit == 0 {
		b.exact.Limit = max(b.window-len(b.prompt), 1)
	}
	began := b.World.Now()
	said := receipt.Checked{Scorer: plan.ScorerIDs, Tokens: len(block)}
	s, err := verify.Of(b.Caller).Score(ctx, verify.Question{Prompt: slices.Concat(b.prompt, b.exact.IDs), IDs: block, Warm: b.scorer})
	said.Backend, said.Took = s.Backend, b.World.Now().Sub(began)
	b.out.Scored += s.Computed
	b.noteTally()
	if err != nil {
		said.Reason = verify.WhyUnheard(err)
		b.checked(said)
		return errNoVerdict
	}
	b.scorer = s.Backend
	if s.Ends && !slices.Contains(b.exact.EOS, s.Next) {
		b.exact.EOS = append(slices.Clone(b.exact.EOS), s.Next)
	}
	said.Kept = b.exact.Take(block, s.Choices, s.Next)
	said.Pass, said.Reason = said.Kept == len(block), accept.ReasonStandsBy
	if !said.Pass {
		said.Reason = accept.ReasonDisagrees
	}
	b.checked(said)
	if n := len(b.exact.IDs); !said.Pass && b.exact.Finish == "" {
		// What the target would say instead may be an end that no probe has seen.
		if text, err := b.text(ctx, b.exact.IDs[n-1:]); err != nil || special(text) {
			b.exact.IDs = b.exact.IDs[:n-1]
			return fmt.Errorf("%w: the target's own token is no word", errBlock)
		}
	}
	return b.show(ctx)
}

// text has the target turn ids into text.
func (b *verifyBlocks) text(ctx context.Context, ids []int32) ([]byte, error) {
	return verify.Detokenize(ctx, b.Caller, b.Target, ids)
}

// special reports whether a token's text is none that people read: empty, or a mark such as
// <|eot_id|>.
func special(text []byte) bool {
	n := len(text)
	return n == 0 || n > 2 && text[0] == '<' && text[n-1] == '>' && !bytes.ContainsAny(text, " \n")
}

// draft has the draft pool write the next block.
func (b *verifyBlocks) draft(ctx context.Context) ([]int32, error) {
	want, block := max(b.exact.Want(), 1), &engine.Block{}
	var call engine.Call = &engine.FirstBlock{Terms: b.Terms(b.Draft), Request: b.Body, MaxTokens: want, Into: block}
	if len(b.prompt) > 0 {
		call = &engine.NextBlock{
			Terms: b.Terms(b.Draft), Request: b.Body, PromptIDs: b.prompt, IDs: b.exact.IDs, MaxTokens: b.exact.Want(), Into: block,
		}
	}
	o := b.draftOrder(call)
	o.Demand.Warm, o.Demand.Whole = b.drafter, true
	if len(b.prompt) > 0 {
		o.Demand.PromptTokens, o.Demand.PromptBytes = len(b.prompt)+len(b.exact.IDs), 0
	}
	backend, err := b.Ask(ctx, o)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errDraft, err)
	case len(block.IDs) == 0 || !block.Plain || block.Finish == "abort":
		return nil, fmt.Errorf("%w: no ids of plain text from %s", errBlock, backend)
	case len(b.prompt) == 0 && len(block.PromptIDs) == 0:
		return nil, fmt.Errorf("%w: the prompt's ids are not told by %s", errBlock, backend)
	case len(b.prompt) == 0:
		b.prompt = block.PromptIDs
	}
	b.drafter = backend
	if n := len(block.IDs); block.Finish == "stop" && !slices.Contains(b.exact.EOS, block.IDs[n-1]) {
		return nil, fmt.Errorf("%w: %s ended with an id that nobody knows for an end", errBlock, backend)
	}
	return block.IDs[:min(len(block.IDs), b.exact.Want())], nil
}

// show sends the text of what stands so far.
func (b *verifyBlocks) show(ctx context.Context) error {
	ids := b.exact.IDs
	if n := len(ids); b.exact.Finish == "stop" {
		ids = ids[:n-1] // the end has no text
	}
	text, err := b.text(ctx, ids)
	if err != nil {
		return err
	}
	size := len(text)
	text = bytes.TrimRight(text, "\uFFFD") // a character whose other bytes come later, or never: engines do not show it
	if !bytes.HasPrefix(text, b.t.Text()) {
		return fmt.Errorf("%w: the text of its ids does not begin as before", errBlock)
	}
	before, _ := b.t.Tokens()
	stopped, _ := b.t.Append(text[b.t.Len():], b.exact.IDs[len(b.t.IDs()):]) // nothing is ever pending here
	if stopped {
		b.ended = "stop"
		b.exact.IDs = b.shortest(ctx, before, ids)
		b.exact.Accepted = min(b.exact.Accepted, len(b.exact.IDs))
		return nil
	}
	b.t.Mark(len(b.exact.IDs), len(text) == size)
	if b.ended = b.exact.Finish; b.ended != "" {
		return nil
	}
	b.from(plan.Mixed)
	b.ruled(accept.Verdict{Accept: true, Reason: accept.ReasonStandsBy, Tokens: b.exact.Drafted, Lot: accept.LotWhole})
	b.gone = b.client.release(b.t)
	return b.gone
}

// alone has the target carry on when a round failed.
func (b *verifyBlocks) alone(ctx context.Context, cause error) error {
	why := whyAlone(cause)
	b.note(why)
	if ctx.Err() != nil {
		return b.interrupted(ctx, cause)
	}
	at := b.cutPoint(ctx)
	switch {
	case at.Tokens == 0 && !b.client.begun:
		b.wasted(b.exact.Drafted)
		if why == draft.ReasonLost && b.exact.Rounds == 0 {
			b.out.Verdict = accept.Verdict{}
			b.record.Unruled()
			return b.undrafted(ctx, cause)
		}
		return errNoDraft
	case b.client.begun && !b.Config.Takeover:
		return &BrokenError{cause}
	}
	b.t.Rewind(at)
	b.from(plan.Mixed)
	b.tookOver(why, at.Tokens, at.Text)
	c := &continuation{Answer: b.Answer, t: b.t, pool: b.Target, warm: b.scorer, prompt: len(b.prompt)}
	err := c.carryOn(ctx, at)
	if errors.Is(err, errNoDraft) {
		b.wasted(b.exact.Drafted)
	}
	return err
}

// whyAlone is why a round failed: the draft was lost, what it wrote cannot be used, or the target could not say.
func whyAlone(cause error) string {
	switch {
	case errors.Is(cause, errDraft):
		return draft.ReasonLost
	case errors.Is(cause, errBlock):
		return ReasonBlock
	}
	return accept.ReasonNoVerdict
}

// cutPoint is the last place from which the target can carry on by ids, else the end of the text. Where the answer
// so far ends within a character, the place is before it.
func (b *verifyBlocks) cutPoint(ctx context.Context) transcript.CutPoint {
	ids := b.exact.IDs
	at := b.t.CutAt(len(ids))
	for n := len(ids) - 1; at.Text < b.t.Len() && n > at.IDs && n > len(ids)-utf8.UTFMax; n-- {
		text, err := b.text(ctx, ids[:n])
		if err == nil && bytes.Equal(text, b.t.Text()) {
			at = transcript.CutPoint{Tokens: n, Text: len(text), IDs: n, Clean: true}
			break
		}
	}
	if at.Text < b.t.Sent() || at.Tokens == 0 {
		n, _ := b.t.Tokens()
		at = b.t.End(n)
	}
	if at.IDs > 0 {
		b.t.Adopt(b.prompt, ids[:at.IDs], at.Text)
	}
	return at
}

// finish ends the answer with what both wrote.
func (b *verifyBlocks) finish() error {
	b.note("")
	b.from(plan.Mixed)
	if b.out.Accepted == len(b.exact.IDs) {
		b.from(plan.Draft)
	}
	b.out.Prompt, b.out.Target = len(b.prompt), len(b.exact.IDs)-b.out.Accepted
	return b.end(b.t, finish{reason: b.ended})
}

// note tells the record of the rounds; why is what ended them, "" the answer's end.
func (b *verifyBlocks) note(why string) {
	b.out.Drafted, b.out.Accepted = b.exact.Drafted, b.exact.Accepted
	b.out.Wasted = max(b.exact.Drafted-b.exact.Accepted, 0)
	b.noteTally()
	b.record.Drafted(b.started)
	v := accept.Verdict{Reason: why, Tokens: b.exact.Drafted}
	if why == "" {
		v.Accept, v.Reason, v.Lot = true, accept.ReasonStandsBy, accept.LotWhole
	}
	b.ruled(v)
}
