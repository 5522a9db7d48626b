package trial

import (
	"hash/maphash"
	"sync"

	"github.com/foregate/foregate/tiers/compare"
)

// conversations are those that were counted for a pair. The two generations hold at most twice maxConversations; a
// conversation is forgotten when so many new ones came after it. The zero value is ready. It is safe for concurrent use.
type conversations struct {
	mu         sync.Mutex
	young, old map[uint64]struct{} // hashes
}

// maxConversations bounds one generation: some 2 MB.
const maxConversations = 1 << 16

// counted is one conversation that was counted for one pair.
type counted struct {
	pair   compare.Pair
	number uint64
}

var seed = maphash.MakeSeed()

// isNew reports whether a conversation was not counted for a pair, and counts it.
func (c *conversations) isNew(p compare.Pair, number uint64) bool {
	hash := maphash.Comparable(seed, counted{p, number})
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.young[hash]; ok {
		return false
	}
	if c.young == nil || len(c.young) >= maxConversations {
		c.young, c.old = make(map[uint64]struct{}), c.young
	}
	c.young[hash] = struct{}{}
	_, ok := c.old[hash]
	return !ok
}
