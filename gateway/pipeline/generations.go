package pipeline

import (
	"context"
	"sync"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/world"
)

const (
	// maxSubscribers bounds the subscribers of a generation.
	maxSubscribers = 1024
	// maxOfTenant bounds the requests of one tenant that share answers: while they wait they occupy the gateway's
	// request slots, but none of the tenant's own.
	maxOfTenant = 1024
	// minSharedBytes is the size of an answer, in bytes, up to which it is always shared with waiting requests, even
	// if it is too large to be stored.
	minSharedBytes = 1 << 20
)

// Generations joins identical requests in progress in this process. It is safe for concurrent use.
type Generations struct {
	world world.World // for waits

	mu          sync.Mutex // of all generations: it is held for less than a microsecond a token
	all         map[generationID]*sharedGeneration
	subscribers map[[16]byte]int // by tenant
}

// NewGenerations makes Generations; nil is [world.System].
func NewGenerations(w world.World) *Generations {
	if w == nil {
		w = world.System{}
	}
	return &Generations{world: w, all: map[generationID]*sharedGeneration{}, subscribers: map[[16]byte]int{}}
}

// join adds a subscriber to the identical requests in progress; the first one to call Next leads. nil means
// that there are too many already.
func (fs *Generations) join(id generationID) *subscriber {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.all[id]
	if fs.subscribers[id.Key.Tenant()] >= maxOfTenant || f != nil && f.subscribers >= maxSubscribers {
		return nil
	}
	if f == nil {
		f = &sharedGeneration{owner: fs, id: id}
		fs.all[id] = f
	}
	f.subscribers++
	fs.subscribers[id.Key.Tenant()]++
	return &subscriber{generation: f}
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

// forget makes the next identical request start a new generation; mu is held.
func (fs *Generations) forget(f *sharedGeneration) {
	if fs.all[f.id] == f {
		delete(fs.all, f.id)
	}
}

// leader is the task to make a generation's answer. It must be ended with Complete or Fail; later calls have
// no effect.
type leader struct {
	generation *sharedGeneration
	attempt    int
	sentBefore []byte
}

// Sent returns the text of an earlier attempt that other subscribers may have sent to their clients. It is
// read-only.
func (l *leader) Sent() []byte { return l.sentBefore }

// change is [sharedGeneration.change] by the leader, if it must still make the answer. It reports whether it must.
func (l *leader) change(do func(f *sharedGeneration) (news bool)) (ours bool) {
	l.generation.change(func(f *sharedGeneration) bool {
		ours = f.stage == led && f.attempt == l.attempt
		return ours && do(f)
	})
	return ours
}

// Begin reports that the answer is being made; cancel cancels that, at once if no request wants it any more.
func (l *leader) Begin(cancel context.CancelCauseFunc) {
	l.change(func(f *sharedGeneration) bool { f.cancel = cancel; return false })
}

// Append sends more text to the followers.
func (l *leader) Append(text []byte) {
	l.change(func(f *sharedGeneration) bool { f.text = append(f.text, text...); return true })
}

// Opaque reports that the answer is more than text, so that it can only be shared when it is complete.
func (l *leader) Opaque() { l.change(func(f *sharedGeneration) bool { f.opaque = true; return false }) }

// Complete gives all subscribers the answer. keep stores it and calls then afterwards; nil: it is not stored.
// Requests that come until then get the answer, too.
func (l *leader) Complete(e *cache.Entry, keep func(then func())) {
	ours := l.change(func(f *sharedGeneration) bool {
		f.stage, f.entry, f.cancel = completed, e, nil
		return true
	})
	if !ours {
		return
	}
	if keep == nil {
		keep = func(then func()) { then() }
	}
	keep(func() {
		l.generation.change(func(f *sharedGeneration) bool { f.owner.forget(f); return false })
	})
}

// Fail reports that the answer could not be made. The first time another waiting subscriber tries again,
// unless hopeless is set; the second time all of them get the error.
func (l *leader) Fail(err error, hopeless bool) {
	l.change(func(f *sharedGeneration) bool {
		f.cancel = nil
		if hopeless || f.attempt > 1 || f.subscribers == 0 {
			f.stage, f.err = failed, err
			f.owner.forget(f)
		} else {
			f.stage = leaderless
		}
		return true
	})
}
