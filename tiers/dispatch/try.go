package dispatch

import (
	"time"

	"github.com/foregate/foregate/tiers/engine"
)

// Try is one call to one backend. Its times are on the gateway's clock.
type Try struct {
	Pool    string
	Backend string
	URL     string             // of the backend, as it is configured or found
	Role    Role               // what it was asked for
	Failed  engine.FailureKind // "" when it answered
	Broke   engine.FailureKind // why it broke off after its first byte; "" when it did not
	Score   bool               // it was asked what it thinks of a draft

	Status int // of its response; 0 is none
	Tokens int // that it made for the answer, as far as they came

	Waited time.Duration // for capacity, before it
	At     time.Duration // when it was begun, after Receipt.Began
	First  time.Duration // from then until its first event, or the whole of what is not streamed; 0 is none
	Took   time.Duration // from then until it was over; 0 while it is not

	Call uint64  // its number, see [CallName]; 0 where it had none
	Span [8]byte // the id that its backend was told as its parent; zero where requests are not traced
}

// Role is the purpose of a call.
type Role string

// The roles.
const (
	RoleDraft    Role = "draft"    // a draft, or an answer of the draft tier
	RoleTarget   Role = "target"   // an answer of the target, or the rest of one
	RoleFallback Role = "fallback" // an answer of a hosted pool
	RoleScore    Role = "score"    // what it thinks of a draft
	RoleTokenize Role = "tokenize" // text into ids, or back
)
