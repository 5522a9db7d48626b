// Package pressure turns what a vLLM server tells of itself into readings: how
// full its KV cache is, how many requests run and wait, how much it has done.
//
// Start at [Scraper], which takes a [Reading], and [Aged], which says what an
// old one is still worth. Both refuse rather than guess: whatever is malformed,
// not finite or out of range is no reading at all, because a wrong number that
// looks idle draws traffic (NaN > 0.85 is false) and one that looks full turns
// it away. A Reading that was handed out is finite and in range in every field.
package pressure

import "time"

// Reading is what one scrape of a backend's /metrics told.
type Reading struct {
	At      time.Time // when it was taken: the local clock before the scrape was sent
	KVUsage float64   // 0..1 of the KV cache's blocks held by live requests, of the fullest engine
	Running int       // requests in the running batches, summed over engines
	Waiting int       // requests queued inside vLLM, summed over engines
	Engines int       // engines behind this URL (data parallel ranks)

	// Of the fullest engine; 0 is unknown.
	BlockSize int // tokens per KV block
	Blocks    int // KV blocks

	// Counters since the server's start, summed over engines; 0 when absent.
	PromptTokens     float64 // prompt tokens whose prefill finished, cached ones included
	GenerationTokens float64 // tokens generated
	PrefixQueries    float64 // prompt tokens looked up in the prefix cache
	PrefixHits       float64 // of these, found
	Preemptions      float64 // requests thrown out of the cache for want of blocks
	Iterations       float64 // engine steps: stands still while running > 0 in a hung engine

	Generation string // "v1" or "v0", by the metric names seen

	// Ranks are the engines one by one, by their number, where there are several and
	// each tells all three; at most MaxRanks, else none.
	Ranks []Rank

	// Answers says that whoever took the reading has seen the engine answer lately,
	// though these numbers stand still. Nothing in /metrics tells it.
	Answers bool
}

// MaxRanks is how many engines behind one URL are told apart.
const MaxRanks = 64

// Rank is one engine's load.
type Rank struct {
	KVUsage float64 // 0..1
	Running int
	Waiting int
}

// Capacity is how many tokens the fullest engine's KV cache holds; 0 is
// unknown. One block is vLLM's null block and never holds tokens.
func (r Reading) Capacity() int {
	if r.Blocks < 2 {
		return 0
	}
	return (r.Blocks - 1) * r.BlockSize
}

// Config is what an operator may tune of scraping, live.
type Config struct {
	Interval     time.Duration // between two scrapes of one backend (default 500 ms)
	Timeout      time.Duration // of one scrape, parsing included (default 500 ms)
	ProbeTimeout time.Duration // for an engine that stands still to give one token (default 500 ms)
	FreshFor     time.Duration // up to this age a reading counts as it is (default 2 s)
	UnknownAfter time.Duration // from this age on it says nothing (default 10 s)
}

// DefaultConfig holds the values that are used where none are set.
func DefaultConfig() Config {
	return Config{
		Interval:     500 * time.Millisecond,
		Timeout:      500 * time.Millisecond,
		ProbeTimeout: 500 * time.Millisecond,
		FreshFor:     2 * time.Second,
		UnknownAfter: 10 * time.Second,
	}
}

// OrDefaults replaces what is zero or negative by its default, so that a Config
// with one field set works.
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
