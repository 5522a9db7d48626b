// Package scoring bounds what asking an engine for scores may cost it: how long a text,
// how many at once, and none for a while where it goes wrong. It is told the time.
package scoring

import "time"

// Config is what an operator may tune of scoring, live.
type Config struct {
	MostTokens int           // longest prompt and draft that are scored together (speculation.score_tokens)
	AtOnce     int           // scores under way at one backend, of this replica (speculation.score_at_once)
	Timeout    time.Duration // longest wait for one of up to 1,000 tokens; longer ones get more (speculation.score_timeout)
}
