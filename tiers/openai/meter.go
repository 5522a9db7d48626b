package openai

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Meter reads the token counts of an answer while it is forwarded. It keeps no more than an event or a token of the JSON,
// however long the answer is, and its result does not depend on how the bytes were split. It reads the usage of each of the
// APIs: at the top level, or in a "message" or a "response", with the names of chats (prompt_tokens) or of
// messages and responses (input_tokens). Anything that is not JSON has no usage.
type Meter struct {
	events *EventReader // of a stream; nil: the answer is one JSON text
	cur    cursor       // of an event, or of the whole answer
	rest   fed
	ended  bool // no more is read

	tokens map[string]int // last reported values, by their names
	pieces int
	bytes  int64
}

// fed is what has come of an answer and was not read yet.
type fed []byte

// errAwaited says that the rest of an answer has not come yet.
var errAwaited = errors.New("more is to come")

// Read implements [io.Reader].
func (f *fed) Read(p []byte) (n int, err error) {
	if n = copy(p, *f); n == 0 {
		return 0, errAwaited
	}
	*f = (*f)[n:]
	return n, nil
}

// maxMetered bounds an event, or a token of the JSON, in bytes. Names that are open are kept, so there are bounds of a name and
// of the depth. Of an answer beyond these no more is read.
const (
	maxMetered      = 1 << 20
	maxMeteredName  = 4 << 10
	maxMeteredDepth = 256
)

var errBeyond = errors.New("an answer that is not metered")

// loosely reads what may be no valid JSON.
var loosely = []jsontext.Options{lenient, jsontext.AllowInvalidUTF8(true)}

// NewMeter returns a meter of a JSON answer, or of a stream of events.
func NewMeter(stream bool) *Meter {
	m := &Meter{tokens: map[string]int{}}
	if m.cur.dec.Reset(&m.rest, loosely...); stream {
		m.events = NewEventReader(&m.rest, maxMetered)
	}
	return m
}

// counted are the counts in a usage.
var counted = []string{
	"prompt_tokens", "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
	"completion_tokens", "output_tokens", "total_tokens",
}

// maxCount bounds a count, so that sums stay far from overflow.
const maxCount = 1 << 40

// Usage is what the answer has reported so far: see [Usage]. told is false if it reported neither prompt nor
// answer tokens.
func (m *Meter) Usage() (u Usage, reported bool) {
	t := m.tokens
	u.Prompt = max(t["prompt_tokens"], t["input_tokens"]) + t["cache_creation_input_tokens"] + t["cache_read_input_tokens"]
	u.Completion = max(t["completion_tokens"], t["output_tokens"])
	if u == (Usage{}) {
		u.Prompt = t["total_tokens"] // endpoints without an answer may report only the total
	}
	return u, u != Usage{}
}

// Pieces is the number of events with a part of an answer.
func (m *Meter) Pieces() int { return m.pieces }

// Bytes is the number of bytes received.
func (m *Meter) Bytes() int64 { return m.bytes }

// Take reads more of the answer.
func (m *Meter) Take(p []byte) {
	m.bytes += int64(len(p))
	m.rest = p
	for !m.ended {
		var err error
		if m.events == nil {
			_, err = m.read()
		} else if err = m.event(); err == nil {
			continue
		}
		m.ended = !errors.Is(err, errAwaited) || len(m.cur.dec.UnreadBuffer()) > maxMetered
		break
	}
	m.rest = nil
}

// event reads the next event.
func (m *Meter) event() error {
	m.events.err = nil // more has come
	data, err := m.events.Next()
	if err != nil {
		return err
	}
	m.cur.reset(data, loosely...)
	if piece, _ := m.read(); piece {
		m.pieces++
	}
	return nil
}

// read reads what has come of a JSON text; piece says that a top-level member has a part of an answer. The error is never nil.
func (m *Meter) read() (piece bool, err error) {
	for d := &m.cur.dec; ; {
		from := d.InputOffset()
		t, err := d.ReadToken()
		if err != nil {
			return piece, err
		}
		switch kind, depth := t.Kind(), d.StackDepth(); {
		case depth > maxMeteredDepth, kind == '"' && d.InputOffset()-from > maxMeteredName && isName(d, depth):
			return piece, errBeyond
		case kind == '0' && (depth == 2 || depth == 3):
			m.count(string(d.StackPointer()), t.String())
		case kind == '"' && depth == 1:
			piece = piece || isName(d, depth) && (t.String() == "delta" || t.String() == "choices")
		}
	}
}

// isName reports whether the token that was read last is the name of a member.
func isName(d *jsontext.Decoder, depth int) bool {
	kind, n := d.StackIndex(depth)
	return kind == '{' && n%2 == 1
}

// count stores a number at a place, if it is a count of a usage.
func (m *Meter) count(place, number string) {
	for _, holder := range []string{"/message/usage/", "/response/usage/", "/usage/"} {
		name, within := strings.CutPrefix(place, holder)
		if n, err := strconv.ParseUint(number, 10, 64); within && slices.Contains(counted, name) && !errors.Is(err, strconv.ErrSyntax) {
			m.tokens[name] = int(min(n, maxCount))
		}
	}
}
