package messages

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// encoder writes one answer.
type encoder struct {
	clientapi.Sequence
	id      string
	model   string
	started bool
	blocks  int    // that were begun
	open    string // the type of the open block; "" for none
	argued  bool   // the open call has arguments
	called  bool   // tools are called
	refused bool
	silent  bool // what the model thinks is not told
}

var _ clientapi.Encoder = (*encoder)(nil)

// newEncoder returns an encoder; a silent one tells that the model thinks, but not what.
func newEncoder(id string, maxBytes int64, silent bool) clientapi.Encoder {
	return &encoder{Sequence: clientapi.NewSequence(maxBytes), id: id, silent: silent}
}

// signature is that of every block of thinking: clients send blocks back only with one. It proves nothing, as blocks that come
// back are dropped. It is base64, as Anthropic's are.
const signature = "Zm9yZWdhdGU="

// Whole implements [clientapi.Encoder].
func (e *encoder) Whole(dst []byte, a *clientapi.Part) ([]byte, error) {
	e.model = a.Model
	e.note(a)
	e.Last.Note(a)
	dst = e.head(dst)
	comma := ""
	if a.Reasoning != "" {
		said := a.Reasoning
		if e.silent {
			said = ""
		}
		dst = openai.AppendQuote(append(dst, `{"type":"thinking","thinking":`...), said)
		dst, comma = append(dst, `,"signature":"`+signature+`"}`...), ","
	}
	if text := a.Text + a.Refusal; text != "" {
		dst = openai.AppendQuote(append(dst, comma+`{"type":"text","text":`...), text)
		dst, comma = append(dst, '}'), ","
	}
	for i := range a.Calls {
		input, err := e.input(a.Calls[i].Arguments, i == len(a.Calls)-1)
		if err != nil {
			return nil, fmt.Errorf("tool call %d of the answer: %w", i, err)
		}
		dst = append(appendCall(append(dst, comma...), &a.Calls[i]), `,"input":`...)
		dst, comma = append(clientapi.AppendCompact(dst, input), '}'), ","
	}
	dst = e.reason(append(dst, "],"...))
	dst = e.usage(append(dst, ','))
	return append(e.extra(dst), '}'), nil
}

// input is the input of a call, an object. A client would run the tool with it: so arguments that are no object are an error
// and not an empty input, except where a limit cut the last call, because stop_reason tells the client.
func (e *encoder) input(arguments string, last bool) (json.RawMessage, error) {
	raw := json.RawMessage(strings.Trim(arguments, space))
	switch {
	case len(raw) > 0 && raw[0] == '{' && json.Valid(raw):
		return raw, nil
	case len(raw) == 0, last && e.Last.Finish == "length":
		return json.RawMessage("{}"), nil
	}
	return nil, errArguments
}

// space is JSON's white space.
const space = " \t\r\n"

// errArguments says that a tool cannot be called with what the engine has answered.
var errArguments = errors.New("its arguments are not a JSON object")

// head appends a message up to its content.
func (e *encoder) head(dst []byte) []byte {
	dst = openai.AppendQuote(append(dst, `{"id":`...), "msg_"+e.id)
	dst = openai.AppendQuote(append(dst, `,"type":"message","role":"assistant","model":`...), e.model)
	return append(dst, `,"content":[`...)
}

// appendCall appends a block of a call up to its input.
func appendCall(dst []byte, c *clientapi.CallPart) []byte {
	dst = openai.AppendQuote(append(dst, `{"type":"tool_use","id":`...), c.ID)
	return openai.AppendQuote(append(dst, `,"name":`...), c.Name)
}

// note keeps what the end of the answer needs besides.
func (e *encoder) note(p *clientapi.Part) {
	e.called = e.called || len(p.Calls) > 0
	e.refused = e.refused || p.Refusal != ""
}

// reason appends why the answer ended.
func (e *encoder) reason(dst []byte) []byte {
	why := "end_turn"
	switch {
	case e.refused || e.Last.Finish == "content_filter":
		why = "refusal"
	case e.Last.Finish == "length":
		why = "max_tokens"
	case e.Last.Stop != "":
		why = "stop_sequence"
	case e.called:
		why = "tool_use"
	}
	dst = append(dst, `"stop_reason":"`+why+`","stop_sequence":`...)
	if why == "stop_sequence" {
		return openai.AppendQuote(dst, e.Last.Stop)
	}
	return append(dst, "null"...)
}

// usage appends the tokens. Those of input are the ones that were not cached.
func (e *encoder) usage(dst []byte) []byte {
	var u clientapi.Usage
	if e.Last.Usage != nil {
		u = *e.Last.Usage
	}
	dst = strconv.AppendInt(append(dst, `"usage":{"input_tokens":`...), int64(max(0, u.Prompt-u.Cached)), 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens":`...), int64(u.Completion), 10)
	dst = strconv.AppendInt(append(dst, `,"cache_read_input_tokens":`...), int64(u.Cached), 10)
	return append(dst, `,"cache_creation_input_tokens":0}`...)
}

// extra appends the gateway's own member.
func (e *encoder) extra(dst []byte) []byte {
	if len(e.Last.Extra) == 0 {
		return dst
	}
	return append(append(dst, `,"foregate":`...), e.Last.Extra...)
}
