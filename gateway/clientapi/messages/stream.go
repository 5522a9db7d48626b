package messages

import (
	"slices"
	"strconv"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// Part implements [clientapi.Encoder]. Blocks follow each other: the first call is written as it comes, and what belongs
// behind it is kept until the end.
func (e *encoder) Part(dst []byte, p *clientapi.Part) ([]byte, error) {
	dst = e.start(dst, p.Model)
	e.note(p)
	if len(e.calls) > 0 {
		e.late += p.Text + p.Refusal
	} else {
		dst = e.text(dst, "thinking", p.Reasoning)
		dst = e.text(dst, "text", p.Text+p.Refusal)
	}
	for i := range p.Calls {
		dst = e.call(dst, &p.Calls[i])
	}
	return dst, nil
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
	return e.delta(dst, kind+"_delta", kind, s)
}

// call appends a part of the first call, and keeps those of the others.
func (e *encoder) call(dst []byte, c *clientapi.CallPart) []byte {
	i := slices.IndexFunc(e.calls, func(k clientapi.CallPart) bool { return k.Index == c.Index })
	switch {
	case i > 0:
		e.calls[i].Arguments += c.Arguments
		return dst
	case i < 0:
		e.calls = append(e.calls, *c)
		if len(e.calls) > 1 {
			return dst
		}
		dst = e.beginCall(dst, c)
	}
	return e.delta(dst, "input_json_delta", "partial_json", c.Arguments)
}

// beginCall begins the block of a call.
func (e *encoder) beginCall(dst []byte, c *clientapi.CallPart) []byte {
	return e.begin(dst, "tool_use", append(appendCall(nil, c), `,"input":{}}`...))
}

// End implements [clientapi.Encoder].
func (e *encoder) End(dst []byte) ([]byte, error) {
	dst = e.start(dst, e.model)
	for i := 1; i < len(e.calls); i++ {
		dst = e.beginCall(dst, &e.calls[i])
		dst = e.delta(dst, "input_json_delta", "partial_json", e.calls[i].Arguments)
	}
	dst = e.stop(e.text(dst, "text", e.late))
	dst = e.reason(append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...))
	dst = e.extra(e.usage(append(dst, "},"...)))
	return append(dst, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...), nil
}

// Broken implements [clientapi.Encoder].
func (e *encoder) Broken(dst []byte, status int, b openai.ErrorBody) []byte {
	dst = API{}.ErrorBody(append(dst, "event: error\ndata: "...), status, b, e.id)
	return append(dst, "\n\n"...)
}
