package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
)

// carried keeps what the last probe of the same life saw of a hazard that is not looked for now.
func (e *probeRun) carried(name, why string) {
	if was := e.before.HazardReason(name); was != "" {
		e.addHazard(name, was)
		return
	}
	if e.hazards[name] == "" {
		e.show(name, "not looked for: "+why)
	}
}

// untold says why a hazard cannot be told, if nothing has shown it.
func (e *probeRun) untold(name, why string) {
	if e.hazards[name] == "" {
		e.show(name, "cannot be told: "+why)
	}
}

// constantTokens is how many tokens are generated to look at their logprobs.
const constantTokens = 16

// constantLogprobs finds out whether logprobs are constants.
func (e *probeRun) constantLogprobs(ctx context.Context) error {
	if why := e.missing[MissingLogprobs]; why != "" {
		e.untold(HazardConstantLogprobs, why)
		return nil
	}
	q := map[string]any{"logprobs": true, "temperature": 1, "seed": 7}
	if e.found.TopLogprobs > 0 {
		q["top_logprobs"] = min(e.found.TopLogprobs, 5)
	}
	a, err := e.ask(ctx, long[e.variant%len(long)], constantTokens, q)
	if fails(err) {
		return err
	}
	if err != nil {
		e.untold(HazardConstantLogprobs, err.Error())
		return nil
	}
	value, n, is := constant(a.chosen)
	if !is {
		e.showf(HazardConstantLogprobs, "%d logprobs that differ", len(a.chosen))
		return nil
	}
	why := fmt.Sprintf("the logprob is %g for %d of %d tokens, with no less likely alternative: the engine does not tell the true ones", value, n, len(a.chosen))
	e.addHazard(HazardConstantLogprobs, why)
	e.withdrawLogprobs(why)
	return nil
}

// withdrawLogprobs says that logprobs cannot be used, whatever was found out about them.
func (e *probeRun) withdrawLogprobs(why string) {
	e.found.Unscored, e.found.RawLogprobs, e.found.Processed, e.found.Plain, e.found.TopLogprobs = true, false, false, false, 0
	for _, what := range []string{MissingLogprobs, MissingTop, MissingRaw} {
		e.missing[what] = why
		e.show(what, why)
	}
}

// swappedModel draws the conclusions from another model that has answered. It asks nothing.
func (e *probeRun) swappedModel() {
	if e.another == "" {
		if _, looked := e.shown[HazardSwappedModel]; !looked {
			e.last = ""
			e.show(HazardSwappedModel, "answers name the model that was asked for, or none")
		}
		return
	}
	why := fmt.Sprintf("asked for %q, the model %q answers", line(e.asker.model), e.another)
	if e.hazards[HazardSwappedModel] == "" {
		e.hazards[HazardSwappedModel] = why // its evidence was recorded when it answered
	}
	e.withdrawLogprobs(why)
	e.withdrawScoring(why)
	e.found.Continues = false
	e.missing[MissingContinue] = why
	e.show(MissingContinue, why)
}

// thinksFirst finds out whether an engine that thinks before it answers can be told not to.
func (e *probeRun) thinksFirst(ctx context.Context) error {
	if !e.opening.thinks {
		e.last = requestLine("/v1/chat/completions", map[string]any{"max_tokens": shortTokens})
		e.show(HazardThinksFirst, "the answer begins without thoughts")
		return nil
	}
	e.found.Thinks = true
	more := map[string]any{}
	var how string
	switch e.dialect().Thinking {
	case dialect.ThinkingTemplate:
		more["chat_template_kwargs"], how = map[string]any{"enable_thinking": false}, "enable_thinking: false"
	case dialect.ThinkingEffort:
		more["reasoning_effort"], how = "none", `reasoning_effort: "none"`
	default:
		e.thinksAlways("it thinks before it answers, and no way is known to turn that off")
		return nil
	}
	a, err := e.ask(ctx, e.opened, shortTokens, more)
	switch {
	case fails(err):
		return err
	case err != nil:
		e.thinksAlways("it thinks before it answers, and refuses " + how + ": " + err.Error())
	case a.thinks:
		e.thinksAlways("it thinks before it answers, and " + how + " does not turn that off")
	default:
		e.addHazard(HazardThinksFirst, "it thinks before it answers; "+how+" turns that off")
	}
	return nil
}

// thinksAlways says that a judge cannot be asked: its first token is a thought's.
func (e *probeRun) thinksAlways(why string) {
	e.addHazard(HazardThinksFirst, why)
	e.addMissing(MissingLogprobs, why)
}

// shortContext finds out whether long prompts are cut without a word, or refused though they should fit.
func (e *probeRun) shortContext(ctx context.Context) error {
	if e.engine == "" || e.dialect().Kind == dialect.VLLM {
		e.show(HazardShortContext, "not asked: vLLM refuses what is longer than max_model_len")
		return nil
	}
	if why := e.promised(); why != "" {
		e.last = e.made
		e.addHazard(HazardShortContext, why)
	}
	lines := linesFor(e.found.Window)
	switch {
	case e.closed != "":
		e.carried(HazardShortContext, e.closed)
		if e.hazards[HazardShortContext] != "" && e.before != nil && e.before.Window > 0 {
			e.found.Window = e.before.Window
		}
		return nil
	case e.noChat != "" || lines == 0:
		e.untold(HazardShortContext, cmp.Or(e.noChat, "the context is too short for the prompts"))
		return nil
	}
	g := growth{lines: lines, base: e.opening.prompts}
	from := 1000 + 97*(e.variant%89)
	a, err := e.ask(ctx, "How many lines are there?\n"+longLines(from, lines/2), 1, nil)
	if fails(err) {
		e.untold(HazardShortContext, err.Error()) // a slow engine is no broken one
		return ctx.Err()
	}
	if err == nil {
		if g.half = a.prompts; g.half == 0 || !g.fits(e.found.Window) {
			e.untold(HazardShortContext, fmt.Sprintf("a prompt of %d lines has %d tokens, by usage", lines/2, g.half))
			return nil
		}
		a, err = e.ask(ctx, "Count all these lines.\n"+longLines(from, lines), 1, nil)
	}
	g.full = a.prompts
	e.measured(g, err)
	return ctx.Err()
}

// tooLong reports whether a prompt was refused for its length, as the engines say that.
func tooLong(err error) bool {
	r, refused := errors.AsType[*refusal](err)
	return refused && (r.status == http.StatusRequestEntityTooLarge || strings.Contains(r.message, "context") || strings.Contains(r.message, "too long"))
}

// measured draws the conclusions from two long prompts. err is the refusal of the one that was refused.
func (e *probeRun) measured(g growth, err error) {
	refused := tooLong(err)
	about := g.lines * tokensPerLine
	switch {
	case err != nil && !refused:
		e.untold(HazardShortContext, err.Error())
	case refused && e.found.Window > 0:
		e.addHazard(HazardShortContext, fmt.Sprintf("it refuses a prompt of about %d tokens, though it promises %d: %v", about, e.found.Window, err))
		e.believes(g.half)
	case refused:
		e.show(HazardShortContext, "it refuses what is too long: "+err.Error())
		e.believes(g.half)
	case g.half == 0 || g.full == 0:
		e.untold(HazardShortContext, "answers come without usage")
	case g.cut():
		e.addHazard(HazardShortContext, fmt.Sprintf("a prompt of %d lines has %d tokens, one of %d lines %d: long prompts are cut without a word",
			g.lines/2, g.half, g.lines, g.full))
		e.believes(max(g.half, g.full))
	case e.hazards[HazardShortContext] == "":
		e.showf(HazardShortContext, "%d and %d tokens of %d and %d lines", g.half, g.full, g.lines/2, g.lines)
	}
}

// believes takes what usage shows for the context length.
func (e *probeRun) believes(tokens int) {
	if tokens > 0 && (e.found.Window == 0 || tokens < e.found.Window) {
		e.found.Window = tokens
		delete(e.missing, MissingWindow)
		e.showf(MissingWindow, "%d tokens, by usage", tokens)
	}
}

const (
	// leftTokens is how long the answer is that the probe leaves after its first chunk.
	leftTokens = 256
	// idleWithin is how long an engine may take to notice that the client is gone; idleTick is how often it is looked at.
	idleWithin = 2 * time.Second
	idleTick   = 50 * time.Millisecond
)

// generatesOn finds out whether the engine goes on generating when the client is gone.
func (e *probeRun) generatesOn(ctx context.Context) error {
	if e.closed != "" {
		e.carried(HazardGeneratesOn, e.closed)
		return nil
	}
	before, err := e.look(ctx)
	switch {
	case err != nil:
		e.untold(HazardGeneratesOn, err.Error())
		return ctx.Err()
	case e.noChat != "":
		e.untold(HazardGeneratesOn, e.noChat)
		return nil
	case before.running > 0:
		e.carried(HazardGeneratesOn, "it is busy with other requests")
		return nil
	}
	if err := e.leave(ctx); err != nil {
		e.untold(HazardGeneratesOn, err.Error())
		return ctx.Err()
	}
	e.watchIdle(ctx)
	return ctx.Err()
}

// leave begins a long answer and hangs up at its first bytes.
func (e *probeRun) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, fmt.Errorf("no chunk of a stream within %v", e.timeout))
	defer cancel()
	question := map[string]any{"messages": []message{{"user", long[e.variant%len(long)]}}, "max_tokens": leftTokens, "temperature": 0, "stream": true}
	body, err := e.encode(question)
	if err != nil {
		return err
	}
	req, err := e.request(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		return err
	}
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // with the request's end it hangs up
	if resp.StatusCode != http.StatusOK {
		return &refusal{status: resp.StatusCode}
	}
	var first [64]byte
	if _, err := io.ReadAtLeast(resp.Body, first[:], 1); err != nil {
		return err
	}
	e.spent.Generated++
	e.last = requestLine("/v1/chat/completions", map[string]any{"max_tokens": leftTokens, "stream_left": "after the first chunk"})
	return nil
}

// watchIdle looks at the engine until it is idle or it is too late.
func (e *probeRun) watchIdle(ctx context.Context) {
	shown := e.last
	defer func() { e.last = shown }()
	late := time.NewTimer(idleWithin)
	defer late.Stop()
	tick := time.NewTicker(idleTick)
	defer tick.Stop()
	var first *load
	for {
		now, err := e.look(ctx)
		e.last = shown
		switch {
		case err != nil:
			e.untold(HazardGeneratesOn, err.Error())
			return
		case now.running == 0:
			e.showf(HazardGeneratesOn, "idle within %v", idleWithin)
			return
		case first == nil:
			first = &now
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
			return
		case <-late.C:
		}
		switch {
		case othersCame(*first, now):
			e.carried(HazardGeneratesOn, "it is busy with other requests")
		case wentOn(*first, now):
			e.addHazard(HazardGeneratesOn, fmt.Sprintf("%v after the client of a stream was gone it was still generating", idleWithin))
		default:
			e.showf(HazardGeneratesOn, "cannot be told: it shows %g running, and generates nothing", now.running)
		}
		return
	}
}

// look looks at what the engine is doing, where it tells that.
func (e *probeRun) look(ctx context.Context) (load, error) {
	d := e.dialect()
	if d.Kind == dialect.LlamaCpp {
		body, err := e.send(ctx, http.MethodGet, "/slots", nil)
		if err == nil {
			busy, err := parseBusy(body)
			return load{running: busy, generated: -1}, err
		}
		if !absent(err) { // it may be turned off; then there may be metrics
			return load{}, err
		}
	}
	if !d.Load.Reads() {
		return load{}, errors.New("the API of " + string(e.engine) + " does not tell what it is doing")
	}
	page, err := e.send(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return load{}, err
	}
	page = bytes.TrimSpace(page)
	running, there := parseSum(page, d.Load.Metrics.Running)
	if !there {
		return load{}, &unreadable{"/metrics does not tell the running requests"}
	}
	generated, there := parseSum(page, d.Load.Metrics.GenerationTokens)
	if !there || d.Kind == dialect.LlamaCpp { // llama.cpp counts an answer's tokens at its end
		generated = -1
	}
	prompts := 0.0
	if d.Kind == dialect.VLLM { // others count a prompt's tokens at its answer's end
		prompts, _ = parseSum(page, d.Load.Metrics.PromptTokens)
	}
	return load{running, generated, prompts}, nil
}
