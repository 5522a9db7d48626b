package openai

import (
	"strconv"
	"unicode/utf8"
)

// pieceSize is the maximum length of the text in a frame of a complete answer, in bytes: about eight tokens.
// A frame adds at least 200 bytes, so a stream with one token per frame would be six times as long. Longer
// pieces save little and no longer look like text that is being written.
const pieceSize = 32

// Whole appends a whole answer as one JSON object.
func (f *Framer) Whole(dst []byte, w *Whole, extra []byte) []byte {
	object := "chat.completion"
	if f.kind == Completion {
		object = "text_completion"
	}
	dst = f.head(dst, object)
	for i := range w.Choices {
		c := &w.Choices[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		if f.kind == Completion {
			dst = quote(append(dst, `,"text":`...), c.Text)
		} else {
			dst = f.message(append(dst, `,"message":`...), c)
		}
		dst = appendFinish(dst, c.Finish, c.Stop)
		dst = append(f.null(dst, "token_ids routed_experts", "token_ids prompt_logprobs prompt_token_ids routed_experts"), '}')
	}
	dst = append(f.null(append(dst, ']'), tierNulls, tierNulls), `,"usage":`...)
	dst = f.usage(dst, w.Usage)
	if w.Usage.Cached == 0 {
		dst = f.null(dst, "prompt_tokens_details", "prompt_tokens_details")
	}
	dst = append(f.null(dst, "completion_tokens_details", "completion_tokens_details"), '}')
	dst = f.null(dst, "prompt_logprobs prompt_token_ids prompt_text "+transferNulls, transferNulls)
	return append(appendExtra(dst, extra), '}')
}

// Members of whole answers of vLLM.
const (
	tierNulls     = "service_tier system_fingerprint"
	transferNulls = "kv_transfer_params ec_transfer_params metrics"
)

func (f *Framer) message(dst []byte, c *Choice) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	if c.Null {
		dst = append(dst, "null"...)
	} else {
		dst = quote(dst, c.Text)
	}
	dst = f.null(append(dst, `,"refusal":null`...), "annotations audio function_call", "")
	if len(c.Reasoning) > 0 {
		dst = appendReasoning(append(dst, ','), c.As, c.Reasoning)
	} else {
		dst = f.null(dst, "reasoning", "")
	}
	for i := range c.Calls {
		k := &c.Calls[i]
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(quote(appendCall(dst, k), k.Arguments), "}}"...)
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
	return quote(append(quote(dst, as), ':'), text)
}

// appendCall appends a call up to its arguments.
func appendCall(dst []byte, k *Call) []byte {
	dst = quote(append(dst, `{"id":`...), k.ID)
	return appendFunction(dst, k)
}

func appendFunction(dst []byte, k *Call) []byte {
	dst = quote(append(dst, `,"type":`...), k.Type)
	dst = quote(append(dst, `,"function":{"name":`...), k.Name)
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
		dst = f.goesOn(append(dst, '}'))
		rest = rest[n:]
	}
	text := c.Text
	for len(text) > 0 {
		n := pieceEnd(text)
		if n == len(text) && len(c.Calls) == 0 {
			break
		}
		dst = f.goesOn(f.choice(dst, index, text[:n]))
		text = text[n:]
	}
	for i := range c.Calls {
		dst = f.callStream(dst, index, i, &c.Calls[i])
	}
	return f.finish(f.choice(dst, index, text), c.Finish, c.Stop)
}

// callStream appends the frames of a call: first everything except its arguments, then these in pieces.
func (f *Framer) callStream(dst []byte, index, call int, k *Call) []byte {
	dst = append(f.open(dst, index), `,"delta":{"tool_calls":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(call), 10)
	dst = quote(append(dst, `,"id":`...), k.ID)
	dst = f.goesOn(append(appendFunction(dst, k), `""}}]}`...))
	for rest := []byte(k.Arguments); len(rest) > 0; {
		n := pieceEnd(rest)
		dst = append(f.open(dst, index), `,"delta":{"tool_calls":[{"index":`...)
		dst = strconv.AppendInt(dst, int64(call), 10)
		dst = quote(append(dst, `,"function":{"arguments":`...), rest[:n])
		dst = f.goesOn(append(dst, `}}]}`...))
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
