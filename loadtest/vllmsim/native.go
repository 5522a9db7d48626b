package vllmsim

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// This file is SGLang's own POST /generate, as far as a gateway asks it: one prompt, one answer, no stream
// (sglang/srt/managers/io_struct.py, GenerateReqInput). Logprobs of the prompt begin at logprob_start_len, of which itself nothing is told, and what comes
// before is read from the prefix cache.

// nativeRequest is its body. Unknown fields are ignored, as SGLang does.
type nativeRequest struct {
	Text     *string        `json:"text"`
	InputIDs []int32        `json:"input_ids"`
	Sampling nativeSampling `json:"sampling_params"`
	Stream   bool           `json:"stream"`
	Rid      string         `json:"rid"`
	ExtraKey *string        `json:"extra_key"` // its cache salt
	Salt     *string        `json:"cache_salt"`
	Priority int64          `json:"priority"`

	ReturnLogprob bool `json:"return_logprob"`
	StartLen      *int `json:"logprob_start_len"`
	Top           int  `json:"top_logprobs_num"`
	WithText      bool `json:"return_text_in_logprobs"`
}

type nativeSampling struct {
	MaxNewTokens *int            `json:"max_new_tokens"`
	MinNewTokens int             `json:"min_new_tokens"`
	Temperature  *float64        `json:"temperature"`
	TopP         *float64        `json:"top_p"`
	TopK         *int            `json:"top_k"`
	MinP         *float64        `json:"min_p"`
	Stop         json.RawMessage `json:"stop"`
	StopTokenIDs []int32         `json:"stop_token_ids"`
	IgnoreEOS    bool            `json:"ignore_eos"`
}

// native is what /generate asks beside what other routes do.
type native struct {
	logprobs bool // of generated tokens, and of the prompt's from start on
	start    int  // the first token of the prompt that is told of; -1 is its last; none is no scoring
	top      int
	text     bool // with their texts
	hide     bool // max_new_tokens 0
}

// defaultNewTokens is SGLang's.
const defaultNewTokens = 128

func readNative(body []byte) (*wireRequest, *apiError) {
	var q nativeRequest
	if err := decode(body, &q); err != nil {
		return nil, err
	}
	switch {
	case q.Stream:
		return nil, refused("stream is not simulated on /generate")
	case (q.Text == nil) == (len(q.InputIDs) == 0):
		return nil, refused("Either text or input_ids should be provided.")
	case q.Top < 0:
		return nil, refused("top_logprobs_num should be non-negative.")
	}
	limit, p := defaultNewTokens, q.Sampling
	if p.MaxNewTokens != nil {
		limit = *p.MaxNewTokens
	}
	n := &native{logprobs: q.ReturnLogprob, start: none, top: q.Top, text: q.WithText, hide: limit == 0}
	if limit == 0 {
		limit = 1 // the engine is asked for one, which nobody sees
	}
	w := &wireRequest{RequestID: q.Rid, MaxTokens: &limit, MinTokens: p.MinNewTokens, IgnoreEOS: p.IgnoreEOS, Stop: p.Stop,
		StopTokenIDs: p.StopTokenIDs, Temperature: p.Temperature, TopP: p.TopP, TopK: p.TopK, MinP: p.MinP,
		CacheSalt: q.ExtraKey, Priority: q.Priority, native: n}
	if w.CacheSalt == nil {
		w.CacheSalt = q.Salt
	}
	if q.ReturnLogprob {
		n.start = -1
		if q.StartLen != nil {
			n.start = max(*q.StartLen, -1)
		}
		w.Logprobs = json.RawMessage(strconv.Itoa(q.Top))
	}
	w.Prompt = appendIDs(nil, q.InputIDs)
	if q.Text != nil {
		w.Prompt = appendQuoted(nil, *q.Text)
	}
	return w, nil
}

// scoreNatively says what of the prompt is scored, once its length is known.
func (r *request) scoreNatively() *apiError {
	n := r.native
	if n.start == none || len(r.prompts) == 0 {
		return nil
	}
	switch last := len(r.prompts[0]) - 1; {
	case n.start > last:
		return refused(fmt.Sprintf("logprob_start_len, (%d) is higher than the number of input tokens (%d).", n.start, last+1))
	case n.start < 0:
		n.start = max(last, 0)
	case n.start == 0:
		r.noCacheRead = true
	default:
		r.scoreFrom = n.start
	}
	return nil
}

// nativeBody is the answer of /generate.
func (c *call) nativeBody(ch *choice) []byte {
	n, prompt := c.req.native, c.req.prompts[0]
	text, ids, lps := ch.text.String(), ch.ids, ch.lps
	if n.hide {
		text, ids, lps = "", nil, nil
	}
	b := appendQuoted([]byte(`{"text":`), text)
	b = appendIDs(append(b, `,"output_ids":`...), ids)
	b = appendQuoted(append(b, `,"meta_info":{"id":`...), c.req.id)
	b = c.appendNativeFinish(append(b, `,"finish_reason":`...), ch, len(ids))
	b = strconv.AppendInt(append(b, `,"prompt_tokens":`...), int64(len(prompt)), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(len(ids)), 10)
	b = strconv.AppendInt(append(b, `,"cached_tokens":`...), int64(ch.cached), 10)
	if n.start != none {
		b = c.appendNativeScores(b, prompt)
	}
	if n.logprobs && !c.s.missingFeatures.logprobs {
		b = c.appendNativeOutput(b, lps)
	}
	return append(b, `,"weight_version":"default"}}`...)
}

func (c *call) appendNativeFinish(b []byte, ch *choice, length int) []byte {
	switch {
	case ch.finish == finishLength:
		b = strconv.AppendInt(append(b, `{"type":"length","length":`...), int64(length), 10)
	case ch.finish == finishStop && ch.stop == nil:
		b = strconv.AppendInt(append(b, `{"type":"stop","matched":`...), int64(ch.ids[len(ch.ids)-1]), 10)
	case ch.finish == finishStop:
		b = appendStopReason(append(b, `{"type":"stop","matched":`...), ch.stop)
	default:
		b = appendQuoted(append(b, `{"type":`...), ch.finish)
	}
	return append(b, '}')
}

// appendNativeScores appends what is thought of the prompt: of each token from start on, and the best alternatives there.
func (c *call) appendNativeScores(b []byte, prompt []int32) []byte {
	n := c.req.native
	in := scoring{prompt: prompt, from: n.start + 1, fault: c.fault.Score}
	l := triples{c: c, spoilt: in.spoilt()}
	own, tops := []byte(`,"input_token_logprobs":[`), []byte(`],"input_top_logprobs":[`)
	var late, lateTops []byte
	first := true
	c.s.model.scorePrompt(in, func(i int, d *Dist) {
		if i < n.start || in.leavesOut(i) || in.fault == scoreShort && i == 0 {
			return
		}
		if !first {
			own, tops = append(own, ','), append(tops, ',')
		}
		first = false
		entry, top := l.own(nil, prompt[i], d), l.top(nil, d, n.top)
		if in.fault == scoreMisaligned {
			entry, late = late, entry
			top, lateTops = lateTops, top
		}
		own, tops = append(own, orNull(entry)...), append(tops, orNull(top)...)
	})
	b = append(b, own...)
	if n.top > 0 {
		b = append(b, tops...)
	}
	return append(b, ']')
}

func orNull(b []byte) []byte {
	if b == nil {
		return []byte("null")
	}
	return b
}

func (c *call) appendNativeOutput(b []byte, lps []*tokenLogprob) []byte {
	n := c.req.native
	l := triples{c: c}
	b = append(b, `,"output_token_logprobs":[`...)
	for i, lp := range lps {
		b = l.triple(appendComma(b, i), lp.altLogprob)
	}
	b = append(b, ']')
	if n.top == 0 {
		return b
	}
	b = append(b, `,"output_top_logprobs":[`...)
	for i, lp := range lps {
		b = append(appendComma(b, i), '[')
		for k, a := range lp.top {
			b = l.triple(appendComma(b, k), a)
		}
		b = append(b, ']')
	}
	return append(b, ']')
}

// triples writes logprobs as SGLang does: [logprob, id, text].
type triples struct {
	c      *call
	spoilt string // what stands for every logprob, by a fault
}

func (l *triples) own(b []byte, id int32, d *Dist) []byte {
	switch {
	case l.spoilt == spoiltEntry:
		return nil
	case d == nil:
		return l.triple(b, l.of(id, math.Inf(-1)))
	}
	return l.triple(b, l.of(id, clampLogprob(d.LogProb(id))))
}

func (l *triples) top(b []byte, d *Dist, n int) []byte {
	if d == nil || l.spoilt == spoiltEntry {
		return nil
	}
	b = append(b, '[')
	for k, c := range d.topN(n) {
		b = l.triple(appendComma(b, k), l.of(c.ID, clampLogprob(math.Log(c.P))))
	}
	return append(b, ']')
}

// of is a token of the prompt as it goes over the wire.
func (l *triples) of(id int32, lp float64) altLogprob {
	return altLogprob{id: l.c.s.wire.out(id), lp: lp, text: l.c.s.tok.shown(id)}
}

// triple writes one; what is infinite is not known.
func (l *triples) triple(b []byte, a altLogprob) []byte {
	b = append(b, '[')
	if l.spoilt != "" {
		b = append(b, l.spoilt...)
	} else {
		b = appendFloat(b, a.lp)
	}
	b = strconv.AppendInt(append(b, ','), int64(a.id), 10)
	if !l.c.req.native.text {
		return append(b, ",null]"...)
	}
	return append(appendQuoted(append(b, ','), a.text), ']')
}
