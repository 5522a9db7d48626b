package probe

import (
	"context"
	"maps"

	"github.com/foregate/foregate/tiers/dialect"
)

// untouched are the fields that cut or bend a distribution, as values that leave it as it is.
var untouched = map[string]any{"top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1}

// colours is a question whose likely answers are in the prompt, so that a default penalty for what is there shows.
const colours = "Name one of these colours.\nRed\nBlue\nGreen\nred\nblue\ngreen"

// processedLogprobs finds out whether logprobs are of the law that tokens are drawn by, and where they are, whether fields that a
// request leaves out change that law: an engine may have defaults of its own (generation_config.json).
func (e *probeRun) processedLogprobs(ctx context.Context) error {
	switch e.dialect().Kind {
	case dialect.VLLM, dialect.SGLang:
	default:
		return nil // it does not know the members that are untouched
	}
	if e.found.TopLogprobs < 2 {
		return nil
	}
	var failed error
	ask := func(temperature any, more map[string]any) map[string]float64 {
		q := map[string]any{"logprobs": true, "top_logprobs": e.found.TopLogprobs, "temperature": temperature}
		maps.Copy(q, more)
		a, err := e.ask(ctx, colours, 1, q)
		if fails(err) {
			failed = err
		}
		if err != nil || a.first == nil {
			return nil
		}
		return a.first.tops
	}
	cut := maps.Clone(untouched)
	cut["top_p"] = 0.01 // of all tokens, the likeliest is left
	one := ask(1, untouched)
	e.found.Processed = failed == nil && onlyOne(one, ask(1, cut))
	if !e.found.Processed || failed != nil {
		return failed
	}
	// At temperature 2 more of what top_k and top_p cut off shows.
	e.found.Plain = alike(one, ask(nil, nil)) && alike(ask(2, untouched), ask(2, nil))
	if failed != nil {
		e.found.Plain = false
	}
	return failed
}

// impossibleLogprob is a logprob in nats of a token that cannot come: engines write −9999 or leave it out.
const impossibleLogprob = -100

// onlyOne reports whether all but one of the tokens that could come cannot come when the rest is cut off.
func onlyOne(all, cut map[string]float64) bool {
	could, can := 0, 0
	for token, lp := range all {
		if lp <= impossibleLogprob {
			continue
		}
		could++
		if l, listed := cut[token]; listed && l > impossibleLogprob {
			can++
		}
	}
	return could > 1 && can == 1
}

// alike reports whether two lists are of one law, as exactly as engines are.
func alike(a, b map[string]float64) bool {
	const near = 0.05 // nats
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	both := 0
	for token, x := range a {
		y, listed := b[token]
		switch {
		case !listed:
			continue // at the end of a list equals change places
		case (x > impossibleLogprob) != (y > impossibleLogprob), x > impossibleLogprob && (x-y > near || y-x > near):
			return false
		}
		both++
	}
	return 4*both >= 3*len(a)
}
