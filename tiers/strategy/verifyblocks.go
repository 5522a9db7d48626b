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
	window   int // the target's context length in tokens; 0 is unknown
	verifier accept.BlockVerifier
	t        *transcript.Transcript
	prompt   []int32
	drafter  string // backend of the draft pool that has the answer so far in its cache
	scorer   string // the target's
	started  time.Time
	ended    string // finish_reason of an answer that is whole
	released error  // of the client's side
}

var (
	errDraft     = errors.New("no block came")            // from the draft pool
	errBlock     = errors.New("a block cannot be used")   // a round gave nothing to go on with
	errNoVerdict = errors.New("the target could not say") // of a block
)

// blocks prepares to answer in turns, which is planned for greedy answers only. It is nil where nothing bounds a
// block behind the context's end.
func (a *Answer) blocks() *verifyBlocks {
	limit, window := a.Body.Limit(), a.ContextWindow(a.Target.Name())
	if limit == 0 && window == 0 || a.Target.Capabilities == nil {
		return nil
	}
	return &verifyBlocks{
		Answer: a, window: window, t: a.newTranscript(),
		verifier: accept.BlockVerifier{Block: a.Plan.Block, Limit: limit, Tie: a.Config.TieTolerance, EOS: a.Target.Capabilities.EOS},
	}
}

func (b *verifyBlocks) run(ctx context.Context) error {
	b.started = b.World.Now()
	b.recordThresholds()
	for b.ended == "" {
		err := b.round(ctx)
		switch {
		case b.released != nil:
			return b.released
		case err != nil:
			return b.finishAlone(ctx, err)
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
	if b.verifier.Limit == 0 {
		b.verifier.Limit = max(b.window-len(b.prompt), 1)
	}
	began := b.World.Now()
	said := receipt.Check{Scorer: plan.ScorerIDs, Tokens: len(block)}
	s, err := verify.NewVerifier(b.Caller).Score(ctx, verify.Question{Prompt: slices.Concat(b.prompt, b.verifier.IDs), IDs: block, Warm: b.scorer})
	said.Backend, said.Took = s.Backend, b.World.Now().Sub(began)
	b.out.Scored += s.Computed
	b.recordTally()
	if err != nil {
		said.Reason = verify.FailureReason(err)
		b.recordCheck(said)
		return errNoVerdict
	}
	b.scorer = s.Backend
	if s.Ends && !slices.Contains(b.verifier.EOS, s.Next) {
		b.verifier.EOS = append(slices.Clone(b.verifier.EOS), s.Next)
	}
	said.Kept = b.verifier.Verify(block, s.Choices, s.Next)
	said.Pass, said.Reason = said.Kept == len(block), accept.ReasonTargetAgrees
	if !said.Pass {
		said.Reason = accept.ReasonTargetDisagrees
	}
	b.recordCheck(said)
	if n := len(b.verifier.IDs); !said.Pass && b.verifier.Finish == "" {
		// What the target would say instead may be an end that no probe has seen.
		if text, err := b.text(ctx, b.verifier.IDs[n-1:]); err != nil || special(text) {
			b.verifier.IDs = b.verifier.IDs[:n-1]
			return fmt.Errorf("%w: the target's own token is no word", errBlock)
		}
	}
	return b.releaseText(ctx)
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
	want, block := max(b.verifier.NextBlock(), 1), &engine.Block{}
	var call engine.Call = &engine.FirstBlock{Terms: b.Terms(b.Draft), Request: b.Body, MaxTokens: want, Into: block}
	if len(b.prompt) > 0 {
		call = &engine.NextBlock{
			Terms: b.Terms(b.Draft), Request: b.Body, PromptIDs: b.prompt, IDs: b.verifier.IDs, MaxTokens: b.verifier.NextBlock(), Into: block,
		}
	}
	o := b.newDraftRequest(call)
	o.Demand.WarmBackend, o.Demand.Whole = b.drafter, true
	if len(b.prompt) > 0 {
		o.Demand.PromptTokens, o.Demand.PromptBytes = len(b.prompt)+len(b.verifier.IDs), 0
	}
	backend, err := b.Do(ctx, o)
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
	if n := len(block.IDs); block.Finish == "stop" && !slices.Contains(b.verifier.EOS, block.IDs[n-1]) {
		return nil, fmt.Errorf("%w: %s ended with an id that nobody knows for an end", errBlock, backend)
	}
	return block.IDs[:min(len(block.IDs), b.verifier.NextBlock())], nil
}

// releaseText sends the text of what stands so far.
func (b *verifyBlocks) releaseText(ctx context.Context) error {
	ids := b.verifier.IDs
	if n := len(ids); b.verifier.Finish == "stop" {
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
	stopped, _ := b.t.Append(text[b.t.Len():], b.verifier.IDs[len(b.t.IDs()):]) // nothing is ever pending here
	if stopped {
		b.ended = "stop"
		b.verifier.IDs = b.trimStop(ctx, before, ids)
		b.verifier.Accepted = min(b.verifier.Accepted, len(b.verifier.IDs))
		return nil
	}
	b.t.Mark(len(b.verifier.IDs), len(text) == size)
	if b.ended = b.verifier.Finish; b.ended != "" {
		return nil
	}
	b.setTier(plan.Mixed)
	b.recordVerdict(accept.Verdict{Accept: true, Reason: accept.ReasonTargetAgrees, Tokens: b.verifier.Drafted, Cohort: accept.CohortWhole})
	b.released = b.client.release(b.t)
	return b.released
}

// finishAlone has the target carry on when a round failed.
func (b *verifyBlocks) finishAlone(ctx context.Context, cause error) error {
	why := failureReason(cause)
	b.recordRounds(why)
	if ctx.Err() != nil {
		return b.endInterrupted(ctx, cause)
	}
	at := b.cutPoint(ctx)
	switch {
	case at.Tokens == 0 && !b.client.begun:
		b.countWasted(b.verifier.Drafted)
		if why == draft.ReasonLost && b.verifier.Rounds == 0 {
			b.out.Verdict = accept.Verdict{}
			b.record.ClearVerdict()
			return b.withoutDraft(ctx, cause)
		}
		return errNoDraft
	case b.client.begun && !b.Config.MidstreamFailover:
		return &BrokenError{cause}
	}
	b.t.Rewind(at)
	b.setTier(plan.Mixed)
	b.recordFailover(why, at.Tokens, at.Text)
	c := &continuation{Answer: b.Answer, t: b.t, pool: b.Target, warmBackend: b.scorer, prompt: len(b.prompt)}
	err := c.carryOn(ctx, at)
	if errors.Is(err, errNoDraft) {
		b.countWasted(b.verifier.Drafted)
	}
	return err
}

// failureReason is why a round failed: the draft was lost, what it wrote cannot be used, or the target could not say.
func failureReason(cause error) string {
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
	ids := b.verifier.IDs
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
	b.recordRounds("")
	b.setTier(plan.Mixed)
	if b.out.Accepted == len(b.verifier.IDs) {
		b.setTier(plan.Draft)
	}
	b.out.Prompt, b.out.Target = len(b.prompt), len(b.verifier.IDs)-b.out.Accepted
	return b.end(b.t, finish{reason: b.ended})
}

// recordRounds tells the record of the rounds; why is what ended them, "" the answer's end.
func (b *verifyBlocks) recordRounds(why string) {
	b.out.Drafted, b.out.Accepted = b.verifier.Drafted, b.verifier.Accepted
	b.out.Wasted = max(b.verifier.Drafted-b.verifier.Accepted, 0)
	b.recordTally()
	b.record.RecordDraft(b.started)
	v := accept.Verdict{Reason: why, Tokens: b.verifier.Drafted}
	if why == "" {
		v.Accept, v.Reason, v.Cohort = true, accept.ReasonTargetAgrees, accept.CohortWhole
	}
	b.recordVerdict(v)
}
