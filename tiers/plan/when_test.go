package plan

import (
	"testing"

	"github.com/foregate/foregate/tiers/pool"
)

func TestATargetIsShortOfRoomFromOneLoadOnAndUntilALowerOne(t *testing.T) {
	usage := func(u float64) pool.Room { return pool.Room{Usage: u, Running: 100} }
	for name, looks := range map[string][]struct {
		room   pool.Room
		scarce bool
	}{
		"memory": {{usage(0.49), false}, {usage(0.5), true}, {usage(0.31), true}, {usage(0.3), false}, {usage(0.49), false}},
		"seats": {
			{pool.Room{Usage: 0.2, Running: 256, Waiting: 26}, false}, // a tenth of them wait a moment
			{pool.Room{Usage: 0.2, Running: 256, Waiting: 27}, true},
			{pool.Room{Usage: 0.2, Running: 256}, true}, // nobody waits, because of the drafts
			{pool.Room{Usage: 0.2, Running: 205}, true},
			{pool.Room{Usage: 0.2, Running: 204}, false},
			{pool.Room{Usage: 0.2, Running: 256}, false},
		},
		"both": {
			{pool.Room{Usage: 0.8, Running: 100, Waiting: 12}, true},
			{pool.Room{Usage: 0.4, Running: 70}, true},
			{pool.Room{Usage: 0.25, Running: 81}, true},
			{pool.Room{Usage: 0.25, Running: 80}, false},
		},
		"unknown": {{pool.Room{Usage: 0.4}, false}},
	} {
		var s Scarcity
		for i, look := range looks {
			if s = s.Next(look.room); s.Scarce != look.scarce {
				t.Errorf("%s, look %d at %+v: %t", name, i, look.room, s.Scarce)
			}
		}
	}
}
