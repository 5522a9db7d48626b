package probe

import (
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/openai"
)

// answer is what is read of an engine's answer.
type answer struct {
	model  string  // as the answer tells it
	prompt []int32 // ids of the prompt; nil where they are not told
	ids    []int32 // generated; nil where they are not told
	text   string
	thinks bool   // it has a part beside its text, or its text has thoughts
	finish string // its finish_reason
	cut    bool   // a stop string ended it
	tokens int    // generated, by its usage; −1 where it is not told

	logprobs []float64   // of the generated tokens, in nats, where they are told
	tops     [][]float64 // those of each one's alternatives
}

// add adds a chunk.
func (a *answer) add(c *openai.Chunk) {
	if model := c.Model.Of(c.Raw); len(model) > 2 && a.model == "" {
		a.model, _ = strconv.Unquote(string(model)) // of another type it is none
	}
	if len(a.prompt) == 0 {
		a.prompt = slices.Clone(c.PromptIDs)
	}
	if c.HasUsage {
		a.tokens = max(c.Usage.Completion, 0)
	}
	if len(c.Finish) > 0 {
		a.finish = string(c.Finish)
	}
	a.cut = a.cut || len(c.Stop) > 0 && c.Stop[0] == '"'
	a.text += string(c.Text)
	// Some templates begin the thoughts themselves, so that only their end is in the answer.
	a.thinks = a.thinks || c.Choices > 0 && !c.Plain || strings.HasPrefix(strings.TrimSpace(a.text), thinkTag) || strings.Contains(a.text, "</think>")
	a.ids = append(a.ids, c.IDs...)
	for i, l := range c.Logprobs {
		a.logprobs, a.tops = append(a.logprobs, l), append(a.tops, slices.Clone(c.Top(i)))
	}
}

// thinkTag begins thoughts.
const thinkTag = "<think>"

// tie is how far apart the two most probable tokens may be, in nats, for an engine to
// choose either: one step of bfloat16 for logits of 16 to 32.
const tie = 0.125

// tied reports whether the two most probable tokens at a place are within tie.
func (a *answer) tied(at int) bool {
	if at < 0 || at >= len(a.tops) || len(a.tops[at]) < 2 {
		return false
	}
	most := slices.Sorted(slices.Values(a.tops[at]))
	return most[len(most)-1]-most[len(most)-2] <= tie
}

// goesOn reports whether b begins as a does, and where they first differ: by ids where
// both tell theirs, else by text, where the place is 0. What is compared is what is
// shorter.
func goesOn(a, b *answer) (same bool, at int) {
	if len(a.ids) > 0 && len(b.ids) > 0 {
		n := min(len(a.ids), len(b.ids))
		for i := range n {
			if a.ids[i] != b.ids[i] {
				return false, i
			}
		}
		return true, n
	}
	// Half a character at the end is shown as U+FFFD.
	x, y := strings.TrimRight(a.text, "\uFFFD"), strings.TrimRight(b.text, "\uFFFD")
	return x != "" && y != "" && (strings.HasPrefix(x, y) || strings.HasPrefix(y, x)), 0
}

// fewestConstant is how many tokens must have the same logprob, and no other alternative, to be refused.
const fewestConstant = 4

// constant reports whether at least half of the logprobs after the first are one constant beside which no alternative has
// another: llama.cpp tells the first token's truth, and 0.0 of all that it speculated. A token that a model is sure of has
// alternatives that are less likely.
func (a *answer) constant() (value float64, n int, is bool) {
	count := map[float64]int{}
	for i, l := range a.logprobs {
		if i > 0 && !slices.ContainsFunc(a.tops[i], func(top float64) bool { return top != l }) {
			count[l]++
		}
	}
	for v, k := range count {
		if k > n || k == n && v > value {
			value, n = v, k
		}
	}
	return value, n, n >= fewestConstant && 2*n >= len(a.logprobs)-1
}
