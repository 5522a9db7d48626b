package probe

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Hazard is something that goes wrong though the engine answers, and the observation that shows it.
type Hazard struct{ Name, Reason string }

// The hazards. What follows of one is in Missing and Window; the others are only told.
const (
	HazardConstantLogprobs = "constant_logprobs"          // logprobs are a constant, as of tokens that the engine speculated: no logprobs
	HazardSwappedModel     = "swapped_model"              // another model answers: no logprobs, no scoring, no continuation; or the model leaves memory between requests
	HazardShortContext     = "short_context"              // less fits than is promised, or what does not fit is cut without a word: Window is what fits
	HazardThinksFirst      = "thinks_first"               // it thinks before it answers: Thinks; where that cannot be turned off: no logprobs for a judge
	HazardGeneratesOn      = "generates_after_disconnect" // it goes on generating when the client is gone
)

// HazardNames are all hazards: the values of the metric's label.
var HazardNames = []string{HazardConstantLogprobs, HazardSwappedModel, HazardShortContext, HazardThinksFirst, HazardGeneratesOn}

func sortedHazards(reasons map[string]string) []Hazard {
	var list []Hazard
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		list = append(list, Hazard{name, reasons[name]})
	}
	return list
}

// fewestConstant is how many tokens must have the same logprob, and no other alternative, to be refused.
const fewestConstant = 4

// constant reports whether at least half of the logprobs after the first are one constant beside which no alternative has
// another: llama.cpp tells the first token's truth, and 0.0 of all that it speculated. A token that a model is sure of has
// alternatives that are less likely.
func constant(tokens []scored) (value float64, n int, is bool) {
	if len(tokens) < 2 {
		return 0, 0, false
	}
	count := map[float64]int{}
	for _, t := range tokens[1:] {
		if !t.varied {
			count[t.logprob]++
		}
	}
	for v, k := range count {
		if k > n || k == n && v > value {
			value, n = v, k
		}
	}
	return value, n, n >= fewestConstant && 2*n >= len(tokens)-1
}

// growth is what two prompts of numbered lines cost, the second with twice as many lines as the first.
type growth struct {
	lines      int // of the second
	base       int // tokens of a prompt that has about none; 0: not known
	half, full int // tokens of the prompts, by the engine's usage
}

// fewestPerLine is less than any tokenizer makes of a line of longLines.
const fewestPerLine = 8

// cut reports whether the longer prompt was cut: it has not grown as the shorter one did, or has fewer tokens than lines
// of their length can have.
func (g growth) cut() bool {
	return g.full < g.lines*fewestPerLine || 4*(g.full-g.half) < 3*(g.half-g.base)
}

const (
	// tokensPerLine is what tokenizers make of a line of longLines: 19 (Llama 3, Qwen) to 28 (the simulator's).
	tokensPerLine = 24
	// longKnown and longUnknown are the tokens of the longer prompt, about: where the engine tells the context length of a
	// request, and where nothing does. Engines that cut without a word begin at 2,048 tokens (Ollama's default for years).
	longKnown, longUnknown = 1000, 2700
)

// fits reports whether the longer prompt is expected to fit into a context with room to spare; 0 is an unknown one. A
// prompt that is refused as it should be says nothing of the promise.
func (g growth) fits(window int) bool { return window == 0 || 10*(2*g.half-g.base) <= 9*window }

// linesFor is how many lines the longer prompt has, an even number; 0: the context is too small for two prompts.
func linesFor(window int) int {
	tokens := longUnknown
	if window > 0 {
		tokens = min(longKnown, window*3/4)
	}
	if n := tokens / tokensPerLine / 2 * 2; n >= 8 {
		return n
	}
	return 0
}

// longLines are n numbered lines, from a number on, so that no engine has another probe's in its cache.
func longLines(from, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Line %d: the letter was sent on a cold and windy day in March.\n", from+i)
	}
	return b.String()
}

// parseBusy reads an answer of llama.cpp's /slots: how many are processing. The error is an *unreadable.
func parseBusy(body []byte) (float64, error) {
	var slots []struct {
		Processing *bool `json:"is_processing"`
	}
	if err := json.Unmarshal(body, &slots); err != nil {
		return 0, &unreadable{"the answer of /slots cannot be read: " + line(err.Error())}
	}
	busy := 0.0
	for _, s := range slots {
		if s.Processing == nil {
			return 0, &unreadable{"/slots does not tell is_processing"}
		}
		if *s.Processing {
			busy++
		}
	}
	if len(slots) == 0 {
		return 0, &unreadable{"/slots lists none"}
	}
	return busy, nil
}

// parseSum adds up the series of the first of these metrics that a page of /metrics has.
func parseSum(page []byte, names []string) (sum float64, there bool) {
	for _, name := range names {
		for l := range bytes.Lines(page) {
			rest, found := bytes.CutPrefix(l, []byte(name))
			if !found || len(rest) == 0 || rest[0] != ' ' && rest[0] != '{' {
				continue
			}
			if at := bytes.LastIndexByte(rest, '}'); at >= 0 {
				rest = rest[at+1:]
			}
			fields := bytes.Fields(rest)
			if len(fields) == 0 {
				continue
			}
			v, err := strconv.ParseFloat(string(fields[0]), 64)
			if err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
				sum, there = sum+v, true
			}
		}
		if there {
			return sum, true
		}
	}
	return 0, false
}

// load is what a look at an engine shows.
type load struct {
	running   float64
	generated float64 // tokens so far; −1: not told
	prompts   float64 // tokens of the prompts that it has begun to answer; 0: not told
}

// othersCame reports whether an engine has begun to answer other requests between two looks: what it does says nothing of
// the request that was left.
func othersCame(first, last load) bool { return last.prompts > first.prompts }

// wentOn reports whether an engine that was still busy at the last look has generated since the first. A gauge may be
// stale where an engine writes it only while it generates; tokens are not.
func wentOn(first, last load) bool {
	return last.running > 0 && (last.generated < 0 || cmp.Compare(last.generated, first.generated) > 0)
}
