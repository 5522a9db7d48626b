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
	Finish  string         `json:"finish_reason"`
	Stop    jsontext.Value `json:"stop_reason"`
	Matched jsontext.Value `json:"matched_stop"` // SGLang's stop_reason; a number may also be the id of an ordinary end
	More    jsontext.Value `json:",embed"`
}

// ReplyMessage is what a choice of a chat says.
type ReplyMessage struct {
	Role             string         `json:"role"`
	Content          string         `json:"content"`
	Reasoning        string         `json:"reasoning"`
	ReasoningContent string         `json:"reasoning_content"`
	Refusal          string         `json:"refusal"`
	Calls            []ReplyCall    `json:"tool_calls"`
	More             jsontext.Value `json:",embed"`
}

// ReplyCall is a call of a tool, or what a chunk adds to one.
type ReplyCall struct {
	Index    *uint16 `json:"index"`
	ID       string  `json:"id"`
	Type     string  `json:"type"`
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
func (r *ReplyUsage) AddTo(u *Usage) {
	r.Prompt.set(&u.Prompt)
	r.Completion.set(&u.Completion)
	r.Details.Cached.set(&u.Cached)
}

// Reasoning is how many tokens of the answer are thoughts, as far as it is told.
func (r *ReplyUsage) Reasoning() (n int) {
	r.Answer.Reasoning.set(&n)
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
