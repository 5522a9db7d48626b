package inflight

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/engine"
)

// TokenizePrompt has an engine of a pool tokenize the request's prompt with its chat template.
func TokenizePrompt(ctx context.Context, c Caller, p Pool) (ids []int32, err error) {
	_, err = c.Do(ctx, c.NewFrontEndRequest(p, &engine.TokenizePrompt{Model: p.Model(), Request: c.Body, Into: &ids}))
	return ids, err
}

// CountPrompt has engines of a pool count the tokens of the request's prompt, with its chat template: others within the
// request's retries, if one fails. The error is as of [dispatch.Dispatcher.Open].
func CountPrompt(ctx context.Context, c Caller, p Pool) (int, error) {
	var ids []int32
	x, err := c.Open(ctx, c.NewFrontEndRequest(p, &engine.TokenizePrompt{Model: p.Model(), Request: c.Body, Into: &ids}))
	if err != nil {
		return 0, err
	}
	x.Close(nil, 0)
	return len(ids), nil
}

// TokenizeText has an engine of a pool tokenize a text.
func TokenizeText(ctx context.Context, c Caller, p Pool, text []byte) (ids []int32, err error) {
	_, err = c.Do(ctx, c.NewFrontEndRequest(p, &engine.TokenizeText{Model: p.Model(), Text: text, Into: &ids}))
	return ids, err
}

// Detokenize has an engine of a pool convert ids to text.
func Detokenize(ctx context.Context, c Caller, p Pool, ids []int32) (text []byte, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	_, err = c.Do(ctx, c.NewFrontEndRequest(p, &engine.Detokenize{Model: p.Model(), IDs: ids, Into: &text}))
	return text, err
}

// maxCountTries bounds how often engines are asked to count the tokens of one text.
const maxCountTries = 4

// Counter counts the tokens of a continued answer. All its calls together take [FrontEndTimeout] at most.
type Counter struct {
	Lost []string // backends that were lost: they are asked only where there is no other

	spent time.Duration
}

// Count has an engine of a pool count the tokens of a text.
func (n *Counter) Count(ctx context.Context, c Caller, p Pool, text []byte) (int, error) {
	var ids []int32
	o := c.NewFrontEndRequest(p, &engine.TokenizeText{Model: p.Model(), Text: text, Into: &ids})
	exclude, err := slices.Clone(n.Lost), engine.ErrFirstByte
	for range maxCountTries {
		if o.FirstByteTimeout = FrontEndTimeout - n.spent; o.FirstByteTimeout <= 0 {
			break
		}
		o.Demand.Exclude = exclude
		began := c.World.Now()
		var backend string
		backend, err = c.Do(ctx, o)
		n.spent += c.World.Now().Sub(began)
		f, failed := errors.AsType[*engine.Failure](err)
		switch {
		case err == nil:
			return len(ids), nil
		case ctx.Err() != nil, failed && !f.Retryable(), !failed && len(exclude) == 0:
			return 0, err
		case failed:
			exclude = append(exclude, backend)
		case len(exclude) > len(n.Lost):
			exclude = exclude[:len(n.Lost)] // nobody else: once more those that failed now
		default:
			exclude = nil // a connection that broke need not be a backend that is dead
		}
	}
	return 0, err
}
