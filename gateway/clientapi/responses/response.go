package responses

import (
	"strconv"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// echoed are the fields that an answer repeats, and what it says of those that a request lacks.
var echoed = []struct{ name, absent string }{
	{"instructions", "null"}, {"tools", "[]"}, {"tool_choice", `"auto"`}, {"temperature", "null"}, {"top_p", "null"}, {"max_output_tokens", "null"},
	{"parallel_tool_calls", "true"}, {"text", `{"format":{"type":"text"}}`}, {"metadata", "{}"}, {"reasoning", "null"},
	{"user", "null"}, {"safety_identifier", "null"},
}

// echoOf returns the members of an answer that repeat the request: all but the input, which may be large. Every response that
// a stream has, three of them, holds the same bytes.
func echoOf(in clientapi.Object) []byte {
	size := 1 << 9
	for _, f := range echoed {
		size += len(in.Raw(f.name))
	}
	dst := make([]byte, 0, size)
	for _, f := range echoed {
		dst = append(dst, `,"`+f.name+`":`...)
		if in.Has(f.name) {
			dst = clientapi.AppendCompact(dst, in.Raw(f.name))
		} else {
			dst = append(dst, f.absent...)
		}
	}
	return dst
}

// response appends the answer so far.
func (e *encoder) response(dst []byte, status string) []byte {
	dst = openai.AppendQuote(append(dst, `{"id":`...), "resp_"+e.id)
	dst = strconv.AppendInt(append(dst, `,"object":"response","created_at":`...), e.all.Created, 10)
	dst = append(dst, `,"status":"`+status+`","error":null,"incomplete_details":`...)
	switch {
	case status != incomplete:
		dst = append(dst, "null"...)
	case e.all.Finish == "content_filter":
		dst = append(dst, `{"reason":"content_filter"}`...)
	default:
		dst = append(dst, `{"reason":"max_output_tokens"}`...)
	}
	dst = openai.AppendQuote(append(dst, `,"model":`...), e.all.Model)
	dst = append(append(append(dst, `,"output":[`...), e.output...), `],"truncation":"disabled","store":`...)
	dst = append(strconv.AppendBool(dst, e.store), `,"previous_response_id":`...)
	dst = appendTextOrNull(dst, e.previous)
	if e.conversation != "" {
		dst = append(openai.AppendQuote(append(dst, `,"conversation":{"id":`...), e.conversation), '}')
	}
	dst = e.usage(append(append(dst, e.echo...), `,"usage":`...))
	if len(e.all.Extra) > 0 {
		dst = append(append(dst, `,"foregate":`...), e.all.Extra...)
	}
	return append(dst, '}')
}

// usage appends the tokens, or null while they are not known.
func (e *encoder) usage(dst []byte) []byte {
	u := e.all.Usage
	if u == nil {
		return append(dst, "null"...)
	}
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), int64(u.Prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), int64(u.Cached), 10)
	dst = strconv.AppendInt(append(dst, `},"output_tokens":`...), int64(u.Completion), 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), int64(u.Reasoning), 10)
	dst = strconv.AppendInt(append(dst, `},"total_tokens":`...), int64(u.Prompt)+int64(u.Completion), 10)
	return append(dst, '}')
}
