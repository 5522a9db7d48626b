package tiers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/receipt"
)

// thinning is an answer above temperature 0 that is drafted as a whole, scored once, and thinned to the
// target's own law (acceptance.md §3.3.3). Nothing is sent before that is done.
//
// Whether and where a draft is tested hangs on the prompt and on what stands before the place, never on the token
// there: else the answers that are tested would be other ones than those that are not, and the law another. That is why
// a fault after the first test makes an answer approximate, though the target then writes all of it.
type thinning struct {
	*draft
	thin   accept.Thin
	answer openai.DraftAnswer
	listed [][]accept.Token // by the draft, at each of its places
	said   []byte           // text of the answer so far
}

// thinned drafts and verifies an answer above temperature 0.
func (j *job) thinned(ctx context.Context) error {
	limit, window := j.ask.Request.Limit(), j.cascade.windows.of(j.route.Target)
	card := j.cascade.cards(j.route.Target.Name())
	if limit == 0 && window == 0 || card == nil {
		j.receipt.Plan.Reason = "target_unprobed" // nothing bounds a continuation, or the engines are others now
		return errNoDraft
	}
	t := &thinning{draft: j.newDraft()}
	t.thin = accept.Thin{Limit: limit, EOS: slices.Clone(card.EOS)}
	if err := t.write(ctx, window); err != nil {
		if errors.Is(err, errListed) && ctx.Err() == nil {
			j.receipt.Approximate = true // it may be for what it says
			j.ruled(accept.Verdict{Reason: accept.ReasonNoVerdict})
			return errNoDraft
		}
		return j.undrafted(ctx, err)
	}
	places, err := t.score(ctx)
	if err != nil {
		j.receipt.Approximate = true // whether it fails may depend on what the draft says
		return t.fall(ctx, accept.ReasonNoVerdict, err)
	}
	t.thin.Take(t.ids, places, j.cascade.dice)
	t.tell(len(places))
	if err := t.settle(ctx); err != nil {
		j.receipt.Approximate = true
		return t.fall(ctx, accept.ReasonNoVerdict, err)
	}
	return t.give(ctx)
}

// write has the draft pool write the draft.
func (t *thinning) write(ctx context.Context, window int) error {
	j, r := t.job, t.job.ask.Request
	most := min(plan.ThinMost, j.cfg.Scoring.MostTokens)
	if limit := r.Limit(); limit > 0 {
		most = min(most, limit)
	}
	var bad error
	k := j.call(j.route.Draft, r.Kind.Path(), j.thinBody(most))
	k.read = func(body []byte) (err error) {
		if t.answer, err = openai.ParseDraftAnswer(body); err == nil {
			t.listed, bad = parseListed(body, len(t.answer.IDs))
		}
		return err
	}
	k.made = func() *openai.Usage { return &t.answer.Usage }
	k.turn.Now, k.demand.Whole, k.demand.MostOutput = true, true, most
	k.firstByte = j.cfg.Timeouts.Whole(j.firstByte(j.cfg.Timeouts.DraftFirstByte), r)
	backend, err := j.cascade.question(ctx, k, j.receipt)
	a := &t.answer
	switch {
	case err != nil:
		return err
	case bad != nil:
		return bad
	case a.Choices != 1 || !a.Plain || a.Fault != nil || a.Finish == "abort" || len(a.PromptIDs) == 0:
		return fmt.Errorf("%w: no ids of plain text from %s", errListed, backend)
	}
	t.promptIDs, t.ids = a.PromptIDs, a.IDs
	j.receipt.DraftedTokens = len(t.ids)
	if n := len(t.ids); n > 0 && a.Finish == "stop" && (a.Stop == nil || a.Stop[0] != '"') && !slices.Contains(t.thin.EOS, t.ids[n-1]) {
		t.thin.EOS = append(t.thin.EOS, t.ids[n-1]) // an end that no probe has seen
	}
	room := j.cfg.Scoring.MostTokens - len(t.promptIDs)
	if window > 0 {
		room = min(room, window-len(t.promptIDs))
	}
	if t.ids = t.ids[:min(len(t.ids), max(room-1, 0))]; len(t.ids) == 0 {
		return errBlock // the prompt leaves no room for any
	}
	return nil
}

// score has the target score the draft once, and puts together what is known of each place.
func (t *thinning) score(ctx context.Context) ([]accept.Place, error) {
	j, target := t.job, t.job.route.Target
	began := j.cascade.now()
	said := receipt.Checked{Scorer: plan.ScorerIDs, Tokens: len(t.ids), At: began.Sub(j.receipt.Began)}
	q := openai.ScoreQuestion{
		Model: target.Model(), Prompt: t.promptIDs, Draft: t.ids, Top: plan.ThinTop, Salt: j.ask.Salt, Priority: j.enginePriority(target),
	}
	if card := j.cascade.cards(target.Name()); card != nil {
		q.Style = card.Scoring
	}
	k := j.scoreCall(q.Path(), q.Body(nil), len(t.promptIDs)+len(t.ids))
	k.demand.IDs = func() []int32 { return slices.Concat(t.promptIDs, t.ids) }
	var listed [][]accept.Token
	k.read = func(body []byte) error {
		if _, err := q.Parse(body); err != nil {
			return err
		}
		var err error
		listed, err = parseScored(body, t.ids)
		return err
	}
	backend, err := j.cascade.question(ctx, k, j.receipt)
	said.Backend, said.Took = backend, j.cascade.now().Sub(began)
	j.receipt.Verify += said.Took
	j.receipt.Checks = append(j.receipt.Checks, said) // the first of them; tell and fall say what came of it
	if err != nil {
		return nil, err
	}
	j.receipt.ScoredTokens += k.tokens
	t.warm = backend
	wanted, drafting := plan.SamplingOf(j.ask.Request), plan.ThinDrafting(j.ask.Request)
	places := make([]accept.Place, len(t.ids))
	for i := range places {
		places[i] = accept.PlaceOf(accept.Drafted(t.listed[i], drafting), accept.AtLeast(listed[i], wanted))
	}
	return places, nil
}

// tell books what the target's scores say of the draft.
func (t *thinning) tell(tested int) {
	rc := t.job.receipt
	said := &rc.Checks[len(rc.Checks)-1]
	said.Kept, said.Pass, said.Reason = t.thin.Accepted, !t.thin.Refused, accept.ReasonStandsBy
	if t.thin.Refused {
		said.Reason = accept.ReasonDisagrees
	}
	t.job.cascade.metrics.check(t.job.route.Model, *said)
	t.job.ruled(accept.Verdict{Accept: said.Pass, Reason: said.Reason, Tokens: tested, Lot: accept.LotWhole})
	rc.AcceptedTokens, rc.WastedTokens = t.thin.Accepted, max(rc.DraftedTokens-t.thin.Accepted, 0)
	rc.Tier = plan.Mixed
}

// settle draws from the target where the draft was refused, until a draw stands and the text ends where a
// character does: nobody goes on well from within one.
func (t *thinning) settle(ctx context.Context) error {
	began := t.job.cascade.now()
	defer func() {
		t.job.receipt.Verify += t.job.cascade.now().Sub(began)
		t.job.receipt.Draft = t.job.cascade.now().Sub(t.started) - t.job.receipt.Verify
	}()
	for t.thin.Wants() {
		draws, err := t.draws(ctx, plan.ThinDraws)
		if err != nil {
			return err
		}
		for _, d := range draws {
			if !t.thin.Wants() {
				break
			}
			t.ending(d)
			t.thin.Draw(d.ID, d.Logprob, t.job.cascade.dice())
		}
	}
	t.job.receipt.Approximate = t.job.receipt.Approximate || t.thin.Approximate
	for range utf8.UTFMax {
		text, err := t.text(ctx)
		if err != nil {
			return err
		}
		if t.thin.Finish != "" || !bytes.HasSuffix(text, replacement) {
			t.said = bytes.TrimRight(text, string(replacement)) // engines do not show what is no character yet
			return nil
		}
		draws, err := t.draws(ctx, 1)
		if err != nil {
			return err
		}
		t.ending(draws[0])
		t.thin.Append(draws[0].ID)
	}
	var err error
	t.said, err = t.text(ctx) // the target says U+FFFD, it seems
	return err
}

// replacement is what stands for bytes that are no character.
var replacement = []byte("\uFFFD")

// ending notes an id that ends an answer, as a draw tells.
func (t *thinning) ending(d thinDraw) {
	if d.ends && !slices.Contains(t.thin.EOS, d.ID) {
		t.thin.EOS = append(t.thin.EOS, d.ID)
	}
}

// text is that of the answer so far.
func (t *thinning) text(ctx context.Context) ([]byte, error) {
	return t.job.detokenized(ctx, t.job.route.Target, t.worded())
}

// worded are the answer's ids without the one that ends it, which has no text.
func (t *thinning) worded() []int32 {
	ids := t.thin.IDs
	if t.thin.Finish == "stop" {
		ids = ids[:len(ids)-1]
	}
	return ids
}

// draws has the target draw the next token so many times, as the request samples and without a seed: first where the
// prompt is warm, and once more elsewhere.
func (t *thinning) draws(ctx context.Context, n int) (out []thinDraw, err error) {
	j, target := t.job, t.job.route.Target
	body := j.idsBody(target, t.promptIDs, t.thin.IDs, 1)
	body = fmt.Appendf(body, `,"n":%d,"logprobs":1,"return_token_ids":true,"return_tokens_as_token_ids":true}`, n)
	var left []string
	for range 2 {
		k := j.call(target, openai.Completion.Path(), body)
		k.demand = pool.Demand{
			IDs:          func() []int32 { return slices.Concat(t.promptIDs, t.thin.IDs) },
			PromptTokens: len(t.promptIDs) + len(t.thin.IDs), OutputTokens: 1, MostOutput: 1, Answers: n, Whole: true,
			Warm: t.warm, Exclude: left, Salt: j.ask.Salt,
		}
		k.read = func(body []byte) (err error) {
			out, err = parseDraws(body)
			return err
		}
		k.made = func() *openai.Usage { return &openai.Usage{Prompt: k.demand.PromptTokens, Completion: len(out)} }
		k.firstByte = j.firstByte(j.cfg.Timeouts.TargetFirstByte)
		backend, failed := j.cascade.question(ctx, k, j.receipt)
		if err = failed; err == nil || backend == "" || ctx.Err() != nil {
			break
		}
		left, t.warm = append(left, backend), ""
	}
	return out, err
}

// give sends what stands, and has the target write the rest.
func (t *thinning) give(ctx context.Context) error {
	rc := t.job.receipt
	t.finish = t.thin.Finish
	if t.reply.add(t.said) {
		t.finish = "stop"
		t.shorten(ctx)
	}
	n := len(t.thin.IDs)
	if t.finish != "" {
		if rc.AcceptedTokens = min(rc.AcceptedTokens, n); rc.AcceptedTokens == n {
			rc.Tier = plan.Draft
		}
		return t.finishAt(t.finish, openai.Usage{Prompt: len(t.promptIDs), Completion: n})
	}
	at := accept.Step{Tokens: n, Text: len(t.reply.text), IDs: n, Clean: true}
	t.ids = slices.Clone(t.thin.IDs)
	t.course.Mark(at)
	if err := t.reply.release(); err != nil {
		return err
	}
	err := t.continueOn(ctx, at)
	if err == nil || t.reply.began {
		return err
	}
	rc.Approximate = true
	return t.fall(ctx, rc.Verdict.Reason, err)
}

// shorten forgets the tokens behind the one with which a stop string ended the answer.
func (t *thinning) shorten(ctx context.Context) {
	b := &rally{draft: t.draft}
	b.exact.IDs = t.thin.IDs
	b.shorten(ctx, 0, t.worded())
	t.thin.IDs = b.exact.IDs
}

// fall leaves the whole answer to the target, of which the client has nothing yet.
func (t *thinning) fall(ctx context.Context, why string, cause error) error {
	rc := t.job.receipt
	if ctx.Err() != nil {
		return t.interrupted(ctx, cause)
	}
	if said := &rc.Checks[len(rc.Checks)-1]; said.Reason == "" {
		said.Reason = whyUnheard(cause)
		t.job.cascade.metrics.check(t.job.route.Model, *said)
	}
	t.job.ruled(accept.Verdict{Reason: why, Tokens: len(t.ids)})
	rc.AcceptedTokens, rc.TargetTokens, rc.WastedTokens, rc.Tier = 0, 0, rc.DraftedTokens, ""
	return errNoDraft
}
