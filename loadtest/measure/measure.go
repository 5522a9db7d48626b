// Package measure finds what an engine costs, as a profile of the lab, by what it does under three loads: prompts of several
// lengths one at a time, batches of short prompts, and a batch of long ones. Start at [Engine].
package measure

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Options are what is measured.
type Options struct {
	URL      string        // of the engine, without /v1
	Key      string        // that it wants as a bearer; "" is none
	For      time.Duration // about how long; slow engines take longer
	Progress func(text string)

	dial func(ctx context.Context, network, address string) (net.Conn, error) // of a test
}

// The loads.
const (
	shortPrompt = 16   // tokens
	longPrompt  = 2048 // of one request, and at most: a step of most engines
	alone       = 32   // tokens of an answer, one at a time
	inBatch     = 48   // tokens of each answer of a batch
	maxBatch    = 64   // sequences
)

// What no load tells.
const (
	usualBatchedTokens = 2048
	usualSeqs          = 256
	usualLMHead        = 0.1
)

// Found is a profile without a name and a GPU, and what is assumed of it.
type Found struct {
	vllmsim.Profile
	Assumed []string // sentences
}

// Engine measures an engine that does nothing else meanwhile. It needs the completions API with prompts of token ids, streams, and
// ignore_eos: vLLM, SGLang and llama.cpp have them.
func Engine(ctx context.Context, o Options) (*Found, error) {
	if !strings.Contains(o.URL, "://") {
		o.URL = "http://" + o.URL
	}
	e := &engine{
		Options: o, url: strings.TrimSuffix(strings.TrimSuffix(o.URL, "/"), "/v1"), seen: map[shape][]observation{},
		client: http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: o.dial}},
	}
	if err := e.meet(ctx); err != nil {
		return nil, err
	}
	for _, load := range []struct {
		text string
		send func(context.Context, time.Time) error
	}{{"one request at a time", e.singles}, {"batches of short prompts", e.batches}, {"a batch of long prompts", e.long}} {
		e.Progress(load.text)
		if err := load.send(ctx, time.Now().Add(o.For/3)); err != nil {
			return nil, fmt.Errorf("%s: %w", load.text, err)
		}
	}
	return e.found()
}

// shape is what requests at a time are like.
type shape struct {
	sequences, prompt int
	first             bool // times to the first token, not of steps
}

// observation is a time in seconds, and how often it has each of the costs.
type observation struct {
	seconds float64
	costs   [numCosts]float64
}

// The costs: those of a profile, and what passes around the engine's first step.
const (
	base = iota
	perPrefillToken
	perSeq
	perKVToken
	around
	numCosts
)

// singles sends one request at a time, of growing prompts. A prompt is not longer than what takes two seconds.
func (e *engine) singles(ctx context.Context, until time.Time) error {
	longest := min(longPrompt, e.window-2*alone)
	for {
		for prompt := min(64, longest); prompt <= longest; prompt *= 2 {
			r, err := e.together(ctx, 1, prompt, alone)
			if err != nil {
				return err
			}
			e.note(r, prompt)
			ttft := r[0].pieces[0].Sub(r[0].sent)
			e.seen[shape{1, prompt, true}] = append(e.seen[shape{1, prompt, true}],
				observation{ttft.Seconds(), [numCosts]float64{base: 1, perPrefillToken: float64(prompt), perKVToken: float64(prompt), around: 1}})
			if ttft > 2*time.Second {
				longest = prompt
			}
		}
		if time.Now().After(until) {
			return nil
		}
	}
}

// batches sends more and more short prompts together, until the engine has no more seats.
func (e *engine) batches(ctx context.Context, until time.Time) error {
	for {
		for n := 4; n <= min(maxBatch, 4*e.batch) && e.seats == 0; n *= 2 {
			if err := e.send(ctx, n, shortPrompt); err != nil {
				return err
			}
		}
		if err := e.send(ctx, e.batch, shortPrompt); err != nil {
			return err
		}
		if time.Now().After(until) {
			return nil
		}
	}
}

// send sends a batch, and notes how many ran at once.
func (e *engine) send(ctx context.Context, n, prompt int) error {
	r, err := e.together(ctx, n, prompt, e.answers)
	if err != nil {
		return err
	}
	together := e.note(r, prompt)
	if e.batch = max(e.batch, together); together < n && prompt == shortPrompt {
		e.seats = max(e.seats, together)
	}
	return nil
}

// long sends the largest batch with prompts as long as half of the memory and a third of the time have room for.
func (e *engine) long(ctx context.Context, until time.Time) error {
	short, most := e.middle(shape{1, min(64, e.window-2*alone), true}), observation{}
	for s := range e.seen {
		if o := e.middle(s); s.first && o.costs[perPrefillToken] > most.costs[perPrefillToken] {
			most = o
		}
	}
	each := max(1e-6, (most.seconds-short.seconds)/max(1, most.costs[perPrefillToken]-short.costs[perPrefillToken]))
	prompt := min(longPrompt, e.window-2*e.answers, e.tokens/2/e.batch-e.answers, int(time.Until(until).Seconds()/2/each)/e.batch)
	if prompt <= 2*shortPrompt {
		return nil // no room or no time: one at a time has told what a token of the cache takes
	}
	e.answers += e.batch * prompt / 512 // the first ones decode while the last ones are prefilled
	for {
		if err := e.send(ctx, e.batch, prompt); err != nil || time.Now().After(until) {
			return err
		}
	}
}

// middle is the observation with the median time.
func (e *engine) middle(s shape) observation {
	all := slices.SortedFunc(slices.Values(e.seen[s]), func(a, b observation) int { return cmp.Compare(a.seconds, b.seconds) })
	if len(all) == 0 {
		return observation{}
	}
	return all[len(all)/2]
}

// found fits the costs to the medians.
func (e *engine) found() (*Found, error) {
	var all []observation
	for s := range e.seen {
		all = append(all, e.middle(s))
	}
	c := fit(all)
	f := &Found{Profile: vllmsim.Profile{
		Model: e.model, Blocks: e.tokens / vllmsim.BlockSize, MaxBatchedTokens: usualBatchedTokens, MaxSeqs: cmp.Or(e.seats, usualSeqs),
		Base: c[base], PerPrefillToken: c[perPrefillToken], PerSeq: c[perSeq], PerKVToken: c[perKVToken], LMHead: usualLMHead,
		Measured: []string{"base", "per_prefill_token", "per_seq", "per_kv_token"},
	}}
	f.Assumed = append(f.Assumed, fmt.Sprintf("max_num_batched_tokens is %d.", usualBatchedTokens), fmt.Sprintf("lm_head is %g.", usualLMHead))
	if e.seats == 0 {
		f.Assumed = append(f.Assumed, fmt.Sprintf("max_num_seqs is %d: %d ran together.", usualSeqs, e.batch))
	}
	if e.told {
		f.Measured = append(f.Measured, "blocks")
	} else {
		f.Assumed = append(f.Assumed, fmt.Sprintf("The cache holds %d tokens: the engine does not tell.", e.tokens))
	}
	if !(f.Base+f.PerSeq > 0 && f.PerPrefillToken > 0) {
		return nil, fmt.Errorf("the times make no profile: base %g, per_prefill_token %g, per_seq %g, per_kv_token %g", c[base], c[perPrefillToken], c[perSeq], c[perKVToken])
	}
	return f, nil
}

// fit finds costs, none below 0, whose sums are nearest to the observed times, by relative errors.
func fit(all []observation) (c [numCosts]float64) {
	for range 20_000 { // each cost in turn, as it fits best with the others as they are
		for k := range c {
			above, below := 0.0, 0.0
			for _, o := range all {
				rest := o.seconds
				for i, v := range c {
					if i != k {
						rest -= v * o.costs[i]
					}
				}
				x := o.costs[k] / o.seconds
				above, below = above+x*rest/o.seconds, below+x*x
			}
			if below > 0 {
				c[k] = max(0, above/below)
			}
		}
	}
	return c
}

// YAML is the file of a profile that was measured on a day, as vllmsim's profiles.yaml has them. Name and GPU are set by who knows them.
func (f *Found) YAML(day string) string {
	p := &f.Profile
	return fmt.Sprintf("# Measured by foregate plan measure, %s. %s\nprofiles:\n"+
		"  - {name: %q, gpu: %q, gpus: %d, model: %q, precision: %q, max_num_batched_tokens: %d, max_num_seqs: %d,\n"+
		"     blocks: %d, base: %.4g, per_prefill_token: %.4g, per_seq: %.4g, per_kv_token: %.4g, lm_head: %g,\n     measured: [%s]}\n",
		day, "Assumed: "+strings.Join(f.Assumed, " "), p.Name, p.GPU, p.GPUs, p.Model, p.Precision, p.MaxBatchedTokens, p.MaxSeqs,
		p.Blocks, p.Base, p.PerPrefillToken, p.PerSeq, p.PerKVToken, p.LMHead, strings.Join(p.Measured, ", "))
}
