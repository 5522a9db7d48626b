// Package pressure converts the metrics of an inference server to readings: how full its KV cache is, how many
// requests run and wait, and how much it has done. Start at [Scraper], which takes a [Reading], and [Aged],
// which says what an old one is still worth. Both return an error instead of a guess: a value that is
// malformed, not finite or out of range makes the whole reading invalid, because a wrong number that looks
// idle attracts traffic (NaN > 0.85 is false) and one that looks full repels it. Every field of a returned
// Reading is finite and in range.
package pressure

import "time"

// Reading is the result of one scrape of a backend's /metrics.
type Reading struct {
	At      time.Time // when it was taken: the local time before the scrape was sent
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

	Generation string // of vLLM: "v1" or "v0", by the metric names seen; else ""

	// Ranks are the single engines, by number, if there are several and each reports all three values; at
	// most MaxRanks, else none.
	Ranks []Rank

	// Answers means that the engine has answered recently, although these numbers do not change. It is not
	// from /metrics; the caller of Scrape sets it.
	Answers bool
}

// MaxRanks is the maximum number of engines behind one URL with separate values.
const MaxRanks = 64

// Rank is one engine's load.
type Rank struct {
	KVUsage float64 // 0..1
	Running int
	Waiting int
}

// Capacity is the number of tokens in the fullest engine's KV cache; 0 is unknown. One block is vLLM's null
// block and never holds tokens.
func (r Reading) Capacity() int {
	if r.Blocks < 2 {
		return 0
	}
	return (r.Blocks - 1) * r.BlockSize
}

// Config is the live configuration of scraping.
type Config struct {
	Interval     time.Duration // between two scrapes of one backend (default 500 ms)
	Timeout      time.Duration // of one scrape, parsing included (default 500 ms)
	ProbeTimeout time.Duration // for a stalled engine to generate one token (default 500 ms)
	FreshFor     time.Duration // up to this age a reading counts fully (default 2 s)
	UnknownAfter time.Duration // from this age on it is ignored (default 10 s)
}

// DefaultConfig returns the default values.
func DefaultConfig() Config {
	return Config{
		Interval:     500 * time.Millisecond,
		Timeout:      500 * time.Millisecond,
		ProbeTimeout: 500 * time.Millisecond,
		FreshFor:     2 * time.Second,
		UnknownAfter: 10 * time.Second,
	}
}

// OrDefaults replaces zero or negative values by their defaults, so that a Config with one field set works.
func (c Config) OrDefaults() Config {
	d := DefaultConfig()
	if c.Interval <= 0 {
		c.Interval = d.Interval
	}
	if c.Timeout <= 0 {
		c.Timeout = d.Timeout
	}
	if c.ProbeTimeout <= 0 {
		c.ProbeTimeout = d.ProbeTimeout
	}
	if c.FreshFor <= 0 {
		c.FreshFor = d.FreshFor
	}
	if c.UnknownAfter <= 0 {
		c.UnknownAfter = d.UnknownAfter
	}
	return c
}
