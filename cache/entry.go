package cache

import (
	"encoding/binary"
	"math"
	"time"
)

// Entry is a stored answer.
type Entry struct {
	Created    time.Time // when the answer was complete; in milliseconds
	Tier       string    // source: draft, target or mixed
	Acceptance string    // the verdict, as in X-Acceptance
	Finish     string
	Prompt     int     // tokens
	Accepted   int     // tokens of the draft in the answer
	Target     int     // tokens of the target in the answer
	USD        float64 // cost of making it
	Answer     []byte  // encoded; opaque to this package
}

const (
	// entryVersion is the first byte of an encoded entry; it changes with the encoding.
	entryVersion = 1

	// maxWord bounds each of an entry's strings, in bytes: several times the longest verdict.
	maxWord = 1 << 10

	// maxTokens bounds each of an entry's counts: no engine has such a long context.
	maxTokens = math.MaxInt32

	// maxHead bounds the part of an encoded entry before its answer, in bytes: the version, a time, three
	// strings with their lengths, three counts, the cost.
	maxHead = 1 + 10 + 3*(2+maxWord) + 3*5 + 8
)

// sound reports whether an entry is within its bounds.
func (e *Entry) sound() bool {
	for _, word := range [...]string{e.Tier, e.Acceptance, e.Finish} {
		if len(word) > maxWord {
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

// appendEntry encodes a sound entry: version, Unix milliseconds, strings with their lengths, counts, cost,
// and the answer to the end.
func appendEntry(b []byte, e *Entry) []byte {
	b = append(b, entryVersion)
	b = binary.AppendVarint(b, e.Created.UnixMilli())
	for _, word := range [...]string{e.Tier, e.Acceptance, e.Finish} {
		b = binary.AppendUvarint(b, uint64(len(word)))
		b = append(b, word...)
	}
	for _, tokens := range [...]int{e.Prompt, e.Accepted, e.Target} {
		b = binary.AppendUvarint(b, uint64(max(tokens, 0)))
	}
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(e.USD))
	return append(b, e.Answer...)
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
	r := reader{rest: b[1:]}
	e := &Entry{
		Created: time.UnixMilli(r.signed()),
		Tier:    r.word(), Acceptance: r.word(), Finish: r.word(),
		Prompt: r.count(), Accepted: r.count(), Target: r.count(),
		USD: math.Float64frombits(r.eight()),
	}
	if r.bad || !e.sound() || len(r.rest) > maxSize {
		return nil, ErrDamaged
	}
	e.Answer = r.rest[:len(r.rest):len(r.rest)]
	return e, nil
}

// reader decodes an entry's fields. After the first error it returns zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if n <= 0 || n > len(r.rest) {
		r.bad = r.bad || n != 0
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.rest)
	r.bad = r.bad || n <= 0
	r.take(n)
	return v
}

func (r *reader) count() int {
	v, n := binary.Uvarint(r.rest)
	r.bad = r.bad || n <= 0 || v > maxTokens
	r.take(n)
	return int(min(v, maxTokens))
}

func (r *reader) word() string { return string(r.take(r.count())) }

func (r *reader) eight() uint64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}
