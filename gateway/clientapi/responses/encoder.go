package responses

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// form is what an answer has of its request.
type form struct {
	echo    []byte              // the members that repeat it
	names   map[string]toolName // of its tools, by their names in the chat
	summary bool                // reasoning is told as its summary

	state    State // nil keeps nothing
	store    bool  // the answer is to be kept; at its end, whether it is
	previous string
	added    []json.RawMessage // the items of the input
}

// encoder writes one answer. Items come one after the other: a call ends when the next one begins.
type encoder struct {
	form
	clientapi.Sequence
	id     string
	seq    int
	began  bool
	open   *textItem // that the stream is in; nil for none
	custom bool      // the call that the stream is in is one of a custom tool
	items  int       // output items that have ended
	output []byte    // these, as JSON, with a comma between them
}

var _ clientapi.Encoder = (*encoder)(nil)

func newEncoder(id string, f form, maxBytes int64) *encoder {
	return &encoder{id: id, form: f, Sequence: clientapi.NewSequence(maxBytes)}
}

// Whole implements [clientapi.Encoder].
func (e *encoder) Whole(dst []byte, a *clientapi.Part) ([]byte, error) {
	e.begun(a)
	e.Last.Note(a)
	var texts []textItem
	for _, t := range []textItem{{kind: e.reasoning(), text: []byte(a.Reasoning)}, {kind: outputText, text: []byte(a.Text)}, {kind: refusal, text: []byte(a.Refusal)}} {
		if len(t.text) > 0 {
			texts = append(texts, t)
		}
	}
	status, last := e.status(), len(texts)+len(a.Calls)-1
	of := func(item int) string {
		if item == last {
			return status
		}
		return completed
	}
	for _, t := range texts {
		t.id = e.itemID(t.kind)
		e.ended(t.appendTo(nil, of(e.items), t.appendPart(nil)))
	}
	for i := range a.Calls {
		c := e.callOf(&a.Calls[i])
		e.ended(c.appendTo(nil, of(e.items), true))
	}
	dst = slices.Grow(dst, len(e.output)+len(e.echo)+1<<10)
	return e.keep(dst, status), nil
}

// Part implements [clientapi.Encoder].
func (e *encoder) Part(dst []byte, p *clientapi.Part) ([]byte, error) {
	w := writer{e, e.begin(dst, p), completed}
	err := e.Add(p, &w)
	return w.dst, err
}

// begun keeps what the beginning of an answer says of all of it.
func (e *encoder) begun(p *clientapi.Part) {
	e.began, e.Last.Created, e.Last.Model = true, p.Created, p.Model
}

// begin appends the first events, once.
func (e *encoder) begin(dst []byte, p *clientapi.Part) []byte {
	if e.began {
		return dst
	}
	e.begun(p)
	for _, name := range []string{"response.created", "response.in_progress"} {
		dst = append(e.response(append(e.event(dst, name), `,"response":`...), inProgress), eventEnd...)
	}
	return dst
}

// eventEnd ends what [encoder.event] has begun.
const eventEnd = "}\n\n"

// event begins an event: its object goes on.
func (e *encoder) event(dst []byte, name string) []byte {
	dst = append(dst, "event: "+name+"\ndata: {\"type\":\""+name+"\",\"sequence_number\":"...)
	e.seq++
	return strconv.AppendInt(dst, int64(e.seq-1), 10)
}

// The statuses of items and answers.
const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
)

// status is that of the answer at its end.
func (e *encoder) status() string {
	if e.Last.Finish == "length" || e.Last.Finish == "content_filter" {
		return incomplete
	}
	return completed
}

// End implements [clientapi.Encoder].
func (e *encoder) End(dst []byte) ([]byte, error) {
	status := e.status()
	w := writer{e, e.begin(dst, &clientapi.Part{}), completed}
	if !e.KeepsText() {
		w.status = status
	}
	if err := e.Finish(&w); err != nil {
		return w.dst, err
	}
	dst = e.close(w.dst, status)
	dst = append(e.event(dst, "response."+status), `,"response":`...)
	return append(e.keep(dst, status), eventEnd...), nil
}

// Broken implements [clientapi.Encoder]. OpenAI's clients see an error by the member "error".
func (e *encoder) Broken(dst []byte, _ int, b openai.ErrorBody) []byte {
	dst = appendTextOrNull(append(e.event(dst, "error"), `,"code":`...), b.Code)
	dst = openai.AppendQuote(append(dst, `,"message":`...), b.Message)
	dst = appendTextOrNull(append(dst, `,"param":`...), b.Param)
	dst = openai.AppendQuote(append(dst, `,"error":{"message":`...), b.Message)
	dst = openai.AppendQuote(append(dst, `,"type":`...), b.Type)
	dst = appendTextOrNull(append(dst, `,"code":`...), b.Code)
	return append(append(dst, '}'), eventEnd...)
}

// appendTextOrNull appends a string, or null for "".
func appendTextOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return openai.AppendQuote(dst, s)
}

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
	dst = strconv.AppendInt(append(dst, `,"object":"response","created_at":`...), e.Last.Created, 10)
	dst = append(dst, `,"status":"`+status+`","error":null,"incomplete_details":`...)
	switch {
	case status != incomplete:
		dst = append(dst, "null"...)
	case e.Last.Finish == "content_filter":
		dst = append(dst, `{"reason":"content_filter"}`...)
	default:
		dst = append(dst, `{"reason":"max_output_tokens"}`...)
	}
	dst = openai.AppendQuote(append(dst, `,"model":`...), e.Last.Model)
	dst = append(append(append(dst, `,"output":[`...), e.output...), `],"truncation":"disabled","store":`...)
	dst = append(strconv.AppendBool(dst, e.store), `,"previous_response_id":`...)
	dst = appendTextOrNull(dst, e.previous)
	dst = e.usage(append(append(dst, e.echo...), `,"usage":`...))
	if len(e.Last.Extra) > 0 {
		dst = append(append(dst, `,"foregate":`...), e.Last.Extra...)
	}
	return append(dst, '}')
}

// usage appends the tokens, or null while they are not known.
func (e *encoder) usage(dst []byte) []byte {
	u := e.Last.Usage
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
