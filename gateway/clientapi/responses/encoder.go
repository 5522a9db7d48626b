package responses

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// encoder writes one answer. Items come one after the other: a call ends when the next one begins.
type encoder struct {
	id    string
	echo  object // fields of the request that the answer repeats
	seq   int
	began bool
	all   clientapi.Part // the answer so far, without its text and calls
	late  clientapi.Late
	open  *item // the item of text that the stream is in
	calls clientapi.Calls
	done  []map[string]any
}

// item is an output item of text.
type item struct {
	kind, id string
	text     []byte
}

// Whole implements [clientapi.Encoder].
func (e *encoder) Whole(dst []byte, a *clientapi.Part) ([]byte, error) {
	for i := range a.Calls {
		a.Calls[i].Index = i // whole answers have none
	}
	var events []byte
	events, err := e.Part(events, a)
	if err == nil {
		_, err = e.End(events)
	}
	if err != nil {
		return dst, err
	}
	body, err := encode(e.response(e.status()))
	return append(dst, body...), err
}

// Part implements [clientapi.Encoder].
func (e *encoder) Part(dst []byte, p *clientapi.Part) ([]byte, error) {
	dst = e.begin(dst, p)
	if e.calls.Any() {
		e.late.Add(p)
	} else {
		dst = e.texts(dst, p)
	}
	w := callWriter{e, dst, "completed"}
	for i := range p.Calls {
		if err := e.calls.Add(&p.Calls[i], &w); err != nil {
			return w.dst, err
		}
	}
	dst = w.dst
	if p.Finish != "" {
		e.all.Finish = p.Finish
	}
	if p.Usage != nil {
		u := *p.Usage
		e.all.Usage = &u
	}
	if len(p.Extra) > 0 {
		e.all.Extra = slices.Clone(p.Extra)
	}
	return dst, nil
}

// texts appends what a part says in text.
func (e *encoder) texts(dst []byte, p *clientapi.Part) []byte {
	dst = e.delta(dst, "reasoning_text", p.Reasoning)
	dst = e.delta(dst, "output_text", p.Text)
	return e.delta(dst, "refusal", p.Refusal)
}

// callWriter writes calls as items behind dst.
type callWriter struct {
	*encoder
	dst    []byte
	status string // of an item that ends
}

// BeginCall implements [clientapi.CallWriter].
func (w *callWriter) BeginCall(c *clientapi.CallPart) {
	w.dst = w.close(w.dst, "completed")
	w.dst = w.event(w.dst, "response.output_item.added", map[string]any{"output_index": len(w.done), "item": w.item(c, "in_progress")})
}

// item is the item of a call.
func (w *callWriter) item(c *clientapi.CallPart, status string) map[string]any {
	arguments := c.Arguments
	if status == "in_progress" {
		arguments = ""
	}
	return map[string]any{"type": "function_call", "id": w.itemID(), "call_id": c.ID, "name": c.Name, "arguments": arguments, "status": status}
}

// itemID is the id of the item that is written.
func (w *callWriter) itemID() string { return fmt.Sprintf("fc_%s_%d", w.id, len(w.done)) }

// MoreOfCall implements [clientapi.CallWriter].
func (w *callWriter) MoreOfCall(arguments string) {
	w.dst = w.event(w.dst, "response.function_call_arguments.delta", map[string]any{
		"item_id": w.itemID(), "output_index": len(w.done), "delta": arguments,
	})
}

// EndCall implements [clientapi.CallWriter].
func (w *callWriter) EndCall(c *clientapi.CallPart) {
	w.dst = w.event(w.dst, "response.function_call_arguments.done", map[string]any{
		"item_id": w.itemID(), "output_index": len(w.done), "arguments": c.Arguments, "name": c.Name,
	})
	o := w.item(c, w.status)
	w.dst = w.event(w.dst, "response.output_item.done", map[string]any{"output_index": len(w.done), "item": o})
	w.done = append(w.done, o)
}

func (e *encoder) begin(dst []byte, p *clientapi.Part) []byte {
	if e.began {
		return dst
	}
	e.began, e.all.Created, e.all.Model = true, p.Created, p.Model
	for _, name := range []string{"response.created", "response.in_progress"} {
		dst = e.event(dst, name, map[string]any{"response": e.response("in_progress")})
	}
	return dst
}

func (e *encoder) event(dst []byte, name string, m map[string]any) []byte {
	m["type"], m["sequence_number"] = name, e.seq
	e.seq++
	data, _ := encode(m) // made of strings, numbers and JSON that was read
	return fmt.Appendf(dst, "event: %s\ndata: %s\n\n", name, data)
}

// part is the content part of a text item.
func (i *item) part() map[string]any {
	m := map[string]any{"type": i.kind}
	switch i.kind {
	case "refusal":
		m["refusal"] = string(i.text)
	case "output_text":
		m["annotations"], m["logprobs"] = []any{}, []any{}
		fallthrough
	default:
		m["text"] = string(i.text)
	}
	return m
}

func (i *item) object(status string, content []any) map[string]any {
	m := map[string]any{"id": i.id, "status": status, "content": content}
	if i.kind == "reasoning_text" {
		m["type"], m["summary"] = "reasoning", []any{}
	} else {
		m["type"], m["role"] = "message", "assistant"
	}
	return m
}

// delta appends text to the open item, or opens one of its kind.
func (e *encoder) delta(dst []byte, kind, text string) []byte {
	if text == "" {
		return dst
	}
	if e.open == nil || e.open.kind != kind {
		dst = e.close(dst, "completed")
		prefix := "msg_"
		if kind == "reasoning_text" {
			prefix = "rs_"
		}
		e.open = &item{kind: kind, id: fmt.Sprintf("%s%s_%d", prefix, e.id, len(e.done))}
		dst = e.event(dst, "response.output_item.added", map[string]any{"output_index": len(e.done), "item": e.open.object("in_progress", []any{})})
		dst = e.event(dst, "response.content_part.added", e.at(map[string]any{"part": e.open.part()}))
	}
	e.open.text = append(e.open.text, text...)
	m := e.at(map[string]any{"delta": text})
	if kind == "output_text" {
		m["logprobs"] = []any{}
	}
	return e.event(dst, "response."+kind+".delta", m)
}

func (e *encoder) at(m map[string]any) map[string]any {
	m["item_id"], m["output_index"], m["content_index"] = e.open.id, len(e.done), 0
	return m
}

func (e *encoder) close(dst []byte, status string) []byte {
	if e.open == nil {
		return dst
	}
	part := e.open.part()
	m := e.at(maps.Clone(part))
	delete(m, "annotations")
	dst = e.event(dst, "response."+e.open.kind+".done", m)
	dst = e.event(dst, "response.content_part.done", e.at(map[string]any{"part": part}))
	o := e.open.object(status, []any{part})
	dst = e.event(dst, "response.output_item.done", map[string]any{"output_index": len(e.done), "item": o})
	e.done, e.open = append(e.done, o), nil
	return dst
}

func (e *encoder) status() string {
	if e.all.Finish == "length" || e.all.Finish == "content_filter" {
		return "incomplete"
	}
	return "completed"
}

// End implements [clientapi.Encoder].
func (e *encoder) End(dst []byte) ([]byte, error) {
	dst = e.begin(dst, &clientapi.Part{})
	status := e.status()
	w := callWriter{e, dst, status}
	e.calls.End(&w)
	dst = e.close(e.texts(w.dst, e.late.Part()), status)
	return e.event(dst, "response."+status, map[string]any{"response": e.response(status)}), nil
}

// Broken implements [clientapi.Encoder]. OpenAI's clients see an error by the member "error".
func (e *encoder) Broken(dst []byte, _ int, b openai.ErrorBody) []byte {
	return e.event(dst, "error", map[string]any{"code": orNull(b.Code), "message": b.Message, "param": orNull(b.Param),
		"error": map[string]any{"message": b.Message, "type": b.Type, "code": orNull(b.Code)}})
}

// orNull is s, or null for "".
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// defaults are the echoed fields, as they are when a request lacks them.
var defaults = object{
	"instructions": nil, "tools": json.RawMessage("[]"), "tool_choice": json.RawMessage(`"auto"`), "temperature": nil, "top_p": nil,
	"max_output_tokens": nil, "parallel_tool_calls": json.RawMessage("true"), "text": json.RawMessage(`{"format":{"type":"text"}}`),
	"metadata": json.RawMessage("{}"), "reasoning": nil, "truncation": json.RawMessage(`"disabled"`), "user": nil,
}

func (e *encoder) response(status string) map[string]any {
	m := map[string]any{"id": "resp_" + e.id, "object": "response", "created_at": e.all.Created, "status": status, "error": nil,
		"model": e.all.Model, "output": append([]map[string]any{}, e.done...), "store": false, "previous_response_id": nil, "incomplete_details": nil, "usage": nil}
	for name, v := range defaults {
		if given, ok := e.echo[name]; ok {
			v = given
		}
		m[name] = v
	}
	if status == "incomplete" {
		reason := "max_output_tokens"
		if e.all.Finish == "content_filter" {
			reason = "content_filter"
		}
		m["incomplete_details"] = map[string]any{"reason": reason}
	}
	if u := e.all.Usage; u != nil {
		m["usage"] = map[string]any{"input_tokens": u.Prompt, "input_tokens_details": map[string]int{"cached_tokens": u.Cached}, "output_tokens": u.Completion,
			"output_tokens_details": map[string]int{"reasoning_tokens": u.Reasoning}, "total_tokens": u.Prompt + u.Completion}
	}
	if len(e.all.Extra) > 0 {
		m["foregate"] = e.all.Extra
	}
	return m
}
