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
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/verify"
)

// verifySampled drafts a whole answer above temperature 0, has the target score it once, and applies rejection sampling,
// so that the answer has exactly the target's distribution (docs/science.md, "Speculative sampling"). Nothing is sent
// before that.
//
// Whether a position is tested may depend on the prompt and on the tokens before it, never on the token at the position;
// otherwise the distribution would change. For the same reason an answer is approximate if a fault comes after the first
// test, although the target then writes all of it.
type verifySampled struct {
	*Answer
	rejection accept.RejectionSampler
	draft     engine.ListedDraft
	scorer    string // target backend whose KV cache holds the draft; "": none
	started   time.Time
}

func (s *verifySampled) run(ctx context.Context) error {
	limit, window := s.Body.Limit(), s.ContextWindow(s.Target.Name())
	if limit == 0 && window == 0 || s.Target.Capabilities == nil {
		s.recordBypass("target_unprobed") // without a context window nothing bounds a continuation
		return errNoDraft
	}
	s.recordThresholds()
	s.started, s.rejection = s.World.Now(), accept.RejectionSampler{Limit: limit, EOS: slices.Clone(s.Target.Capabilities.EOS)}
	if err := s.write(ctx, window); err != nil {
		if errors.Is(err, engine.ErrListed) && ctx.Err() == nil {
			s.record.RecordApproximation() // the refusal may depend on the draft's content
			s.recordVerdict(accept.Verdict{Reason: accept.ReasonNoVerdict})
			return errNoDraft
		}
		return s.withoutDraft(ctx, err)
	}
	verdict, places, err := s.score(ctx)
	if err != nil {
		verdict.Reason = verify.FailureReason(err)
		return s.failToTarget(ctx, verdict, err) // the failure may depend on the draft's content
	}
	s.rejection.TestDraft(s.draft.IDs, places, func() float64 { return s.RandomFor(inflight.DrawSample) })
	s.recordScores(verdict, len(places))
	text, err := s.drawRest(ctx)
	if err != nil {
		return s.failToTarget(ctx, nil, err)
	}
	return s.finishAnswer(ctx, text)
}

// write asks the draft pool for the draft.
func (s *verifySampled) write(ctx context.Context, window int) error {
	maxTokens := min(plan.MaxSampled, s.Config.Scoring.MaxTokens)
	if limit := s.Body.Limit(); limit > 0 {
		maxTokens = min(maxTokens, limit)
	}
	d := &s.draft
	o := s.newDraftRequest(&engine.DraftListed{
		Terms: s.Terms(s.Draft), Request: s.Body, Law: plan.DraftSampling(s.Body), MaxTokens: maxTokens, Into: d,
	})
	o.Demand.Whole, o.Demand.MaxOutput = true, maxTokens
	o.FirstByteTimeout = s.Config.Timeouts.WholeAnswer(o.FirstByteTimeout, s.Body)
	backend, err := s.Do(ctx, o)
	switch {
	case err != nil:
		return err
	case d.Err != nil:
		return d.Err
	case d.Choices != 1 || !d.Plain || d.Fault != nil || d.Finish == "abort" || len(d.PromptIDs) == 0:
		return fmt.Errorf("%w: no ids of plain text from %s", engine.ErrListed, backend)
	}
	s.out.Drafted = len(d.IDs)
	s.recordTally()
	if n := len(d.IDs); n > 0 && d.Finish == "stop" && (d.Stop == nil || d.Stop[0] != '"') && !slices.Contains(s.rejection.EOS, d.IDs[n-1]) {
		s.rejection.EOS = append(s.rejection.EOS, d.IDs[n-1]) // an end-of-sequence id that no probe has seen
	}
	left := s.Config.Scoring.MaxTokens - len(d.PromptIDs)
	if window > 0 {
		left = min(left, window-len(d.PromptIDs))
	}
	if d.IDs = d.IDs[:min(len(d.IDs), max(left-1, 0))]; len(d.IDs) == 0 {
		return errBlock // the prompt fills the context window
	}
	return nil
}

// score has the target score the draft once and returns the positions to test. said is the check for the record.
func (s *verifySampled) score(ctx context.Context) (verdict *receipt.Check, places []accept.Position, err error) {
	began := s.World.Now()
	scores, err := verify.NewVerifier(s.Caller).ScoreListed(ctx, verify.Question{Prompt: s.draft.PromptIDs, IDs: s.draft.IDs})
	verdict = &receipt.Check{Scorer: plan.ScorerIDs, Backend: scores.Backend, Tokens: len(s.draft.IDs), Took: s.World.Now().Sub(began)}
	if err != nil {
		return verdict, nil, err
	}
	s.out.Scored += scores.Computed
	s.scorer = scores.Backend
	return verdict, verify.NewPositions(s.draft.Places, plan.DraftSampling(s.Body), scores.Places, plan.SamplingOf(s.Body)), nil
}

// recordScores records the target's scores of the draft. tested is the number of tested positions.
func (s *verifySampled) recordScores(verdict *receipt.Check, tested int) {
	verdict.Kept, verdict.Pass, verdict.Reason = s.rejection.Accepted, !s.rejection.Refused, accept.ReasonTargetAgrees
	if s.rejection.Refused {
		verdict.Reason = accept.ReasonTargetDisagrees
	}
	s.recordCheck(*verdict)
	s.recordVerdict(accept.Verdict{Accept: verdict.Pass, Reason: verdict.Reason, Tokens: tested, Cohort: accept.CohortWhole})
	s.out.Accepted, s.out.Wasted = s.rejection.Accepted, max(s.out.Drafted-s.rejection.Accepted, 0)
	s.recordTally()
	s.setTier(plan.Mixed)
}

// drawRest draws tokens from the target where the draft was rejected, until a draw is accepted and the text ends at a
// character's end. It returns the text.
func (s *verifySampled) drawRest(ctx context.Context) ([]byte, error) {
	began := s.World.Now()
	defer func() {
		s.record.RecordVerification(s.World.Now().Sub(began))
		s.record.RecordDraft(s.started)
	}()
	for s.rejection.NeedsDraw() {
		draws, err := s.draws(ctx, plan.SampledDraws)
		if err != nil {
			return nil, err
		}
		for _, d := range draws {
			if !s.rejection.NeedsDraw() {
				break
			}
			s.addEnd(d)
			s.rejection.Draw(d.ID, d.Logprob, s.RandomFor(inflight.DrawSample))
		}
	}
	if s.rejection.Approximate {
		s.record.RecordApproximation()
	}
	for range utf8.UTFMax {
		text, err := s.text(ctx)
		if err != nil {
			return nil, err
		}
		if s.rejection.Finish != "" || !bytes.HasSuffix(text, replacement) {
			return bytes.TrimRight(text, string(replacement)), nil // engines do not show incomplete characters
		}
		draws, err := s.draws(ctx, 1)
		if err != nil {
			return nil, err
		}
		s.addEnd(draws[0])
		s.rejection.Append(draws[0].ID)
	}
	return s.text(ctx) // the target seems to write U+FFFD itself
}

// replacement is the character for invalid bytes (U+FFFD).
var replacement = []byte("\uFFFD")

// addEnd adds an id that ended a draw to the end-of-sequence ids.
func (s *verifySampled) addEnd(d engine.Draw) {
	if d.Ends && !slices.Contains(s.rejection.EOS, d.ID) {
		s.rejection.EOS = append(s.rejection.EOS, d.ID)
	}
}

// text returns the text of the answer so far.
func (s *verifySampled) text(ctx context.Context) ([]byte, error) {
	return verify.Detokenize(ctx, s.Caller, s.Target, s.withoutEnd())
}

// withoutEnd returns the answer's ids without the end-of-sequence id, which has no text.
func (s *verifySampled) withoutEnd() []int32 {
	ids := s.rejection.IDs
	if s.rejection.Finish == "stop" {
		ids = ids[:len(ids)-1]
	}
	return ids
}

// draws asks the target for n draws of the next token.
func (s *verifySampled) draws(ctx context.Context, n int) ([]engine.Draw, error) {
	out, warm, err := verify.NewVerifier(s.Caller).Draws(ctx, verify.Question{Prompt: s.draft.PromptIDs, IDs: s.rejection.IDs, Warm: s.scorer}, n)
	s.scorer = warm
	return out, err
}

// finishAnswer sends the text so far and lets the target write the rest.
func (s *verifySampled) finishAnswer(ctx context.Context, text []byte) error {
	t := s.newTranscript()
	t.AppendPrompt(s.draft.PromptIDs)
	reason := s.rejection.Finish
	if stopped, _ := t.Append(text, s.rejection.IDs); stopped { // a new transcript expects no repeated text
		reason = "stop"
		s.rejection.IDs = s.trimStop(ctx, 0, s.withoutEnd())
	}
	n := len(s.rejection.IDs)
	if reason != "" {
		if s.out.Accepted = min(s.out.Accepted, n); s.out.Accepted == n {
			s.setTier(plan.Draft)
		}
		s.out.Prompt, s.out.Target = len(s.draft.PromptIDs), n-s.out.Accepted
		return s.end(t, finish{reason: reason})
	}
	at := t.Mark(n, true)
	if err := s.client.release(t); err != nil {
		return err
	}
	c := &continuation{Answer: s.Answer, t: t, pool: s.Target, warmBackend: s.scorer}
	err := c.carryOn(ctx, at)
	if err == nil || s.client.headSent {
		return err
	}
	return s.leaveToTarget(ctx, s.out.Verdict.Reason, err)
}

// failToTarget lets the target write the whole answer after a fault. The answer is then not exact. said is a check that
// is not recorded yet, or nil.
func (s *verifySampled) failToTarget(ctx context.Context, verdict *receipt.Check, cause error) error {
	if verdict != nil {
		s.recordCheck(*verdict)
	}
	return s.leaveToTarget(ctx, accept.ReasonNoVerdict, cause)
}

// leaveToTarget lets the target write the whole answer, which is then approximate. The client has nothing yet.
func (s *verifySampled) leaveToTarget(ctx context.Context, why string, cause error) error {
	s.record.RecordApproximation()
	if ctx.Err() != nil {
		return s.endInterrupted(ctx, cause)
	}
	s.recordVerdict(accept.Verdict{Reason: why, Tokens: len(s.draft.IDs)})
	s.countWasted(s.out.Drafted)
	s.setTier("")
	return errNoDraft
}
