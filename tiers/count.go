package tiers

import (
	"context"
	"errors"
	"slices"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// came is how many tokens a chunk adds to an answer of which so many came before: those that it
// names, or by which the engine's own count has grown. Where an engine tells neither, a chunk with
// text counts as one token, which is never too many, and told is false.
func came(c *openai.Chunk, before int) (n int, told bool) {
	if n = max(len(c.IDs), len(c.Logprobs)); n > 0 {
		return n, true
	}
	if grown := c.Usage.Completion - before; c.HasUsage && c.Choices > 0 && grown > 0 {
		return min(grown, len(c.Text)+1), true // a token has a byte at least, but for the one that ends the answer
	}
	if len(c.Text) > 0 {
		return 1, false
	}
	return 0, true
}

// countTries bounds how often engines are asked to count the tokens of one text.
const countTries = 4

// counted has an engine of a pool count the tokens of what there is of the answer: none of those
// that were lost, unless there is no other. All counts of one takeover together take [asideWait] at most.
func (d *draft) counted(ctx context.Context, p *pool.Pool) (int, error) {
	k := d.job.aside(p, openai.TokenizePath, openai.TokenizeText(p.Model(), d.reply.text))
	lost, exclude := d.left, slices.Clone(d.left)
	err := engine.ErrFirstByte
	for range countTries {
		if k.firstByte = asideWait - d.counting; k.firstByte <= 0 {
			break
		}
		k.demand.Exclude = exclude
		began := d.job.cascade.now()
		var ids []int32
		var backend string
		ids, backend, err = d.job.tokenized(ctx, k)
		d.counting += d.job.cascade.now().Sub(began)
		f, failed := errors.AsType[*engine.Failure](err)
		switch {
		case err == nil:
			return len(ids), nil
		case ctx.Err() != nil, failed && !f.Retryable(), !failed && len(exclude) == 0:
			return 0, err
		case failed:
			exclude = append(exclude, backend)
		case len(exclude) > len(lost):
			exclude = exclude[:len(lost)] // nobody else: once more those that failed now
		default:
			exclude = nil // a connection that broke need not be a backend that is dead
		}
	}
	return 0, err
}

// tokenized has an engine turn text into ids: k is aside's, with one of openai's Tokenize. It also
// names the backend that was asked.
func (j *job) tokenized(ctx context.Context, k call) (ids []int32, backend string, err error) {
	k.read = func(body []byte) (err error) {
		ids, err = openai.ParseTokens(body)
		return err
	}
	backend, err = j.cascade.question(ctx, k, j.receipt)
	return ids, backend, err
}
