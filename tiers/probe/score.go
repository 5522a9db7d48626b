package probe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

// scoredTokens are scored, after twice as many.
const scoredTokens = 8

// scoring finds out how the engine scores: it tries the ways in turn. What is not answered is asked again, but the engine counts
// as one that does not score: drafts are then checked in another way.
func (p *probeRun) scoring(ctx context.Context) error {
	p.found.Scoring = ""
	delete(p.missing, MissingScoring) // of the try before
	var why []string
	list := p.dialect().Scoring
	if p.engine == "" || p.engine == dialect.Auto {
		list = []openai.ScoreStyle{openai.ScoreCompletions, openai.ScoreSGLang}
	}
	for _, style := range list {
		err := p.score(ctx, style)
		if err == nil {
			p.found.Scoring = style
			return nil
		}
		why = append(why, fmt.Sprintf("%s: %s", style, reason(err)))
		if fails(err) {
			p.again = reason(err)
			break // it is this one, and does not work
		}
	}
	p.addMissing(MissingScoring, cmp.Or(strings.Join(why, "; "), string(p.engine)+" has no way to score a given text: drafts are checked by a judge"))
	return context.Cause(ctx)
}

// score asks for scores in one way, where that is not closed because engines have failed at it.
func (p *probeRun) score(ctx context.Context, style openai.ScoreStyle) error {
	ids := p.someIDs(3 * scoredTokens)
	n := len(ids) - scoredTokens
	leave, err := p.mayScore(len(ids))
	if err != nil {
		return err
	}
	var scores openai.Scores
	err = p.ask(ctx, &engine.Score{
		Question: openai.ScoreQuestion{Terms: p.terms(), Style: style, Prompt: ids[:n:n], Draft: ids[n:], Top: 1},
		Into:     &scores,
	})
	leave(err)
	return err
}

// someIDs returns so many ids: such as this tokenizer makes, or where it tells none, some that
// every vocabulary has.
func (p *probeRun) someIDs(n int) []int32 {
	base := p.ids
	if len(base) == 0 {
		for i := range int32(97) {
			base = append(base, 300+i*31%97)
		}
	}
	return slices.Repeat(base, n/len(base)+1)[:n]
}
