package openai

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Reply is a chunk, or an answer in one piece, as JSON. A member that is null counts as absent; any other that has no field
// here is in More.
type Reply struct {
	Created int64          `json:"created"`
	Model   string         `json:"model"`
	Choices []ReplyChoice  `json:"choices"`
	Usage   *ReplyUsage    `json:"usage"`
	Extra   jsontext.Value `json:"foregate"` // the gateway's own object
	More    jsontext.Value `json:",embed"`
}

// ReplyChoice is a choice of it.
type ReplyChoice struct {
	Index   *uint16        `json:"index"`
	Text    *string        `json:"text"`    // of a completion
	Delta   *ReplyMessage  `json:"delta"`   // of a chat's chunk
	Message *ReplyMessage  `json:"message"` // of a chat's answer in one piece
	Finish  *string        `json:"finish_reason"`
	Stop    jsontext.Value `json:"stop_reason"`
	Matched jsontext.Value `json:"matched_stop"` // SGLang's stop_reason; a number may also be the id of an ordinary end
	More    jsontext.Value `json:",embed"`
}

// ReplyMessage is what a choice of a chat says.
type ReplyMessage struct {
	Role             *string        `json:"role"`
	Content          *string        `json:"content"`
	Reasoning        *string        `json:"reasoning"`
	ReasoningContent *string        `json:"reasoning_content"`
	Refusal          *string        `json:"refusal"`
	Calls            []ReplyCall    `json:"tool_calls"`
	More             jsontext.Value `json:",embed"`
}

// ReplyCall is a call of a tool, or what a chunk adds to one.
type ReplyCall struct {
	Index    *uint16 `json:"index"`
	ID       string  `json:"id"`
	Type     *string `json:"type"`
	Function struct {
		Name      string         `json:"name"`
		Arguments string         `json:"arguments"`
		More      jsontext.Value `json:",embed"`
	} `json:"function"`
	More jsontext.Value `json:",embed"`
}

// callType is the type of all calls that are understood.
const callType = "function"

// ReplyUsage is the usage of an answer.
type ReplyUsage struct {
	Prompt     count `json:"prompt_tokens"`
	Completion count `json:"completion_tokens"`
	Details    struct {
		Cached count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Answer struct {
		Reasoning count `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// count is the JSON of a number of tokens.
type count struct{ jsontext.Value }

// maxTokens bounds an accepted count.
const maxTokens = 1 << 40

// set sets a number of tokens; what can be no count is ignored.
func (c count) set(into *int) {
	if n, err := strconv.Atoi(string(c.Value)); err == nil && n >= 0 && n <= maxTokens {
		*into = n
	}
}

// AddTo sets the counts that are told.
func (w *ReplyUsage) AddTo(u *Usage) {
	w.Prompt.set(&u.Prompt)
	w.Completion.set(&u.Completion)
	w.Details.Cached.set(&u.Cached)
}

// Reasoning is how many tokens of the answer are thoughts, as far as it is told.
func (w *ReplyUsage) Reasoning() (n int) {
	w.Answer.Reasoning.set(&n)
	return n
}

// ParseReply reads a chunk, or an answer in one piece.
func ParseReply(raw []byte) (*Reply, error) {
	s := &Reply{}
	return s, json.Unmarshal(raw, s, lenient)
}

// eachMember calls do with the names and values of an object, which is valid JSON.
func eachMember(object []byte, do func(name, value []byte)) {
	in := borrowCursor(object)
	defer in.release()
	for name := range in.object() {
		value, _ := in.value()
		do(name, value)
	}
}

// nothingElse gives up the answer if one of the further members of an object has a value, unless it is known to mean nothing.
func (a *Assembler) nothingElse(more []byte, known func(name []byte) bool) {
	if len(more) == 0 {
		return
	}
	eachMember(more, func(name, value []byte) {
		if string(value) != "null" && (known == nil || !known(name)) {
			a.foreign(string(name))
		}
	})
}

// choice adds one element of the choices.
func (a *Assembler) choice(in *ReplyChoice) {
	a.nothingElse(in.More, nil)
	if in.Index == nil {
		a.foreign("no index")
		return
	}
	c := a.choiceAt(int(*in.Index))
	if c == nil || a.err != nil {
		return
	}
	if c.Finish != "" || a.whole && c.seen {
		a.foreign("more of a choice that had ended")
		return
	}
	c.seen = true
	message, other := in.Delta, in.Message
	if a.whole {
		message, other = other, message
	}
	switch chat := a.kind == Chat; {
	case other != nil, chat != (message != nil), chat != (in.Text == nil):
		a.foreign("content of another form")
	case chat:
		a.message(c, message)
	default:
		a.grow(&c.Text, *in.Text)
	}
	if a.err == nil {
		a.ending(c, in)
	}
}

// grow appends text.
func (a *Assembler) grow(into *[]byte, text string) {
	if a.spend(len(text)) {
		*into = append(*into, text...)
	}
}

// ending records how a choice ended, if it has.
func (a *Assembler) ending(c *growing, in *ReplyChoice) {
	if in.Finish != nil {
		if c.Finish = *in.Finish; !finishes(c.Finish) {
			a.foreign("finish_reason")
			return
		}
	}
	a.stop(c, in.Stop)
	if len(in.Matched) > 0 && in.Matched.Kind() != '0' {
		a.stop(c, in.Matched)
	}
	if c.Finish == "" && c.Stop != nil {
		a.foreign("stop_reason")
	}
}

// message adds what a chunk adds to a choice, or the message of a whole answer.
func (a *Assembler) message(c *growing, m *ReplyMessage) {
	if a.nothingElse(m.More, nil); m.Refusal != nil {
		a.foreign("refusal")
	}
	if m.Role != nil && *m.Role != "assistant" {
		a.foreign("role")
	}
	if m.Content != nil {
		a.grow(&c.Text, *m.Content)
	}
	for i := range m.Calls {
		if a.err == nil {
			a.call(c, &m.Calls[i])
		}
	}
	if a.err == nil {
		a.reason(c, m.Reasoning, m.ReasoningContent)
	}
}

// reason appends reasoning. It may come under both names at once, from engine versions between the two; then
// both are written again. Different texts, or names that change, are not supported.
func (a *Assembler) reason(c *growing, newer, older *string) {
	text, as := "", asReasoning
	if newer != nil {
		text = *newer
	}
	if older != nil && *older != "" {
		if as = asReasoningContent; text != "" {
			as = asBoth
		}
		if as == asBoth && text != *older {
			a.foreign("reasoning of two texts")
		}
		text = *older
	}
	if text == "" {
		return
	}
	if c.As == "" {
		c.As = as
	}
	if c.As != as {
		a.foreign("reasoning of another name")
		return
	}
	a.grow(&c.Reasoning, text)
}

// call adds to a call, an existing one or the next. Those of a whole answer are in order, and have no index.
func (a *Assembler) call(c *growing, in *ReplyCall) {
	index := len(c.calls)
	if !a.whole {
		if index = -1; in.Index != nil {
			index = int(*in.Index)
		}
	} else if in.Index != nil && int(*in.Index) != index {
		index = -1
	}
	a.nothingElse(in.More, nil)
	a.nothingElse(in.Function.More, nil)
	if index < 0 || index > len(c.calls) || index >= maxCalls || in.Type != nil && *in.Type != callType {
		a.foreign("a call's index or type")
	}
	if a.err != nil {
		return
	}
	if index == len(c.calls) {
		if !a.spend(callSize) {
			return
		}
		c.calls = append(c.calls, growingCall{})
	}
	if k := &c.calls[index]; a.once(&k.id, in.ID) && a.once(&k.name, in.Function.Name) {
		a.grow(&k.arguments, in.Function.Arguments)
	}
}

// once stores a text that comes once, or is repeated unchanged.
func (a *Assembler) once(into *string, text string) bool {
	switch {
	case text == "" || text == *into:
		return true
	case *into != "":
		a.foreign("a call that changed")
		return false
	}
	*into = text
	return a.spend(len(text))
}

// understoodCalls returns the calls of a message in one piece, or false if some of them has more than a call has.
func understoodCalls(in []ReplyCall) (calls []Call, ok bool) {
	for i := range in {
		k := &in[i]
		if k.ID == "" || k.Function.Name == "" || k.Type != nil && *k.Type != callType || !harmlessMembers(k.More) || !harmlessMembers(k.Function.More) {
			return nil, false
		}
		calls = append(calls, Call{ID: k.ID, Type: callType, Name: k.Function.Name, Arguments: k.Function.Arguments})
	}
	return calls, len(in) <= maxCalls
}

// harmlessMembers reports whether no member of an object means anything.
func harmlessMembers(object []byte) (is bool) {
	is = true
	if len(object) > 0 {
		eachMember(object, func(_, value []byte) { is = is && harmless(value) })
	}
	return is
}
