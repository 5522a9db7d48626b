package accept

import (
	"compress/flate"
	"io"
	"sync"
)

const (
	minGram, maxGram = 4, 32 // tokens of a repeated phrase
	maxRepeats       = 4     // so many times in a row is running in circles
	nearEnd          = 256   // tokens at the end of an answer in which a loop is looked for
)

// RepetitionDetector tells token by token whether an answer runs in circles: the same phrase of 4
// to 32 tokens four times over. Adding a token is O(29) and does not allocate. The
// zero value is ready.
type RepetitionDetector struct {
	recent [maxGram]int32 // the last ids, a ring
	runs   [maxGram + 1 - minGram]int32
	n      int
}

// Add takes in the next token. If a loop ends with it, it returns how many tokens repeat the first phrase of the loop,
// this one included; else 0.
func (r *RepetitionDetector) Add(id int32) (repeated int) {
	for i := range r.runs {
		gram := i + minGram
		if r.n < gram {
			break
		}
		if r.recent[(r.n-gram)%maxGram] != id {
			r.runs[i] = 0
			continue
		}
		r.runs[i]++ // tokens in a row that are as the one a phrase before
		if int(r.runs[i]) >= gram*(maxRepeats-1) {
			repeated = max(repeated, int(r.runs[i]))
		}
	}
	r.recent[r.n%maxGram] = id
	r.n++
	return repeated
}

// Repeats reports whether the last 256 ids hold the same phrase of 4 to 32 tokens four
// times in a row. One that a model found its way out of long before is forgiven.
func Repeats(ids []int32) bool {
	var loops RepetitionDetector
	for _, id := range ids[max(len(ids)-nearEnd, 0):] {
		if loops.Add(id) > 0 {
			return true
		}
	}
	return false
}

// An answer is compressible when its last compressedTail bytes fit in less than
// compressedTail/maxCompression: so loops show where there are no ids.
const (
	compressedTail = 512
	maxCompression = 8
)

// compressors are kept for the next answer: a compressor has 800 KB of tables.
var compressors = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(io.Discard, flate.DefaultCompression) // the only error is a level that does not exist
	return w
}}

// IsCompressible reports whether the end of the text says the same over and over. Texts
// shorter than the end are never.
func IsCompressible(text []byte) bool {
	if len(text) < compressedTail {
		return false
	}
	tail := text[len(text)-compressedTail:]
	w, _ := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	var out counter
	w.Reset(&out)
	if _, err := w.Write(tail); err != nil || w.Close() != nil {
		return false // a counter refuses nothing
	}
	return int(out)*maxCompression < compressedTail
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
