package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/openai"
)

// firstScored and scoredTokens are the size of the texts by which the ways of scoring are
// tried.
const (
	firstScored  = 24
	scoredTokens = 8
)

// scoring finds out how the engine scores and what a second
// time costs. It never fails: what scoring ends in is what is said of it.
func (e *probeRun) scoring(ctx context.Context) {
	err := errors.New(e.closed)
	if e.closed == "" {
		err = e.styles(ctx)
	}
	if err == nil {
		err = e.reuse(ctx)
	}
	if err == nil {
		return
	}
	// One that fails at its longest does not score.
	e.withdrawScoring(err.Error())
}

// withdrawScoring says that the engine does not score, whatever was found out about its scores.
func (e *probeRun) withdrawScoring(why string) {
	e.found.Scoring, e.found.Reuse = "", false
	e.missing[MissingScoring] = why
	e.missing[MissingReuse] = "not known: it does not score a given text"
}

// styles tries the ways of scoring in turn.
func (e *probeRun) styles(ctx context.Context) error {
	var why []string
	list := e.dialect().Scoring
	if e.engine == "" || e.engine == dialect.Auto {
		list = []openai.ScoreStyle{openai.ScoreCompletions, openai.ScoreGenerate, openai.ScoreSGLang}
	}
	if len(list) == 0 {
		return errors.New(string(e.engine) + " has no way to score a given text: drafts are checked by a judge")
	}
	for _, style := range list {
		_, err := e.score(ctx, e.question(style, e.someIDs(firstScored), scoredTokens))
		switch {
		case err == nil:
			e.found.Scoring = style
			return nil
		case fails(err):
			return fmt.Errorf("%s: %w", style, err) // it is this one, and does not work
		}
		why = append(why, fmt.Sprintf("%s: %v", style, err))
	}
	return errors.New(strings.Join(why, "; "))
}

// score asks one. When it fails, it asks whether the engine has lived through it.
func (e *probeRun) score(ctx context.Context, q *openai.ScoreQuestion) (openai.Scores, error) {
	body, err := e.send(ctx, http.MethodPost, q.Path(), q.Body(nil))
	if fails(err) {
		e.weak = "scoring: " + err.Error()
		_, ill := e.send(ctx, http.MethodGet, "/health", nil)
		e.deadly = ctx.Err() == nil && ill != nil && !absent(ill)
		if e.deadly {
			err = fmt.Errorf("%w; the engine did not live through it: %w", err, ill)
		}
	}
	if err != nil {
		return openai.Scores{}, err
	}
	e.spent.Prompt += len(q.Prompt) + len(q.Draft)
	e.spent.Generated++
	scores, err := q.Parse(body)
	if err == nil && len(scores.Tokens) != len(q.Draft) {
		err = openai.ErrShort
	}
	if err != nil {
		return openai.Scores{}, &unreadable{err.Error()}
	}
	return scores, nil
}

// someIDs returns so many ids: such as this tokenizer makes, or where it tells none, some that
// every vocabulary has.
func (e *probeRun) someIDs(n int) []int32 {
	base := e.ids
	if len(base) == 0 {
		for i := range int32(97) {
			base = append(base, 300+i*31%97)
		}
	}
	out := make([]int32, 0, n+len(base))
	for len(out) < n {
		out = append(out, base...)
	}
	return out[:n]
}

// reuse scores the same text twice.
func (e *probeRun) reuse(ctx context.Context) error {
	n := reuseTokens
	if e.found.Window > firstScored {
		n = min(n, e.found.Window-1) // there must be room for a token more
	}
	q := e.question(e.found.Scoring, e.someIDs(n), scoredTokens)
	cached := 0
	for range 2 {
		scores, err := e.score(ctx, q)
		if err != nil {
			return fmt.Errorf("a text of %d tokens: %w", n, err)
		}
		cached = scores.Cached
	}
	e.found.Reuse = cached > 0
	if !e.found.Reuse {
		e.addMissing(MissingReuse, fmt.Sprintf("of %d tokens that it had just scored, it found none in its cache, or does not tell", n))
	}
	return nil
}
