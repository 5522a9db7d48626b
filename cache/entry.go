package cache

import "time"

// Entry is an answer as it is kept.
type Entry struct {
	Created    time.Time // when the answer was whole; to the millisecond
	Tier       string    // what it came from: draft, target or mixed
	Acceptance string    // the verdict, as X-Acceptance tells it
	Finish     string
	Prompt     int     // tokens
	Accepted   int     // tokens of the draft in the answer
	Target     int     // tokens of the target in the answer
	USD        float64 // what making it cost
	Answer     []byte  // the answer itself, in a form that only its reader knows
}
