package vllmsim

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// This file is SGLang's own POST /generate, as far as a gateway asks it: one prompt of ids, one answer, no stream
// (sglang/srt/managers/io_struct.py, GenerateReqInput). Logprobs of the prompt begin at logprob_start_len, of which itself
// nothing is told, and what comes before is read from the prefix cache.

// nativeRequest is its body. Unknown fields are ignored, as SGLang does.
type nativeRequest struct {
	InputIDs []int32 `json:"input_ids"`
	Sampling struct {
		MaxNewTokens *int     `json:"max_new_tokens"`
		Temperature  *float64 `json:"temperature"`
	} `json:"sampling_params"`
	ExtraKey *string `json:"extra_key"` // its cache salt
	Priority int64   `json:"priority"`

	ReturnLogprob bool `json:"return_logprob"`
	StartLen      *int `json:"logprob_start_len"`
	Top           int  `json:"top_logprobs_num"`
	WithText      bool `json:"return_text_in_logprobs"`
}

// native is what /generate asks beside what other routes do.
type native struct {
	start int // the first token of the prompt that is told of; none is no scoring
	top   int
	text  bool // with their texts
	hide  bool // max_new_tokens 0
}

func readNative(body []byte) (*wireRequest, *apiError) {
	var q nativeRequest
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	if len(q.InputIDs) == 0 {
		return nil, refused("Either text or input_ids should be provided.")
	}
	limit := 128 // SGLang's
	if n := q.Sampling.MaxNewTokens; n != nil {
		limit = *n
	}
	n := &native{start: none, top: q.Top, text: q.WithText, hide: limit == 0}
	limit = max(limit, 1) // the engine is asked for one, which nobody sees
	w := &wireRequest{MaxTokens: &limit, Temperature: q.Sampling.Temperature, CacheSalt: q.ExtraKey, Priority: q.Priority, native: n}
	if q.ReturnLogprob {
		n.start = len(q.InputIDs) - 1
		if q.StartLen != nil && *q.StartLen >= 0 {
			n.start = *q.StartLen
		}
		w.Logprobs = json.RawMessage(strconv.Itoa(q.Top))
	}
	w.Prompt = encode(q.InputIDs)
	return w, nil
}

// scoreNatively says what of the prompt is scored.
func (r *request) scoreNatively() *apiError {
	n := r.native
	if n.start == none || len(r.prompts) == 0 {
		return nil
	}
	if total := len(r.prompts[0]); n.start >= total {
		return refused(fmt.Sprintf("logprob_start_len, (%d) is higher than the number of input tokens (%d).", n.start, total))
	}
	r.noCacheRead, r.scoreFrom = n.start == 0, n.start
	return nil
}

// triple is a logprob as SGLang writes it: [logprob, id, text].
type triple [3]any

// triple is that of a token of the prompt, whose id is not yet the wire's.
func (c *call) triple(id int32, lp any) triple {
	t := triple{lp, c.s.wire.out(id), nil}
	if c.req.native.text {
		t[2] = c.s.tok.shown(id)
	}
	return t
}

// nativeAnswer is the answer of /generate.
func (c *call) nativeAnswer(ch *choice) any {
	n, prompt := c.req.native, c.req.prompts[0]
	text, ids, lps := ch.text.String(), ch.end.ids, ch.end.lps
	if n.hide {
		text, ids, lps = "", []int32{}, nil
	}
	finish := map[string]any{"type": ch.end.finish}
	switch {
	case ch.end.finish == finishLength:
		finish["length"] = len(ids)
	case ch.end.stop != nil:
		finish["matched"] = ch.end.stop
	case len(ids) > 0:
		finish["matched"] = ids[len(ids)-1]
	}
	meta := map[string]any{"id": c.req.id, "finish_reason": finish, "prompt_tokens": len(prompt), "completion_tokens": len(ids), "cached_tokens": ch.cached}
	if n.start != none {
		own, tops := c.nativeScores(prompt)
		meta["input_token_logprobs"] = own
		if n.top > 0 {
			meta["input_top_logprobs"] = tops
		}
	}
	if c.req.specs[0].logprobs >= 0 {
		out := make([]any, len(lps))
		for i, lp := range lps {
			out[i] = triple{lp.lp, lp.id, nil}
		}
		meta["output_token_logprobs"] = out
	}
	return map[string]any{"text": text, "output_ids": ids, "meta_info": meta}
}

// nativeScores are what is thought of the prompt: of each token from start on, of which itself nothing is known, and the
// best alternatives there.
func (c *call) nativeScores(prompt []int32) (own, tops []any) {
	n := c.req.native
	own, tops = make([]any, len(prompt)), make([]any, len(prompt))
	own[n.start] = c.triple(prompt[n.start], nil)
	c.s.model.scorePrompt(scoring{prompt: prompt, from: n.start + 1}, func(i int, d *Dist) {
		own[i] = c.triple(prompt[i], clampLogprob(d.LogProb(prompt[i])))
		var list []triple
		for _, k := range d.topN(n.top) {
			list = append(list, c.triple(k.ID, clampLogprob(math.Log(k.P))))
		}
		tops[i] = list
	})
	return own[n.start:], tops[n.start:]
}
