package plan

import "github.com/foregate/foregate/tiers/pool"

// When says when a route makes drafts.
type When string

// The values of the setting speculation.when.
const (
	WhenAlways When = "always"
	WhenScarce When = "scarce" // while the target is short of room
)

// reasonSpare is why the target answers where drafts are made only while it is short of room.
const reasonSpare = "target_has_room"

const (
	// scarceFrom is the KV usage from which on the target is short of room, and scarceUntil to where that must fall again.
	scarceFrom, scarceUntil = 0.5, 0.3
	// seatsUntil is the share of the requests that ran when others began to queue, to which they must fall again.
	seatsUntil = 0.8
)

// Scarcity says whether a target is short of room: of KV memory, or of seats. The zero value is not.
type Scarcity struct {
	Scarce bool
	seats  float64 // requests that ran at a backend when others queued for seats; 0: they did not
}

// Next returns the scarcity after a look at the target. It ends later than it begins (hysteresis).
func (s Scarcity) Next(r pool.Room) Scarcity {
	switch {
	case r.Queues():
		return Scarcity{Scarce: true, seats: r.Running}
	case r.Usage >= scarceFrom:
		s.Scarce = true
	case r.Usage <= scarceUntil && (s.seats == 0 || r.Running <= seatsUntil*s.seats):
		return Scarcity{}
	}
	return s
}
