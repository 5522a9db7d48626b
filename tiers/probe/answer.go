package probe

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
)

// answer is what is read of an engine's JSON answer: its first choice.
type answer struct {
	prompt  []int32 // ids of the prompt; nil where they are not told
	ids     []int32 // generated; nil where they are not told
	text    string
	ended   bool    // by itself: not by a limit, nor by a stop string
	stopID  int32   // the id that it says ended it; −1 where it does not say
	tokens  int     // generated, by its usage; −1 where it is not told
	first   *chosen // the first token's logprobs; nil where there are none
	tops    []map[string]float64
	all     []chosen // the logprobs of all tokens of a chat, and of completions where they have a chat's shape
	prompts int      // tokens of the prompt, by its usage; 0 where it is not told
	model   string   // that it says it is from
	thought bool     // it has thoughts in front of the answer, or nothing else
}

// chosen is a generated token's logprobs.
type chosen struct {
	bytes   bool // it has the token's bytes
	logprob float64
	listed  int // alternatives
	tops    map[string]float64
}

// wireAnswer is an answer of /v1/chat/completions or /v1/completions.
type wireAnswer struct {
	Choices []struct {
		Message *struct {
			Content   *string `json:"content"`
			Reasoning any     `json:"reasoning"`         // Ollama's, and vLLM's
			Thoughts  any     `json:"reasoning_content"` // of the others
		} `json:"message"`
		Text      string          `json:"text"`
		Finish    string          `json:"finish_reason"`
		Stop      json.RawMessage `json:"stop_reason"`
		Matched   json.RawMessage `json:"matched_stop"` // SGLang's
		IDs       []int32         `json:"token_ids"`
		PromptIDs []int32         `json:"prompt_token_ids"`
		Logprobs  *struct {
			Content []struct {
				ID      json.RawMessage `json:"id"` // llama.cpp's
				Bytes   []int           `json:"bytes"`
				Logprob float64         `json:"logprob"`
				Top     []struct {
					Token   string  `json:"token"`
					Logprob float64 `json:"logprob"`
				} `json:"top_logprobs"`
			} `json:"content"`
			Top json.RawMessage `json:"top_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
	PromptIDs []int32 `json:"prompt_token_ids"`
	Model     any     `json:"model"`
	Usage     *struct {
		Prompt    int `json:"prompt_tokens"`
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
	if m := c.Message; m != nil {
		if m.Content != nil {
			a.text = *m.Content
		}
		a.thought = thoughts(m.Reasoning) || thoughts(m.Thoughts) || strings.HasPrefix(strings.TrimSpace(a.text), "<think>")
	}
	a.model, _ = w.Model.(string)
	if w.Usage != nil {
		a.prompts, a.tokens = max(w.Usage.Prompt, 0), max(w.Usage.Generated, 0)
	}
	id, told := idOf(c.Stop)
	if !told {
		id, _ = idOf(c.Matched)
	}
	a.stopID = id
	// A stop_reason that is a text is a stop string's.
	a.ended = c.Finish == "stop" && !bytes.HasPrefix(c.Stop, []byte(`"`))
	a.addLogprobs(&w)
	return a, nil
}

// thoughts reports whether a member of a message is a text that is not empty.
func thoughts(member any) bool {
	text, _ := member.(string)
	return strings.TrimSpace(text) != ""
}

// addLogprobs reads the logprobs of the first choice, and ids that their entries have.
func (a *answer) addLogprobs(w *wireAnswer) {
	l := w.Choices[0].Logprobs
	if l == nil {
		return
	}
	_ = json.Unmarshal(l.Top, &a.tops) // completions have them; without, nothing can be told of ties
	var ids []int32
	for i := range l.Content {
		t := &l.Content[i]
		one := chosen{bytes: t.Bytes != nil, logprob: t.Logprob, listed: len(t.Top), tops: map[string]float64{}}
		for _, alternative := range t.Top {
			one.tops[alternative.Token] = alternative.Logprob
		}
		a.all = append(a.all, one)
		if id, told := idOf(t.ID); told {
			ids = append(ids, id)
		}
	}
	if len(a.all) == 0 {
		return
	}
	a.first = &a.all[0]
	if len(a.ids) == 0 && len(ids) == len(a.all) {
		a.ids = ids
	}
	if len(a.tops) == 0 {
		for i := range a.all {
			a.tops = append(a.tops, a.all[i].tops)
		}
	}
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
	case len(a.ids) > 0 && (a.tokens < 0 || a.tokens == len(a.ids)): // else the last is left out
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

// parseText reads a text out of an answer: the named member of an object. The error is an *unreadable.
func parseText(body []byte, path, member string) (string, error) {
	var w map[string]json.RawMessage
	if err := json.Unmarshal(body, &w); err != nil {
		return "", &unreadable{"the answer of " + path + " cannot be read: " + line(err.Error())}
	}
	var text *string
	if json.Unmarshal(w[member], &text) != nil || text == nil {
		return "", &unreadable{"the answer of " + path + " has no text"}
	}
	return *text, nil
}

// parseIDs reads an answer of /tokenize. The error is an *unreadable.
func parseIDs(body []byte) ([]int32, error) {
	var w struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, &unreadable{"the answer of /tokenize cannot be read: " + line(err.Error())}
	}
	if len(w.Tokens) == 0 {
		return nil, &unreadable{"/tokenize told no ids"}
	}
	return w.Tokens, nil
}

// parseGenerated reads the ids of an answer of SGLang's /generate. The error is an
// *unreadable.
func parseGenerated(body []byte) (answer, error) {
	var w struct {
		Text string  `json:"text"`
		IDs  []int32 `json:"output_ids"`
		Meta struct {
			Prompt    int             `json:"prompt_tokens"`
			Generated int             `json:"completion_tokens"`
			Finish    json.RawMessage `json:"finish_reason"`
		} `json:"meta_info"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return answer{}, &unreadable{"the answer of /generate cannot be read: " + line(err.Error())}
	}
	if len(w.IDs) == 0 {
		return answer{}, &unreadable{"/generate told no ids"}
	}
	var finish struct {
		Type    string          `json:"type"`
		Matched json.RawMessage `json:"matched"`
	}
	_ = json.Unmarshal(w.Meta.Finish, &finish) // it may be null, or a text: then it did not end by an id
	a := answer{ids: w.IDs, text: w.Text, tokens: max(w.Meta.Generated, 0), prompts: max(w.Meta.Prompt, 0)}
	a.stopID, a.ended = idOf(finish.Matched)
	a.ended = a.ended && finish.Type == "stop"
	return a, nil
}

// modelCard is what /v1/models tells of one model.
type modelCard struct {
	ID     string `json:"id"`
	Root   string `json:"root"`
	Parent string `json:"parent"`
	Window int    `json:"max_model_len"`
}

// parseModels reads the card of a model from an answer of /v1/models. The error is an
// *unreadable.
func parseModels(body []byte, model string, kind dialect.Kind) (modelCard, error) {
	var w struct {
		Data []struct {
			modelCard
			Aliases any `json:"aliases"` // llama.cpp's
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return modelCard{}, &unreadable{"the answer of /v1/models cannot be read: " + line(err.Error())}
	}
	for i := range w.Data {
		if names(kind, w.Data[i].ID, model) || kind == dialect.LlamaCpp && listed(w.Data[i].Aliases, model) {
			return w.Data[i].modelCard, nil
		}
	}
	return modelCard{}, &unreadable{"/v1/models does not list " + line(strconv.Quote(model))}
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
