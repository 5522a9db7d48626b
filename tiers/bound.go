package tiers

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	// unknownWindow is the context length, in tokens, that is taken for one that is not known.
	unknownWindow = 1 << 20
	// maxWindow bounds the context length that a backend names.
	maxWindow = 1 << 24
)

// clamp cuts the usage that a backend tells to what its call can have used: the prompt by the bytes
// that were sent; the answer by what the request allows, else by the context, and in a stream by
// the bytes that have come, because each token is an event or a part of one. It is so for all
// that goes by usage: limits, metrics, receipts, costs, audits.
func (x *exchange) clamp(u openai.Usage, came int64) openai.Usage {
	b := openai.Bound{Prompt: x.prompts, Answer: x.maxAnswer()}
	if b.Prompt == 0 {
		b.Prompt = len(x.body)
	}
	if u.Prompt > b.Prompt && x.prompts == 0 { // the body is looked through only where it may matter
		b.Prompt = openai.MaxPromptTokens(x.body)
	}
	if came != inOnePiece && int64(u.Completion) > came && !openai.HidesTokens(x.body) {
		b.Answer = min(b.Answer, int(came))
	}
	return b.Clamp(u)
}

// inOnePiece says to clamp that the answer is no stream.
const inOnePiece = -1

// maxAnswer is how many tokens the answer of a call can have.
func (x *exchange) maxAnswer() int {
	if x.answerless {
		return 0
	}
	most := x.demand.MostOutput
	if most <= 0 {
		most = unknownWindow
		if window := x.cascade.windows.of(x.pool); window > 0 {
			most = min(window, maxWindow)
		}
	}
	return most * max(x.choices, x.demand.Answers, 1)
}

// askID sets the id by which an engine is to know a call. It is never the client's: two requests may
// have the same, and engines tell requests apart by it. All ids of a request begin with
// the gateway's own of it.
func (x *exchange) askID(h http.Header) {
	if x.id == "" {
		return
	}
	n := x.cascade.calls.Add(1)
	if t := x.tried(); t != nil {
		t.Call = n
	}
	h["X-Request-Id"] = []string{x.id + "-" + CallName(n)}
}

// CallName is what the id that a backend is told of a call has behind the request's own id and a
// hyphen. No two calls of a replica have the same.
func CallName(call uint64) string { return strconv.FormatUint(call, 36) }

// The types of answers that pass through.
const (
	typeJSON   = "application/json"
	typeStream = "text/event-stream; charset=utf-8"
)

// passable is the type under which an answer passes through: JSON or a stream of events, in the
// gateway's own words. Anything else is a fault of the backend: nobody here could count its tokens,
// and a browser might take it for a page of the gateway's own origin.
func passable(h http.Header) (string, error) {
	if enc := h.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return "", fmt.Errorf("%w: content encoding %.64q", engine.ErrBody, enc)
	}
	switch kind, _, _ := mime.ParseMediaType(h.Get("Content-Type")); kind {
	case "application/json":
		return typeJSON, nil
	case "text/event-stream":
		return typeStream, nil
	}
	return "", fmt.Errorf("%w: content type %.64q of an answer that passes through", engine.ErrBody, h.Get("Content-Type"))
}
