package openai

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Framer writes the frames and bodies of one answer, with the same id, time and model from the first byte to
// the last, from whichever backend the text came.
type Framer struct {
	kind    Kind
	frames  []byte // the beginning of every frame of a stream, up to the choices; nil before the first
	id      string
	created int64
	model   string
}

// NewFramer returns a framer for an answer to a request of the given kind. id is the request's, without the
// API's prefix; created is in Unix seconds.
func NewFramer(kind Kind, id, model string, created int64) *Framer {
	f := &Framer{kind: kind, created: created, model: model}
	f.id = "chatcmpl-" + id
	if kind == Completion {
		f.id = "cmpl-" + id
	}
	return f
}

// NewFramerAs is NewFramer for the rest of an answer whose beginning another framer wrote; id is the answer's
// whole id.
func NewFramerAs(kind Kind, id, model string, created int64) *Framer {
	return &Framer{kind: kind, id: id, created: created, model: model}
}

// prefix is the beginning of every frame, up to the choices.
func (f *Framer) prefix() []byte {
	if f.frames == nil {
		f.frames = f.head([]byte("data: "), "chat.completion.chunk")
	}
	return f.frames
}

// head appends the beginning of an object, up to its choices. chat is what a chat's is called.
func (f *Framer) head(dst []byte, chat string) []byte {
	object := chat
	if f.kind == Completion {
		object = "text_completion"
	}
	dst = append(dst, `{"id":`...)
	dst = AppendQuote(dst, f.id)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, f.created, 10)
	dst = append(dst, `,"model":`...)
	dst = AppendQuote(dst, f.model)
	return append(dst, `,"choices":[`...)
}

// Role appends the frame that opens a chat answer; completions have none.
func (f *Framer) Role(dst []byte) []byte {
	if f.kind == Completion {
		return dst
	}
	return f.role(dst, 0)
}

// role appends the frame that opens a choice of a chat.
func (f *Framer) role(dst []byte, index int) []byte {
	return append(f.open(dst, index), `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
}

// goesOn ends a frame that is not a choice's last.
func goesOn(dst []byte) []byte {
	return append(dst, `,"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
}

// Text appends a frame with a piece of the answer.
func (f *Framer) Text(dst, text []byte) []byte {
	return goesOn(f.choice(dst, 0, text))
}

// UsageSoFar adds the usage so far to the last frame in dst.
func (f *Framer) UsageSoFar(dst []byte, u Usage) []byte {
	dst = append(bytes.TrimSuffix(dst, []byte("}\n\n")), `,"usage":`...)
	return append(appendUsage(dst, u), "}}\n\n"...)
}

// open begins a frame of a choice.
func (f *Framer) open(dst []byte, index int) []byte {
	dst = append(append(dst, f.prefix()...), `{"index":`...)
	return strconv.AppendInt(dst, int64(index), 10)
}

func (f *Framer) choice(dst []byte, index int, text []byte) []byte {
	dst = f.open(dst, index)
	if f.kind == Completion {
		return AppendQuote(append(dst, `,"text":`...), text)
	}
	dst = append(dst, `,"delta":{`...)
	if len(text) > 0 {
		dst = AppendQuote(append(dst, `"content":`...), text)
	}
	return append(dst, '}')
}

// Ending is how an answer ended.
type Ending struct {
	Finish string // finish_reason
	Stop   []byte // stop_reason as raw JSON; nil is null
	Usage  Usage
	Extra  []byte // the object "foregate" as raw JSON
}

// Finish appends the frames that end a stream: the last text with its finish_reason, the usage frame if the
// client asked for it, and the terminator. The extra object is part of the last frame.
func (f *Framer) Finish(dst, text []byte, e Ending, withUsage bool) []byte {
	dst = appendFinish(f.choice(dst, 0, text), e.Finish, e.Stop)
	return f.done(append(dst, "}]"...), e, withUsage)
}

// UsageChunk is the JSON of the chunk with the usage.
func (f *Framer) UsageChunk(u Usage) []byte {
	dst := append(slices.Clone(bytes.TrimPrefix(f.prefix(), []byte("data: "))), `],"usage":`...)
	return append(appendUsage(dst, u), "}}"...)
}

// done ends a stream after the choices of its last frame before the usage frame.
func (f *Framer) done(dst []byte, e Ending, withUsage bool) []byte {
	if withUsage {
		dst = append(dst, "}\n\n"...)
		dst = append(dst, f.prefix()...)
		dst = append(dst, `],"usage":`...)
		dst = append(appendUsage(dst, e.Usage), '}')
	}
	dst = appendExtra(dst, e.Extra)
	return append(dst, "}\n\ndata: "+Done+"\n\n"...)
}

// appendFinish says how a choice ended.
func appendFinish(dst []byte, finish string, stop []byte) []byte {
	dst = append(dst, `,"logprobs":null,"finish_reason":`...)
	dst = AppendQuote(dst, finish)
	dst = append(dst, `,"stop_reason":`...)
	if len(stop) == 0 {
		stop = null
	}
	return append(dst, stop...)
}

// Body appends the whole answer as one JSON object.
func (f *Framer) Body(dst, text []byte, e Ending) []byte {
	return f.Whole(dst, &Whole{Choices: []Choice{{Text: text, Finish: e.Finish, Stop: e.Stop}}, Usage: e.Usage}, e.Extra)
}

// appendUsage appends the usage, without its closing brace.
func appendUsage(dst []byte, u Usage) []byte {
	dst = strconv.AppendInt(append(dst, `{"prompt_tokens":`...), int64(u.Prompt), 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), int64(u.Completion), 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), int64(u.Prompt+u.Completion), 10)
	if u.Cached > 0 {
		dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
		dst = append(strconv.AppendInt(dst, int64(u.Cached), 10), '}')
	}
	return dst
}

func appendExtra(dst, extra []byte) []byte {
	if len(extra) == 0 {
		return dst
	}
	return append(append(dst, `,"foregate":`...), extra...)
}

// Rewrite appends a backend's JSON object with another value of its model and the extra object, if any, as
// its last member. The spans are those of a [Chunk] of the same bytes.
func Rewrite(dst, object []byte, model Span, end int, as string, extra []byte) []byte {
	at := 0
	if model.End > 0 {
		dst = append(dst, object[:model.Start]...)
		dst = AppendQuote(dst, as)
		at = model.End
	}
	dst = append(dst, object[at:end]...)
	dst = appendExtra(dst, extra)
	return append(dst, '}')
}

// CutCall removes from the id at the beginning of an object, which is all of b from at on, what follows the request's own
// id: engines that take ids show there which of the request's calls they answered.
func CutCall(b []byte, at int, id string) []byte {
	begin := b[at:min(at+maxHead, len(b))]
	i := bytes.Index(begin, []byte(id))
	if end := i + len(id); id != "" && i >= 0 && end < len(begin) && begin[end] == '-' {
		if n := bytes.IndexByte(begin[end:], '"'); n > 0 {
			b = slices.Delete(b, at+end, at+end+n)
		}
	}
	return b
}

// maxHead is where the id of an object ends at the latest, in bytes.
const maxHead = 192

// ErrorEvent appends the frame that reports a failure in the middle of a stream. No terminator follows: the
// connection is aborted, so that no client mistakes the answer for a complete one.
func ErrorEvent(dst []byte, e ErrorBody) []byte {
	dst = append(dst, "event: error\ndata: "...)
	dst = e.Append(dst)
	return append(dst, "\n\n"...)
}

// ErrorBody is the error object of the OpenAI API.
type ErrorBody struct{ Message, Type, Param, Code string }

// Append appends the body {"error":{…}}. An empty param or code is null.
func (e ErrorBody) Append(dst []byte) []byte {
	param, code := SetText("param", e.Param), SetText("code", e.Code)
	if e.Param == "" {
		param.Value = null
	}
	if e.Code == "" {
		code.Value = null
	}
	return Object(dst, Edit{"error", Object(nil, SetText("message", e.Message), SetText("type", e.Type), param, code)})
}

var null = []byte("null")

// pieceSize is the maximum length of the text in a frame of a complete answer, in bytes: about eight tokens.
// A frame adds at least 200 bytes, so a stream with one token per frame would be six times as long. Longer
// pieces save little and no longer look like text that is being written.
const pieceSize = 32

// Whole appends a whole answer as one JSON object.
func (f *Framer) Whole(dst []byte, w *Whole, extra []byte) []byte {
	dst = f.head(dst, "chat.completion")
	for i := range w.Choices {
		c := &w.Choices[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		if f.kind == Completion {
			dst = AppendQuote(append(dst, `,"text":`...), c.Text)
		} else {
			dst = appendMessage(append(dst, `,"message":`...), c)
		}
		dst = append(appendFinish(dst, c.Finish, c.Stop), '}')
	}
	dst = append(appendUsage(append(dst, `],"usage":`...), w.Usage), '}')
	return append(appendExtra(dst, extra), '}')
}

func appendMessage(dst []byte, c *Choice) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	if c.Null {
		dst = append(dst, "null"...)
	} else {
		dst = AppendQuote(dst, c.Text)
	}
	dst = append(dst, `,"refusal":null`...)
	if len(c.Reasoning) > 0 {
		dst = appendReasoning(append(dst, ','), c.As, c.Reasoning)
	}
	for i := range c.Calls {
		k := &c.Calls[i]
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendFunction(AppendQuote(append(dst, `{"id":`...), k.ID), k)
		dst = append(AppendQuote(dst, k.Arguments), "}}"...)
	}
	if len(c.Calls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// appendReasoning appends reasoning as the one or two members in which it came.
func appendReasoning(dst []byte, as string, text []byte) []byte {
	if as == asBoth {
		dst = append(appendReasoning(dst, asReasoning, text), ',')
		as = asReasoningContent
	}
	return AppendQuote(append(AppendQuote(dst, as), ':'), text)
}

// appendFunction appends a call behind its id, up to its arguments.
func appendFunction(dst []byte, k *Call) []byte {
	dst = AppendQuote(append(dst, `,"type":`...), k.Type)
	dst = AppendQuote(append(dst, `,"function":{"name":`...), k.Name)
	return append(dst, `,"arguments":`...)
}

// WholeStream appends all frames of a whole answer, from the role to the terminator, split at words as by a
// model. Choices follow each other. The extra object is part of the last frame.
func (f *Framer) WholeStream(dst []byte, w *Whole, extra []byte, withUsage bool) []byte {
	if f.kind == Chat {
		for i := range w.Choices {
			dst = f.role(dst, i)
		}
	}
	for i := range w.Choices {
		if i > 0 {
			dst = append(dst, "}]}\n\n"...)
		}
		dst = f.choiceStream(dst, i, &w.Choices[i])
	}
	return f.done(append(dst, "}]"...), Ending{Usage: w.Usage, Extra: extra}, withUsage)
}

// choiceStream appends the frames of a choice, without the end of the last one, which has its last piece of
// text.
func (f *Framer) choiceStream(dst []byte, index int, c *Choice) []byte {
	for rest := c.Reasoning; len(rest) > 0 && f.kind == Chat; {
		n := pieceEnd(rest)
		dst = appendReasoning(append(f.open(dst, index), `,"delta":{`...), c.As, rest[:n])
		dst = goesOn(append(dst, '}'))
		rest = rest[n:]
	}
	text := c.Text
	for len(text) > 0 {
		n := pieceEnd(text)
		if n == len(text) && len(c.Calls) == 0 {
			break
		}
		dst = goesOn(f.choice(dst, index, text[:n]))
		text = text[n:]
	}
	for i := range c.Calls {
		dst = f.callStream(dst, index, i, &c.Calls[i])
	}
	return appendFinish(f.choice(dst, index, text), c.Finish, c.Stop)
}

// callStream appends the frames of a call: first everything except its arguments, then these in pieces.
func (f *Framer) callStream(dst []byte, index, call int, k *Call) []byte {
	dst = append(f.open(dst, index), `,"delta":{"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(call), 10)
	dst = AppendQuote(append(dst, `,"id":`...), k.ID)
	dst = goesOn(append(appendFunction(dst, k), `""}}]}`...))
	for rest := []byte(k.Arguments); len(rest) > 0; {
		n := pieceEnd(rest)
		dst = append(f.open(dst, index), `,"delta":{"tool_calls":[{"index":`...)
		dst = strconv.AppendInt(dst, int64(call), 10)
		dst = AppendQuote(append(dst, `,"function":{"arguments":`...), rest[:n])
		dst = goesOn(append(dst, `}}]}`...))
		rest = rest[n:]
	}
	return dst
}

// pieceEnd is the length of the next piece of text: whole words if there are spaces, and always whole
// characters. It is at least 1.
func pieceEnd(text []byte) int {
	if len(text) <= pieceSize {
		return len(text)
	}
	for i := pieceSize; i > 0; i-- {
		if b := text[i]; b == ' ' || b == '\n' {
			return i // a token contains the space before its word
		}
	}
	end := pieceSize
	for end > pieceSize-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return end
}
