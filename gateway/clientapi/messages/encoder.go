package messages

import (
	"encoding/json"
	"strconv"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// encoder writes one answer.
type encoder struct {
	id      string
	model   string
	started bool
	blocks  int    // that were begun
	open    string // the type of the open block; "" for none
	calls   clientapi.Calls
	late    clientapi.Late
	called  bool // tools are called
	refused bool
	last    clientapi.Part // Finish, Stop, Usage and Extra so far
}

var _ clientapi.Encoder = (*encoder)(nil)

// Whole implements [clientapi.Encoder].
func (e *encoder) Whole(dst []byte, a *clientapi.Part) ([]byte, error) {
	e.model = a.Model
	e.note(a)
	dst = e.head(dst)
	comma := ""
	if a.Reasoning != "" {
		dst = openai.AppendQuote(append(dst, `{"type":"thinking","thinking":`...), a.Reasoning)
		dst, comma = append(dst, `,"signature":""}`...), ","
	}
	if text := a.Text + a.Refusal; text != "" {
		dst = openai.AppendQuote(append(dst, comma+`{"type":"text","text":`...), text)
		dst, comma = append(dst, '}'), ","
	}
	for i := range a.Calls {
		dst = append(appendCall(append(dst, comma...), &a.Calls[i]), `,"input":`...)
		if args := []byte(a.Calls[i].Arguments); json.Valid(args) && isObject(args) {
			dst = clientapi.AppendCompact(dst, args)
		} else {
			dst = append(dst, "{}"...) // cut by a limit: stop_reason says so
		}
		dst, comma = append(dst, '}'), ","
	}
	dst = e.reason(append(dst, "],"...))
	dst = e.usage(append(dst, ','))
	return append(e.extra(dst), '}'), nil
}

// isObject reports whether valid JSON is an object.
func isObject(raw []byte) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal(raw, &o) == nil && o != nil
}

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

// note keeps what the end of the answer needs.
func (e *encoder) note(p *clientapi.Part) {
	if p.Finish != "" {
		e.last.Finish, e.last.Stop = p.Finish, p.Stop
	}
	if p.Usage != nil {
		u := *p.Usage
		e.last.Usage = &u
	}
	if len(p.Extra) > 0 {
		e.last.Extra = append(json.RawMessage(nil), p.Extra...)
	}
	e.called = e.called || len(p.Calls) > 0
	e.refused = e.refused || p.Refusal != ""
}

// reason appends why the answer ended.
func (e *encoder) reason(dst []byte) []byte {
	why := "end_turn"
	switch {
	case e.refused || e.last.Finish == "content_filter":
		why = "refusal"
	case e.last.Finish == "length":
		why = "max_tokens"
	case e.last.Stop != "":
		why = "stop_sequence"
	case e.called:
		why = "tool_use"
	}
	dst = append(dst, `"stop_reason":"`+why+`","stop_sequence":`...)
	if why == "stop_sequence" {
		return openai.AppendQuote(dst, e.last.Stop)
	}
	return append(dst, "null"...)
}

// usage appends the tokens. Those of input are the ones that were not cached.
func (e *encoder) usage(dst []byte) []byte {
	var u clientapi.Usage
	if e.last.Usage != nil {
		u = *e.last.Usage
	}
	dst = strconv.AppendInt(append(dst, `"usage":{"input_tokens":`...), int64(max(0, u.Prompt-u.Cached)), 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens":`...), int64(u.Completion), 10)
	dst = strconv.AppendInt(append(dst, `,"cache_read_input_tokens":`...), int64(u.Cached), 10)
	return append(dst, `,"cache_creation_input_tokens":0}`...)
}

// extra appends the gateway's own member.
func (e *encoder) extra(dst []byte) []byte {
	if len(e.last.Extra) == 0 {
		return dst
	}
	return append(append(dst, `,"foregate":`...), e.last.Extra...)
}
