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

// verifyBlocks answers in blocks: the draft pool writes a block, and the target checks it and adds one token of its own
// (block verification, greedy speculative decoding). The client only gets text that the target would have written
// itself, so after any fault the target continues alone.
type verifyBlocks struct {
	*Answer
	window   int // the target's context length in tokens; 0: unknown
	verifier accept.BlockVerifier
	t        *transcript.Transcript
	prompt   []int32
	drafter  string // draft backend whose KV cache holds the answer so far
	scorer   string // the same of the target pool
	started  time.Time
	ended    string // finish_reason once the answer is complete
	released error  // of the client's side
}

var (
	errDraft     = errors.New("no block came")            // the draft pool gave none
	errBlock     = errors.New("a block cannot be used")   // its text or ids are unusable
	errNoVerdict = errors.New("the target could not say") // the target did not check the block
)

// blocks returns the strategy for a greedy answer. It returns nil if neither max_tokens nor a known context window
// bounds the blocks.
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

// round drafts one block, has it checked, and sends the accepted tokens. After an error that is not the client's, the
// answer is as it was before the round.
func (b *verifyBlocks) round(ctx context.Context) error {
	block, err := b.draft(ctx)
	if err != nil {
		return err
	}
	if b.verifier.Limit == 0 {
		b.verifier.Limit = max(b.window-len(b.prompt), 1)
	}
	began := b.World.Now()
	verdict := receipt.Check{Scorer: plan.ScorerIDs, Tokens: len(block)}
	s, err := verify.NewVerifier(b.Caller).Score(ctx, verify.Question{Prompt: slices.Concat(b.prompt, b.verifier.IDs), IDs: block, Warm: b.scorer})
	verdict.Backend, verdict.Took = s.Backend, b.World.Now().Sub(began)
	b.out.Scored += s.Computed
	b.recordTally()
	if err != nil {
		verdict.Reason = verify.FailureReason(err)
		b.recordCheck(verdict)
		return errNoVerdict
	}
	b.scorer = s.Backend
	if s.Ends && !slices.Contains(b.verifier.EOS, s.Next) {
		b.verifier.EOS = append(slices.Clone(b.verifier.EOS), s.Next)
	}
	verdict.Kept = b.verifier.Verify(block, s.Choices, s.Next)
	verdict.Pass, verdict.Reason = verdict.Kept == len(block), accept.ReasonTargetAgrees
	if !verdict.Pass {
		verdict.Reason = accept.ReasonTargetDisagrees
	}
	b.recordCheck(verdict)
	if n := len(b.verifier.IDs); !verdict.Pass && b.verifier.Finish == "" {
		// The target's own token may be an end-of-sequence id that no probe has seen.
		if text, err := b.text(ctx, b.verifier.IDs[n-1:]); err != nil || special(text) {
			b.verifier.IDs = b.verifier.IDs[:n-1]
			return fmt.Errorf("%w: the target's own token is no word", errBlock)
		}
	}
	return b.releaseText(ctx)
}

// text returns the target's text of ids.
func (b *verifyBlocks) text(ctx context.Context, ids []int32) ([]byte, error) {
	return verify.Detokenize(ctx, b.Caller, b.Target, ids)
}

// special reports whether a token has no visible text: it is empty, or a special token such as <|eot_id|>.
func special(text []byte) bool {
	n := len(text)
	return n == 0 || n > 2 && text[0] == '<' && text[n-1] == '>' && !bytes.ContainsAny(text, " \n")
}

// draft asks the draft pool for the next block.
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

// releaseText sends the text of the accepted tokens.
func (b *verifyBlocks) releaseText(ctx context.Context) error {
	ids := b.verifier.IDs
	if n := len(ids); b.verifier.Finish == "stop" {
		ids = ids[:n-1] // the end-of-sequence id has no text
	}
	text, err := b.text(ctx, ids)
	if err != nil {
		return err
	}
	size := len(text)
	text = bytes.TrimRight(text, "\uFFFD") // an incomplete character: engines do not show it either
	if !bytes.HasPrefix(text, b.t.Text()) {
		return fmt.Errorf("%w: the text of its ids does not begin as before", errBlock)
	}
	before, _ := b.t.Tokens()
	stopped, _ := b.t.Append(text[b.t.Len():], b.verifier.IDs[len(b.t.IDs()):]) // this transcript expects no repeated text
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

// finishAlone lets the target continue after a failed round.
func (b *verifyBlocks) finishAlone(ctx context.Context, cause error) error {
	why := failureReason(cause)
	b.recordRounds(why)
	if ctx.Err() != nil {
		return b.endInterrupted(ctx, cause)
	}
	at := b.cutPoint(ctx)
	switch {
	case at.Tokens == 0 && !b.client.headSent:
		b.countWasted(b.verifier.Drafted)
		if why == draft.ReasonLost && b.verifier.Rounds == 0 {
			b.out.Verdict = accept.Verdict{}
			b.record.ClearVerdict()
			return b.withoutDraft(ctx, cause)
		}
		return errNoDraft
	case b.client.headSent && !b.Config.MidstreamFailover:
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

// failureReason returns why a round failed: the draft was lost, its block is unusable, or the target gave no verdict.
func failureReason(cause error) string {
	switch {
	case errors.Is(cause, errDraft):
		return draft.ReasonLost
	case errors.Is(cause, errBlock):
		return ReasonBlock
	}
	return accept.ReasonNoVerdict
}

// cutPoint returns the last position from which the target can continue by ids, else the end of the text. It is never
// within a character.
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

// finish ends the answer.
func (b *verifyBlocks) finish() error {
	b.recordRounds("")
	b.setTier(plan.Mixed)
	if b.out.Accepted == len(b.verifier.IDs) {
		b.setTier(plan.Draft)
	}
	b.out.Prompt, b.out.Target = len(b.prompt), len(b.verifier.IDs)-b.out.Accepted
	return b.end(b.t, finish{reason: b.ended})
}

// recordRounds records the rounds. why is what ended them; "" is the end of the answer.
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
