package trial

import "sync"

// conversations are those that were counted. The two generations hold at most twice maxConversations; a conversation is
// forgotten when so many new ones came after it. The zero value is ready. It is safe for concurrent use.
type conversations struct {
	mu         sync.Mutex
	young, old map[uint64]struct{}
}

// maxConversations bounds one generation: some 2 MB.
const maxConversations = 1 << 16

// isNew reports whether a conversation was not counted, and counts it.
func (c *conversations) isNew(number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.young[number]; ok {
		return false
	}
	if c.young == nil || len(c.young) >= maxConversations {
		c.young, c.old = make(map[uint64]struct{}), c.young
	}
	c.young[number] = struct{}{}
	_, ok := c.old[number]
	return !ok
}
