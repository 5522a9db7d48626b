package pool

import (
	"github.com/foregate/foregate/tiers/prefix"
	"github.com/foregate/foregate/tiers/pressure"
)

// Fleet is the other replicas: what is to be told to them. What they tell comes by
// Hear, ReceivePlacements and ReceiveDrains. Its methods must not block.
type Fleet interface {
	Known() int                                       // how many replicas there are, this one included
	Sharing() bool                                    // whether what is told is heard by now
	Mine(pool, backend string) bool                   // whether this replica reads the backend's metrics for all
	Publish(pool, backend string, r pressure.Reading) // a reading that was just taken
	Place(pool string, said []prefix.Placement)       // where prompts were sent; said is not kept
}

// alone is the fleet of a replica without others: it reads every backend itself.
type alone struct{}

func (alone) Known() int                               { return 1 }
func (alone) Sharing() bool                            { return true }
func (alone) Mine(string, string) bool                 { return true }
func (alone) Publish(string, string, pressure.Reading) {}
func (alone) Place(string, []prefix.Placement)         {}

// Index knows what is in the prefix caches, where it is told by the engines
// themselves. Chain and Cached are asked in every pick, so they must be quick; none may wait.
type Index interface {
	// Chain appends what names the blocks of a request's prompt to into; nothing where
	// they are not known yet.
	Chain(into []uint64, d *Demand) []uint64
	// Cached is how many leading tokens of such a prompt a backend holds; whole says that
	// these are all that the chain names, so that there may be more. known is false where
	// it cannot tell, and the estimate stands.
	Cached(backend string, chain []uint64) (tokens int, whole, known bool)
	// Learn has the blocks of a prompt found out, by the body that was sent to a
	// backend; it is kept and must not change.
	Learn(key prefix.Key, url string, body []byte)
}

// unindexed is the index where engines tell nothing.
type unindexed struct{}

func (unindexed) Chain(into []uint64, _ *Demand) []uint64   { return into }
func (unindexed) Cached(string, []uint64) (int, bool, bool) { return 0, false, false }
func (unindexed) Learn(prefix.Key, string, []byte)          {}
