package pipeline

import (
	"sync"

	"github.com/foregate/foregate/cache"
)

// maxRejectedKeys bounds one generation of rejected keys: 4,096 of 80 bytes.
const maxRejectedKeys = 4096

// rejectedKeys are the keys of requests whose last draft was served and then rejected by the target. The next such request
// is answered by the target: another draft would probably be rejected, too, so each repeat would get a wrong answer.
// The zero value is ready. When a generation is full the one before it is forgotten. Other replicas do not know these
// keys, but find the target's answer in the shared cache.
type rejectedKeys struct {
	mu         sync.Mutex
	young, old map[cache.Key]struct{}
}

// add adds a key.
func (r *rejectedKeys) add(k cache.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= maxRejectedKeys {
		r.young, r.old = make(map[cache.Key]struct{}), r.young
	}
	r.young[k] = struct{}{}
}

// has reports whether a key was added and is not forgotten.
func (r *rejectedKeys) has(k cache.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.young[k]; ok {
		return true
	}
	_, ok := r.old[k]
	return ok
}
