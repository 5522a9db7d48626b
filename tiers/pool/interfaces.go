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

// Index knows the contents of the engines' prefix caches by KV events. Chain and Cached run for every pick, so they must
// be fast and must not block.
type Index interface {
	// Chain appends the hashes of a prompt's KV blocks to into; none while they are unknown.
	Chain(into []uint64, d *Demand) []uint64
	// Cached returns how many leading tokens of the prompt a backend holds. whole says that the whole chain is
	// cached, so that more may be. If known is false, the pool uses its estimate.
	Cached(backend string, chain []uint64) (tokens int, whole, known bool)
	// Learn computes the blocks of a prompt from the body that was sent to a backend. The body is kept and must
	// not change.
	Learn(key prefix.Key, url string, body []byte)
}

// unindexed is the Index without KV events.
type unindexed struct{}

func (unindexed) Chain(into []uint64, _ *Demand) []uint64   { return into }
func (unindexed) Cached(string, []uint64) (int, bool, bool) { return 0, false, false }
func (unindexed) Learn(prefix.Key, string, []byte)          {}
