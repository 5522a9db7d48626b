package fleet

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/pressure"
)

// A stored reading consists of words separated by single spaces: version, sequence, source, and the fields of
// [pressure.Reading] except At; "-" is an empty one. The sequence is the ms, by Redis' clock, at which it was
// taken. Every version begins with these two, so that the newest wins across versions.
const (
	version    = "2"
	wordsOf    = 16
	maxValue   = 1024    // bytes of a stored reading
	maxSeq     = 1 << 52 // ms; exact in Lua
	maxCount   = math.MaxInt32
	maxCounter = 1e18 // as in tiers/pressure
)

var errNotOurs = errors.New("no reading of version " + version)

// stamp is the sequence of a stored reading of any version.
func stamp(value string) (seq int64, ok bool) {
	_, rest, ok := strings.Cut(value, " ")
	word, _, more := strings.Cut(rest, " ")
	if !ok || !more {
		return 0, false
	}
	seq, err := strconv.ParseInt(word, 10, 64)
	return seq, err == nil && seq >= 0 && seq <= maxSeq
}

// encodeReading encodes the words after version and sequence, or refuses an invalid reading.
func encodeReading(source string, r pressure.Reading) (string, error) {
	if err := check(r); err != nil {
		return "", err
	}
	b := append(make([]byte, 0, 160), source...)
	b = appendFloat(append(b, ' '), r.KVUsage)
	for _, v := range counts(&r) {
		b = strconv.AppendInt(append(b, ' '), int64(*v), 10)
	}
	for _, v := range counters(&r) {
		b = appendFloat(append(b, ' '), *v)
	}
	b = append(append(b, ' '), orDash(flags(&r))...)
	return string(b), nil
}

// flags encodes what is true or false: a for Answers, n for NoUsage.
func flags(r *pressure.Reading) string {
	s := ""
	if r.Answers {
		s = "a"
	}
	if r.NoUsage {
		s += "n"
	}
	return s
}

func appendFloat(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'g', -1, 64) }

// orDash encodes an empty word.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// decodeReading parses a stored reading strictly: anything infinite, out of range, missing or extra is an
// error. Its At is zero.
func decodeReading(value string) (seq int64, source string, r pressure.Reading, err error) {
	seq, ok := stamp(value)
	if !ok || len(value) > maxValue || !strings.HasPrefix(value, version+" ") {
		return seq, "", r, errNotOurs
	}
	w := words{rest: strings.Split(value, " ")}
	if len(w.rest) != wordsOf {
		return seq, "", r, fmt.Errorf("%d words, not %d", len(w.rest), wordsOf)
	}
	w.rest = w.rest[2:]
	source = w.word()
	r.KVUsage = w.float()
	for _, v := range counts(&r) {
		*v = w.count()
	}
	for _, v := range counters(&r) {
		*v = w.float()
	}
	word := w.word()
	r.Answers, r.NoUsage = strings.Contains(word, "a"), strings.Contains(word, "n")
	if flags(&r) != word {
		w.refuse("flags", word)
	}
	if !validReplica(source) {
		w.refuse("source", source)
	}
	if w.err == nil {
		w.err = check(r)
	}
	if w.err != nil {
		return seq, "", pressure.Reading{}, w.err
	}
	return seq, source, r, nil
}

// words parses word by word; err is the first error, also if words are missing.
type words struct {
	rest []string
	err  error
}

func (w *words) next() string {
	s := w.rest[0]
	w.rest = w.rest[1:]
	return s
}

func (w *words) refuse(what, word string) {
	if w.err == nil {
		w.err = fmt.Errorf("%s: %.40q", what, word)
	}
}

// word parses one word; "-" is "". An empty word is an error.
func (w *words) word() string {
	s := w.next()
	if s == "" {
		w.refuse("word", s)
	}
	if s == "-" {
		return ""
	}
	return s
}

func (w *words) float() float64 {
	s := w.next()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		w.refuse("number", s)
	}
	return v
}

func (w *words) count() int {
	s := w.next()
	v, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		w.refuse("count", s)
	}
	return int(v)
}

func counts(r *pressure.Reading) [5]*int {
	return [...]*int{&r.Running, &r.Waiting, &r.Engines, &r.BlockSize, &r.Blocks}
}

func counters(r *pressure.Reading) [6]*float64 {
	return [...]*float64{&r.PromptTokens, &r.GenerationTokens, &r.PrefixQueries, &r.PrefixHits, &r.Preemptions, &r.Iterations}
}

// check returns what is out of range in a reading. Every comparison is false for NaN.
func check(r pressure.Reading) error {
	if !(r.KVUsage >= 0 && r.KVUsage <= 1) {
		return fmt.Errorf("KV usage %g is not within 0..1", r.KVUsage)
	}
	for i, v := range counts(&r) {
		if *v < 0 || *v > maxCount {
			return fmt.Errorf("count %d is %d", i+1, *v)
		}
	}
	for i, v := range counters(&r) {
		if !(*v >= 0 && *v <= maxCounter) {
			return fmt.Errorf("counter %d is %g", i+1, *v)
		}
	}
	return nil
}
