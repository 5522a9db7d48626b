// Package pressure converts the metrics of an inference server to readings: how full its KV cache is, how many
// requests run and wait, and how much it has done. Start at [Scraper], which takes a [Reading], and [Weight],
// which says what an old one is still worth. There is no guess: an engine (a data parallel rank) whose value is
// not finite or out of range is left out, and the reading is invalid if none is left or the text is malformed, because
// a wrong number that looks idle attracts traffic (NaN > 0.85 is false) and one that looks full repels it. Every field
// of a returned Reading is finite and in range ([Reading.Check]).
package pressure

import (
	"fmt"
	"time"
)

// Reading is the result of one scrape of a backend's /metrics.
type Reading struct {
	At      time.Time `json:"-"` // when it was taken: the local time before the scrape was sent
	KVUsage float64   // 0..1 of the KV cache's blocks held by live requests, of the fullest engine
	NoUsage bool      // the engine does not tell its KV usage; KVUsage is 0
	Running int       // requests in the running batches, summed over engines
	Waiting int       // requests queued inside the server, summed over engines
	Engines int       // engines behind this URL (data parallel ranks)

	// Of the fullest engine; 0 is unknown.
	BlockSize int // tokens per KV block
	Blocks    int // KV blocks

	// Counters since the server's start, summed over engines; 0 when absent.
	PromptTokens     float64 // prompt tokens with finished prefill, including cached ones
	GenerationTokens float64 // tokens generated
	PrefixQueries    float64 // prompt tokens looked up in the prefix cache
	PrefixHits       float64 // of these, found
	Preemptions      float64 // requests evicted from the cache for lack of blocks
	Iterations       float64 // engine steps: constant while running > 0 in a hung engine

	// Answers means that the engine has answered recently, although these numbers do not change. It is not
	// from /metrics; the caller of Scrape sets it.
	Answers bool
}

// Capacity is the number of tokens in the fullest engine's KV cache; 0 is unknown. One block is vLLM's null
// block and never holds tokens.
func (r Reading) Capacity() int {
	if r.Blocks < 2 {
		return 0
	}
	return (r.Blocks - 1) * r.BlockSize
}

// Check returns what is out of range in a reading, which another replica may have told. Every comparison is false for NaN.
func (r Reading) Check() error {
	for _, v := range [...]struct {
		what         string
		value, limit float64
	}{
		{"KV usage", r.KVUsage, 1},
		{"running", float64(r.Running), maxEngines * maxRequests}, {"waiting", float64(r.Waiting), maxEngines * maxRequests},
		{"engines", float64(r.Engines), maxEngines},
		{"block size", float64(r.BlockSize), maxBlock}, {"blocks", float64(r.Blocks), maxBlocks},
		{"prompt tokens", r.PromptTokens, maxCounter}, {"generated tokens", r.GenerationTokens, maxCounter},
		{"prefix queries", r.PrefixQueries, maxCounter}, {"prefix hits", r.PrefixHits, maxCounter},
		{"preemptions", r.Preemptions, maxCounter}, {"iterations", r.Iterations, maxCounter},
	} {
		if !(v.value >= 0 && v.value <= v.limit) {
			return fmt.Errorf("%s: %g is not within 0..%g", v.what, v.value, v.limit)
		}
	}
	return nil
}

// Times of scraping.
const (
	Interval     = 500 * time.Millisecond // between two scrapes of one backend, unless it is set otherwise
	Timeout      = 500 * time.Millisecond // of one question, parsing included
	FreshFor     = 2 * time.Second        // up to this age a reading counts fully
	UnknownAfter = 10 * time.Second       // from this age on it is ignored
)

// Weight is how much a reading taken at time at counts at now: 1 up to FreshFor, falling linearly to 0 at
// UnknownAfter. After that, and for the zero time, known is false. A reading with a weight below 1 must be
// mixed with the pool's mean, because an old reading does not show that its backend is idle or full.
func Weight(at, now time.Time) (weight float64, known bool) {
	age := now.Sub(at)
	switch {
	case at.IsZero():
		return 0, false
	case age <= FreshFor:
		return 1, true
	case age >= UnknownAfter:
		return 0, false
	}
	return float64(UnknownAfter-age) / float64(UnknownAfter-FreshFor), true
}
