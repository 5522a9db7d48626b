package probe

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// answer is what is read of an engine's JSON answer: its first choice.
type answer struct {
	model  string  // as the answer tells it
	prompt []int32 // ids of the prompt; nil where they are not told
	ids    []int32 // generated; nil where they are not told
	text   string
	thinks bool  // it begins with thoughts
	ended  bool  // by itself: not by a limit, nor by a stop string
	stopID int32 // the id that it says ended it; −1 where it does not say
	tokens int   // generated, by its usage; −1 where it is not told

	scored  []scored             // each generated token's logprob, where they are told
	tops    []map[string]float64 // each one's alternatives
	unnamed bool                 // ids are those of logprobs' entries, and the last entry has a text
}

// scored is a generated token's logprob in nats.
type scored struct {
	logprob float64
	varied  bool // an alternative has another logprob
}

// wireEntry is what logprobs tell of a generated token.
type wireEntry struct {
	ID      json.RawMessage `json:"id"` // llama.cpp's
	Token   json.RawMessage `json:"token"`
	Logprob float64         `json:"logprob"`
	Top     []struct {
		Token   string  `json:"token"`
		Logprob float64 `json:"logprob"`
	} `json:"top_logprobs"`
}

// wireAnswer is an answer of /v1/chat/completions or /v1/completions.
type wireAnswer struct {
	Choices []struct {
		Message *struct {
			Content   *string         `json:"content"`
			Reasoning json.RawMessage `json:"reasoning"` // vLLM's from 0.11 on
			Thoughts  json.RawMessage `json:"reasoning_content"`
		} `json:"message"`
		Text      string          `json:"text"`
		Finish    string          `json:"finish_reason"`
		Stop      json.RawMessage `json:"stop_reason"`
		Matched   json.RawMessage `json:"matched_stop"` // SGLang's
		IDs       []int32         `json:"token_ids"`
		PromptIDs []int32         `json:"prompt_token_ids"`
		Logprobs  *struct {
			Content []wireEntry     `json:"content"`
			Top     json.RawMessage `json:"top_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
	Model     json.RawMessage `json:"model"`
	PromptIDs []int32         `json:"prompt_token_ids"`
	Usage     *struct {
		Generated int `json:"completion_tokens"`
	} `json:"usage"`
}

// parseAnswer reads an answer of /v1/chat/completions or /v1/completions. The error is an
// *unreadable.
func parseAnswer(body []byte) (answer, error) {
	var w wireAnswer
	if err := json.Unmarshal(body, &w); err != nil {
		return answer{}, &unreadable{"its answer cannot be read: " + line(err.Error())}
	}
	if len(w.Choices) == 0 {
		return answer{}, &unreadable{"its answer has no choice"}
	}
	c := &w.Choices[0]
	a := answer{ids: c.IDs, prompt: c.PromptIDs, text: c.Text, stopID: -1, tokens: -1}
	if len(a.prompt) == 0 {
		a.prompt = w.PromptIDs
	}
	_ = json.Unmarshal(w.Model, &a.model) // of another type it is none
	if c.Message != nil {
		if c.Message.Content != nil {
			a.text = *c.Message.Content
		}
		a.thinks = thoughtful(a.text, c.Message.Reasoning, c.Message.Thoughts)
	}
	if w.Usage != nil {
		a.tokens = max(w.Usage.Generated, 0)
	}
	id, told := idOf(c.Stop)
	if !told {
		id, _ = idOf(c.Matched)
	}
	a.stopID = id
	// A stop_reason that is a text is a stop string's.
	a.ended = c.Finish == "stop" && !bytes.HasPrefix(c.Stop, []byte(`"`))
	if l := c.Logprobs; l != nil {
		_ = json.Unmarshal(l.Top, &a.tops) // completions have them; without, nothing can be told of ties
		a.addEntries(l.Content)
	}
	return a, nil
}

// addEntries reads the entries of logprobs: where answers tell no ids, those that entries tell are theirs.
func (a *answer) addEntries(entries []wireEntry) {
	var ids []int32
	var tops []map[string]float64
	for _, e := range entries {
		s, listed := scored{logprob: e.Logprob}, map[string]float64{}
		for _, t := range e.Top {
			s.varied = s.varied || t.Logprob != e.Logprob
			listed[t.Token] = t.Logprob
		}
		a.scored, tops = append(a.scored, s), append(tops, listed)
		if id, ok := idOf(e.ID); ok {
			ids = append(ids, id)
		}
	}
	if len(a.tops) == 0 {
		a.tops = tops // llama.cpp's completions
	}
	if len(a.ids) == 0 && len(ids) == len(entries) && len(ids) > 0 {
		a.ids = ids
		a.unnamed = string(entries[len(ids)-1].Token) != `""`
	}
}

// thoughtful reports whether an answer begins with thoughts: in a member of their own, or in its text.
func thoughtful(text string, members ...json.RawMessage) bool {
	for _, m := range members {
		var thoughts string
		if json.Unmarshal(m, &thoughts) == nil && thoughts != "" {
			return true
		}
	}
	// Some templates begin the thoughts themselves, so that only their end is in the answer.
	return strings.HasPrefix(strings.TrimSpace(text), "<think>") || strings.Contains(text, "</think>")
}

// idOf reads a token id; −1 and false for what is none.
func idOf(raw json.RawMessage) (id int32, ok bool) {
	n, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil || n < 0 {
		return -1, false
	}
	return int32(n), true
}

// end returns the id that ended the answer, if it ended by itself and one can tell.
func (a *answer) end() (id int32, ok bool) {
	switch {
	case !a.ended:
		return 0, false
	case a.stopID >= 0:
		return a.stopID, true
	case len(a.ids) > 0 && !a.unnamed && (a.tokens < 0 || a.tokens == len(a.ids)): // else the last is left out
		id = a.ids[len(a.ids)-1]
		return id, id >= 0
	}
	return 0, false
}

// tie is how far apart the two most probable tokens may be, in nats, for an engine to
// choose either: one step of bfloat16 for logits of 16 to 32.
const tie = 0.125

// tied reports whether the two most probable tokens at a place are within tie.
func (a *answer) tied(at int) bool {
	if at < 0 || at >= len(a.tops) || len(a.tops[at]) < 2 {
		return false
	}
	first, second := math.Inf(-1), math.Inf(-1)
	for _, l := range a.tops[at] {
		if l > first {
			first, second = l, first
		} else if l > second {
			second = l
		}
	}
	return first-second <= tie
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
