package openai

import (
	"encoding/binary"
	"errors"
	"slices"
)

// wholeVersion is the first byte of an encoded answer. ParseWhole refuses all others.
const wholeVersion = 1

// errEncoded is returned for bytes that Append did not write.
var errEncoded = errors.New("not an encoded answer")

// Append encodes the answer in a compact form for ParseWhole: version, kind, usage, and the choices, all
// numbers as varints and all texts after their length.
func (w *Whole) Append(dst []byte) []byte {
	dst = append(dst, wholeVersion, byte(w.Kind))
	for _, n := range [...]int{w.Usage.Prompt, w.Usage.Completion, w.Usage.Cached, len(w.Choices)} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for i := range w.Choices {
		c := &w.Choices[i]
		null := byte(0)
		if c.Null {
			null = 1
		}
		dst = append(dst, null)
		dst = appendSized(dst, c.Finish)
		dst = appendSized(dst, c.Stop)
		dst = appendSized(dst, c.As)
		dst = appendSized(dst, c.Reasoning)
		dst = appendSized(dst, c.Text)
		dst = binary.AppendUvarint(dst, uint64(len(c.Calls)))
		for _, k := range c.Calls {
			for _, s := range [...]string{k.ID, k.Type, k.Name, k.Arguments} {
				dst = appendSized(dst, s)
			}
		}
	}
	return dst
}

func appendSized[T ~[]byte | ~string](dst []byte, text T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

// ParseWhole decodes what Append wrote, an answer of an [Assembler]. Anything else is an error. The result
// shares memory with b, which must not change afterwards.
func ParseWhole(b []byte) (*Whole, error) {
	in := decoder{rest: b}
	if in.byte() != wholeVersion {
		return nil, errEncoded
	}
	w := &Whole{Kind: Kind(in.byte())}
	w.Usage = Usage{Prompt: in.number(maxTokens), Completion: in.number(maxTokens), Cached: in.number(maxTokens)}
	n := in.number(maxChoices)
	if in.failed || w.Kind > Completion || n == 0 || n > len(in.rest)/minChoice {
		return nil, errEncoded
	}
	w.Choices = make([]Choice, n)
	for i := range w.Choices {
		if c := &w.Choices[i]; !in.choice(c) || !c.fits(w.Kind) {
			return nil, errEncoded
		}
	}
	if in.failed || len(in.rest) > 0 {
		return nil, errEncoded
	}
	return w, nil
}

// minChoice is the length of the shortest choice in bytes: seven numbers, and "stop".
const minChoice = 11

// decoder decodes the parts of an encoded answer. After the first error it returns zeros.
type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) fail() { d.rest, d.failed = nil, true }

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

// number decodes a number from 0 to most in its shortest form.
func (d *decoder) number(maximum int) int {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > uint64(maximum) || n > 1 && d.rest[n-1] == 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return int(v)
}

// sized decodes a text, nil if it is empty.
func (d *decoder) sized() []byte {
	n := d.number(len(d.rest))
	if n > len(d.rest) {
		d.fail()
	}
	if d.failed || n == 0 {
		return nil
	}
	text := d.rest[:n:n]
	d.rest = d.rest[n:]
	return text
}

// oneOf decodes a text that is one of these words, or empty.
func (d *decoder) oneOf(words ...string) string {
	text := d.sized()
	if len(text) == 0 {
		return ""
	}
	if i := slices.Index(words, string(text)); i >= 0 {
		return words[i]
	}
	d.fail()
	return ""
}

// choice decodes one choice and reports success.
func (d *decoder) choice(c *Choice) bool {
	null := d.byte()
	c.Null = null == 1
	c.Finish = d.oneOf(ends...)
	c.Stop = d.sized()
	c.As = d.oneOf(asReasoning, asReasoningContent, asBoth)
	c.Reasoning = d.sized()
	c.Text = d.sized()
	for n := d.number(maxCalls); n > 0 && !d.failed; n-- {
		c.Calls = append(c.Calls, Call{ID: string(d.sized()), Type: d.oneOf("function"), Name: string(d.sized()), Arguments: string(d.sized())})
	}
	return !d.failed && null <= 1
}

// fits reports whether an [Assembler] can make such a choice.
func (c *Choice) fits(kind Kind) bool {
	if c.Finish == "" || c.Stop != nil && !isStop(c.Stop) || (c.As == "") != (len(c.Reasoning) == 0) {
		return false
	}
	for _, k := range c.Calls {
		if k.ID == "" || k.Type == "" || k.Name == "" {
			return false
		}
	}
	more := len(c.Calls) > 0 || len(c.Reasoning) > 0
	return c.Null == (len(c.Text) == 0 && more) && (kind == Chat || !more)
}
