package cache

import (
	"context"
	"sync"
	"unicode/utf8"

	"github.com/foregate/foregate/tiers/world"
)

// Generations joins identical requests in progress in this process. It is safe for concurrent use.
type Generations struct {
	world world.World // for waits

	mu          sync.Mutex
	all         map[GenerationID]*Generation
	subscribers map[[16]byte]int // by tenant
}

// maxOfTenant bounds the requests of one tenant that share answers: while they wait they occupy the gateway's
// request slots, but none of the tenant's own.
const maxOfTenant = 1024

// NewGenerations makes Generations; nil is [world.System].
func NewGenerations(w world.World) *Generations {
	if w == nil {
		w = world.System{}
	}
	return &Generations{world: w, all: map[GenerationID]*Generation{}, subscribers: map[[16]byte]int{}}
}

// Join adds a subscriber to the identical requests in progress; the first one to call Next leads. nil means
// that there are too many already.
func (fs *Generations) Join(id GenerationID) *Subscriber {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.subscribers[id.Key.tenant] >= maxOfTenant {
		return nil
	}
	f := fs.all[id]
	if f == nil {
		f = &Generation{owner: fs, id: id}
		fs.all[id] = f
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subscribers >= maxSubscribers {
		return nil
	}
	f.subscribers++
	fs.subscribers[id.Key.tenant]++
	return &Subscriber{generation: f}
}

// Subscribers is the number of requests that share an answer, or may.
func (fs *Generations) Subscribers() (n int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, of := range fs.subscribers {
		n += of
	}
	return n
}

// MinSharedBytes is the size of an answer, in bytes, up to which it is always shared with waiting requests,
// even if it is too large to be stored.
const MinSharedBytes = 1 << 20

// forget makes the next identical request start a new generation.
func (fs *Generations) forget(f *Generation) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.drop(f)
}

// drop is forget with fs.mu held.
func (fs *Generations) drop(f *Generation) {
	if fs.all[f.id] == f {
		delete(fs.all, f.id)
	}
}

// abandon ends a generation that no request wants any more; fs.mu and f.mu are held.
func (fs *Generations) abandon(f *Generation) {
	f.dead = true
	if f.cancel != nil {
		f.later.cancel, f.later.why = f.cancel, context.Canceled
	}
	fs.drop(f)
}

// unlock releases both locks and sends the pending signals.
func (fs *Generations) unlock(f *Generation) {
	due := f.later
	f.later = later{}
	f.mu.Unlock()
	fs.mu.Unlock()
	due.tell()
}

// wholeRunes is the length of the text up to the last complete character.
func wholeRunes(b []byte) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(b)); back++ {
		if c := b[len(b)-back]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-back:]) {
				return len(b) - back
			}
			break
		}
	}
	return len(b)
}
