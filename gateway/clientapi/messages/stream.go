package messages

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// Part implements [clientapi.Encoder]. Blocks follow each other: a call ends when the next one begins.
func (e *encoder) Part(dst []byte, p *clientapi.Part) ([]byte, error) {
	w := writer{e, e.start(dst, p.Model)}
	e.note(p)
	err := e.Add(p, &w)
	return w.dst, err
}

// start appends the first event, once.
func (e *encoder) start(dst []byte, model string) []byte {
	if e.started {
		return dst
	}
	e.started, e.model = true, model
	dst = e.head(append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...))
	dst = append(dst, `],"stop_reason":null,"stop_sequence":null,`...)
	return append(e.usage(dst), "}}\n\n"...)
}

// begin ends the open block and begins another; block is its object.
func (e *encoder) begin(dst []byte, kind string, block []byte) []byte {
	dst = e.stop(dst)
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	dst = append(strconv.AppendInt(dst, int64(e.blocks), 10), `,"content_block":`...)
	e.open = kind
	e.blocks++
	return append(append(dst, block...), "}\n\n"...)
}

// stop ends the open block.
func (e *encoder) stop(dst []byte) []byte {
	if e.open == "" {
		return dst
	}
	if e.open == "thinking" {
		dst = e.delta(dst, "signature_delta", "signature", signature)
	}
	e.open = ""
	dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	return append(strconv.AppendInt(dst, int64(e.blocks-1), 10), "}\n\n"...)
}

// delta appends a part of the open block.
func (e *encoder) delta(dst []byte, kind, member, s string) []byte {
	if s == "" {
		return dst
	}
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(e.blocks-1), 10)
	dst = append(dst, `,"delta":{"type":"`+kind+`","`+member+`":`...)
	return append(openai.AppendQuote(dst, s), "}}\n\n"...)
}

// text appends a part of the text or of the thinking.
func (e *encoder) text(dst []byte, kind, s string) []byte {
	if s == "" {
		return dst
	}
	if e.open != kind {
		block := `{"type":"text","text":""}`
		if kind == "thinking" {
			block = `{"type":"thinking","thinking":"","signature":""}`
		}
		dst = e.begin(dst, kind, []byte(block))
	}
	if e.silent && kind == "thinking" {
		return dst
	}
	return e.delta(dst, kind+"_delta", kind, s)
}

// writer writes blocks behind dst.
type writer struct {
	*encoder
	dst []byte
}

// Texts implements [clientapi.Writer].
func (w *writer) Texts(p *clientapi.Part) error {
	w.dst = w.text(w.dst, "thinking", p.Reasoning)
	w.dst = w.text(w.dst, "text", p.Text+p.Refusal)
	return nil
}

// BeginCall implements [clientapi.Writer].
func (w *writer) BeginCall(c *clientapi.CallPart) {
	w.dst = w.begin(w.dst, "tool_use", append(appendCall(nil, c), `,"input":{}}`...))
}

// MoreOfCall implements [clientapi.Writer]. White space at the beginning is left out: with nothing behind it, it is no JSON.
func (w *writer) MoreOfCall(arguments string) {
	if !w.argued {
		arguments = strings.TrimLeft(arguments, space)
	}
	w.argued = w.argued || arguments != ""
	w.dst = w.delta(w.dst, "input_json_delta", "partial_json", arguments)
}

// EndCall implements [clientapi.Writer].
func (w *writer) EndCall(c *clientapi.CallPart, last bool) error {
	if _, err := w.input(c.Arguments, last); err != nil {
		return fmt.Errorf("a tool call of the answer: %w", err)
	}
	w.argued = false
	w.dst = w.stop(w.dst)
	return nil
}

// End implements [clientapi.Encoder].
func (e *encoder) End(dst []byte) ([]byte, error) {
	w := writer{e, e.start(dst, e.model)}
	if err := e.Finish(&w); err != nil {
		return w.dst, err
	}
	dst = e.stop(w.dst)
	dst = e.reason(append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...))
	dst = e.extra(e.usage(append(dst, "},"...)))
	return append(dst, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...), nil
}

// Broken implements [clientapi.Encoder].
func (e *encoder) Broken(dst []byte, status int, b openai.ErrorBody) []byte {
	dst = API{}.ErrorBody(append(dst, "event: error\ndata: "...), status, b, e.id)
	return append(dst, "\n\n"...)
}
