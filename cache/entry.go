package cache

import (
	"bytes"
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"
)

// Entry is a stored answer.
type Entry struct {
	Created    time.Time `json:"-"`          // when the answer was complete; in milliseconds
	Tier       string    `json:"tier"`       // source: draft, target or mixed
	Acceptance string    `json:"acceptance"` // the verdict, as in X-Acceptance
	Finish     string    `json:"finish"`
	Prompt     int       `json:"prompt"`   // tokens
	Accepted   int       `json:"accepted"` // tokens of the draft in the answer
	Target     int       `json:"target"`   // tokens of the target in the answer
	USD        float64   `json:"usd"`      // cost of making it
	Answer     []byte    `json:"-"`        // encoded; opaque to this package
}

// entryHead is what an encoded entry says besides its answer.
type entryHead struct {
	Created int64 `json:"created"` // Unix milliseconds
	*Entry
}

const (
	// entryVersion is the first byte of an encoded entry; it changes with the encoding.
	entryVersion = 2

	// maxWord bounds each of an entry's strings, which are UTF-8, in bytes: several times the longest verdict.
	maxWord = 1 << 10

	// maxTokens bounds each of an entry's counts: no engine has such a long context.
	maxTokens = math.MaxInt32

	// maxHead bounds the part of an encoded entry before its answer, in bytes: JSON may escape each byte of a
	// word by six.
	maxHead = 3*6*maxWord + 512
)

// sound reports whether an entry is within its bounds.
func (e *Entry) sound() bool {
	for _, word := range [...]string{e.Tier, e.Acceptance, e.Finish} {
		if len(word) > maxWord || !utf8.ValidString(word) {
			return false
		}
	}
	for _, tokens := range [...]int{e.Prompt, e.Accepted, e.Target} {
		if tokens < 0 || tokens > maxTokens {
			return false
		}
	}
	return e.USD >= 0 && e.USD <= math.MaxFloat64
}

// appendEntry encodes a sound entry: version, head as JSON, end of line, and the answer to the end.
func appendEntry(b []byte, e *Entry) []byte {
	head, err := json.Marshal(entryHead{e.Created.UnixMilli(), e})
	if err != nil {
		panic(err) // a sound entry has no number without a form in JSON
	}
	b = append(append(b, entryVersion), head...)
	return append(append(b, '\n'), e.Answer...)
}

// parseEntry is the inverse of appendEntry. The answer, at most maxSize bytes, references b. The errors are
// ErrForeign and ErrDamaged.
func parseEntry(b []byte, maxSize int) (*Entry, error) {
	switch {
	case len(b) == 0:
		return nil, ErrDamaged
	case b[0] != entryVersion:
		return nil, ErrForeign
	}
	text, answer, whole := bytes.Cut(b[1:], []byte{'\n'})
	h := entryHead{Entry: &Entry{}}
	if err := json.Unmarshal(text, &h); err != nil || !whole || len(answer) > maxSize {
		return nil, ErrDamaged
	}
	e := h.Entry
	e.Created, e.Answer = time.UnixMilli(h.Created), answer[:len(answer):len(answer)]
	if !e.sound() {
		return nil, ErrDamaged
	}
	return e, nil
}
