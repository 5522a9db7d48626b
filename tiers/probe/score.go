package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// scoredTokens are scored, after twice as many.
const scoredTokens = 8

// scoring finds out how the engine scores. What is not answered is asked again, but the engine counts as one that does not
// score: drafts are then checked in another way.
func (e *probeRun) scoring(ctx context.Context) error {
	e.found.Scoring = ""
	if e.closed != "" {
		e.again = e.closed
		e.addMissing(MissingScoring, e.closed)
	} else if err := e.styles(ctx); err != nil {
		e.addMissing(MissingScoring, err.Error())
	}
	return context.Cause(ctx)
}

// styles tries the ways of scoring in turn.
func (e *probeRun) styles(ctx context.Context) error {
	var why []string
	list := e.dialect().Scoring
	if e.engine == "" || e.engine == dialect.Auto {
		list = []openai.ScoreStyle{openai.ScoreCompletions, openai.ScoreSGLang}
	}
	if len(list) == 0 {
		return errors.New(string(e.engine) + " has no way to score a given text: drafts are checked by a judge")
	}
	for _, style := range list {
		err := e.score(ctx, style)
		if err == nil {
			e.found.Scoring = style
			return nil
		}
		if why = append(why, fmt.Sprintf("%s: %s", style, reason(err))); e.deadly {
			why = append(why, "the engine did not live through it")
		}
		if fails(err) {
			break // it is this one, and does not work
		}
	}
	return errors.New(strings.Join(why, "; "))
}

// score asks for scores in one way. When that fails, it asks whether the engine has lived through it.
func (e *probeRun) score(ctx context.Context, style openai.ScoreStyle) error {
	ids := e.someIDs(3 * scoredTokens)
	n := len(ids) - scoredTokens
	var scores openai.Scores
	err := e.ask(ctx, &engine.Score{
		Question: openai.ScoreQuestion{Terms: e.terms(), Style: style, Prompt: ids[:n:n], Draft: ids[n:], Top: 1},
		Into:     &scores,
	})
	if fails(err) {
		e.again = reason(err)
		_, ill := e.get(ctx, "/health")
		e.deadly = ctx.Err() == nil && fails(ill)
	}
	return err
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
	return slices.Repeat(base, n/len(base)+1)[:n]
}
