package pool

import (
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// Fleet is the connection to the other replicas. Their data comes in by [Pool.ReceiveReading], [Pool.ReceivePlacements]
// and [Pool.ReceiveDrains]. Its methods must not block.
type Fleet interface {
	Replicas() int                                    // number of replicas, this one included
	Sharing() bool                                    // whether the replicas exchange data now
	Mine(pool, backend string) bool                   // whether this replica scrapes the backend for all
	Publish(pool, backend string, r pressure.Reading) // shares a new reading
	Place(pool string, placements []prefix.Placement) // shares placements of prompts; said is not kept
}

// alone is the Fleet of a single replica: it scrapes every backend itself.
type alone struct{}

func (alone) Replicas() int                            { return 1 }
func (alone) Sharing() bool                            { return true }
func (alone) Mine(string, string) bool                 { return true }
func (alone) Publish(string, string, pressure.Reading) {}
func (alone) Place(string, []prefix.Placement)         {}
