package kvevents

import (
	"cmp"
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options configure an [Index]. The zero value works.
type Options struct {
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
	MaxBlocks  int // per backend, all its ranks together; more are ignored. Default 131072, about 10 MB
	// Dial opens connections; nil dials with keep-alive probes that notice a dead peer within 20 s.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Replay returns the replay endpoint of an endpoint, or "" for none; nil knows none. With one, missed
	// messages are requested, including those before the subscription.
	Replay func(endpoint string) string
}

// Index holds what is known of the backends' KV blocks.
type Index struct {
	o   Options
	met *metrics

	mu       sync.RWMutex
	backends map[string]*backend
}

// New makes an empty index.
func New(o Options) *Index {
	o.MaxBlocks = cmp.Or(o.MaxBlocks, 1<<17)
	if o.Dial == nil {
		d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}}
		o.Dial = d.DialContext
	}
	return &Index{o: o, met: newMetrics(o.Registerer), backends: map[string]*backend{}}
}

// backend holds one backend's feeds, one per engine.
type backend struct {
	mu     sync.RWMutex
	feeds  []*feed
	blocks int // of all feeds
}

// feed is the state of one engine's feed. The backend's lock guards it.
type feed struct {
	up        bool
	whole     bool              // complete from the beginning: an unknown block is not cached
	blockSize int               // tokens
	chains    map[uint64]uint64 // own hash by vLLM's
	present   map[uint64]int32  // how many of vLLM's hashes map to one of ours
}

// Cached returns how many tokens of the prompt with this chain the backend has in its KV cache: the longest
// run of leading blocks of any of its ranks. The result is unknown while no feed is connected, and if nothing
// was found while a feed is incomplete. It allocates nothing.
func (x *Index) Cached(name string, chain []uint64) (tokens int, known bool) {
	x.mu.RLock()
	b := x.backends[name]
	x.mu.RUnlock()
	if b == nil {
		return 0, false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	known = len(b.feeds) > 0
	for _, f := range b.feeds {
		known = known && f.up && f.whole
		run := 0
		for run < len(chain) && f.present[chain[run]] > 0 {
			run++
		}
		tokens = max(tokens, run*f.blockSize)
	}
	return tokens, known || tokens > 0
}

// BlockSize returns the number of tokens in a block of the backend, or 0 while it is unknown.
func (x *Index) BlockSize(name string) int {
	x.mu.RLock()
	b := x.backends[name]
	x.mu.RUnlock()
	if b == nil {
		return 0
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, f := range b.feeds {
		if f.blockSize > 0 {
			return f.blockSize
		}
	}
	return 0
}

// Forget deletes the state of a backend. Feeds that still follow it continue as incomplete ones.
func (x *Index) Forget(name string) {
	x.mu.RLock()
	b := x.backends[name]
	x.mu.RUnlock()
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range b.feeds {
		x.clear(b, f)
		f.whole = false
	}
}

// join adds a feed to a backend.
func (x *Index) join(name string) (*backend, *feed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := x.backends[name]
	if b == nil {
		b = &backend{}
		x.backends[name] = b
	}
	f := &feed{chains: map[uint64]uint64{}, present: map[uint64]int32{}}
	b.mu.Lock()
	b.feeds = append(b.feeds, f)
	b.mu.Unlock()
	return b, f
}

// leave removes a feed, and with the last one the backend.
func (x *Index) leave(name string, f *feed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b := x.backends[name]
	b.mu.Lock()
	defer b.mu.Unlock()
	x.clear(b, f)
	if b.feeds = slices.DeleteFunc(b.feeds, func(o *feed) bool { return o == f }); len(b.feeds) == 0 {
		delete(x.backends, name)
	}
}

// clear deletes a feed's blocks; its backend's lock is held.
func (x *Index) clear(b *backend, f *feed) {
	x.met.blocks.Sub(float64(len(f.chains)))
	b.blocks -= len(f.chains)
	f.chains, f.present, f.blockSize = map[uint64]uint64{}, map[uint64]int32{}, 0
}

// set clears a feed and sets its state.
func (x *Index) set(b *backend, f *feed, up, whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x.clear(b, f)
	f.up, f.whole = up, whole
}

// apply applies one event.
func (x *Index) apply(b *backend, f *feed, ev *event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := ev.kind
	switch ev.kind {
	case kindStored:
		got = x.store(b, f, ev)
	case kindRemoved:
		for _, h := range ev.hashes {
			x.remove(b, f, h)
		}
	case kindCleared:
		x.clear(b, f)
		f.whole = true
	}
	x.met.events[got].Inc()
}

// store adds consecutive blocks.
func (x *Index) store(b *backend, f *feed, ev *event) kind {
	parent, ok := root(ev.blockSize, ev.salt), true
	if ev.hasParent {
		parent, ok = f.chains[ev.parent]
	}
	if !ok {
		return kindOrphan
	}
	if f.blockSize == 0 {
		f.blockSize = ev.blockSize
	}
	if f.blockSize != ev.blockSize {
		return kindForeign
	}
	for i, h := range ev.hashes {
		parent = link(parent, ev.tokens[i*ev.blockSize:(i+1)*ev.blockSize])
		if _, dup := f.chains[h]; dup {
			continue
		}
		if b.blocks >= x.o.MaxBlocks {
			return kindFull
		}
		f.chains[h] = parent
		f.present[parent]++
		b.blocks++
		x.met.blocks.Inc()
	}
	return kindStored
}

// remove removes a block. vLLM may hold the same content twice (scoring a prompt does not read the cache) and
// reports the end of each copy. The first report removes it: a remaining copy will soon be removed, too, and
// a block announced twice must not stay for ever.
func (x *Index) remove(b *backend, f *feed, h uint64) {
	own, ok := f.chains[h]
	if !ok {
		return
	}
	delete(f.chains, h)
	if f.present[own]--; f.present[own] <= 0 {
		delete(f.present, own)
	}
	b.blocks--
	x.met.blocks.Dec()
}
