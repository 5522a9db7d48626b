package openai

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// wholeVersion is the first byte of an encoded answer. ParseWhole refuses all others.
const wholeVersion = '2'

// errEncoded is returned for bytes that Append did not write.
var errEncoded = errors.New("not an encoded answer")

// asText makes texts JSON strings, where a byte slice is base64 by default. An empty one is read as nil.
var asText = json.JoinOptions(
	jsontext.AllowInvalidUTF8(true), // becomes U+FFFD, as in quote
	json.WithMarshalers(json.MarshalToFunc(func(to *jsontext.Encoder, text []byte) error {
		return to.WriteToken(jsontext.String(string(text)))
	})),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(from *jsontext.Decoder, into *[]byte) error {
		text, err := from.ReadToken()
		if err == nil && text.Kind() != '"' {
			err = errEncoded
		}
		if err == nil {
			*into = append([]byte(nil), text.String()...)
		}
		return err
	})),
)

// Append encodes the answer for ParseWhole: the version, and JSON.
func (w *Whole) Append(dst []byte) []byte {
	b, err := json.Marshal(w, asText)
	if err != nil {
		panic(err) // it has only numbers and texts
	}
	return append(append(dst, wholeVersion), b...)
}

// ParseWhole decodes what Append wrote, an answer of an [Assembler]. Anything else is an error.
func ParseWhole(b []byte) (*Whole, error) {
	if len(b) == 0 || b[0] != wholeVersion {
		return nil, errEncoded
	}
	w := new(Whole)
	if err := json.Unmarshal(b[1:], w, asText); err != nil || !w.fits() || !bytes.Equal(w.Append(nil), b) {
		return nil, errEncoded
	}
	return w, nil
}

// fits reports whether an [Assembler] can make such an answer.
func (w *Whole) fits() bool {
	for _, n := range [...]int{w.Usage.Prompt, w.Usage.Completion, w.Usage.Cached} {
		if n < 0 || n > maxTokens {
			return false
		}
	}
	for i := range w.Choices {
		if !w.Choices[i].fits(w.Kind) {
			return false
		}
	}
	return w.Kind <= Completion && len(w.Choices) > 0 && len(w.Choices) <= maxChoices
}

// fits reports whether an [Assembler] can make such a choice.
func (c *Choice) fits(kind Kind) bool {
	reasons := len(c.Reasoning) > 0
	named := slices.Contains([]string{asReasoning, asReasoningContent, asBoth}, c.As)
	if !finishes(c.Finish) || c.Stop != nil && !isStop(c.Stop) || named != reasons || !named && c.As != "" || len(c.Calls) > maxCalls {
		return false
	}
	for _, k := range c.Calls {
		if k.ID == "" || k.Type != "function" || k.Name == "" {
			return false
		}
	}
	more := len(c.Calls) > 0 || reasons
	return c.Null == (len(c.Text) == 0 && more) && (kind == Chat || !more)
}
