package app

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/foregate/foregate/internal/panics"
	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/kvevents"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/prefix"
)

// followInterval is the time between two updates of the backends whose KV events are followed.
const followInterval = 2 * time.Second

// kvIndex tells a pool what its backends' prefix caches hold, from their KV events.
type kvIndex struct {
	pool   string
	port   int
	events *kvevents.Index // of all pools
	tokens *kvevents.Tokenizer
}

// indexOf makes the index of a pool that has KV events, nil for any other.
func (a *App) indexOf(name string, port int, own *credentials.Live) *kvIndex {
	if port == 0 {
		return nil
	}
	if a.events == nil {
		a.events = kvevents.New(kvevents.Options{Logger: a.Options.Logger, Registerer: a.Options.Registerer})
	}
	return &kvIndex{pool: name, port: port, events: a.events, tokens: kvevents.NewTokenizer(kvevents.TokenizerOptions{Transport: a.transports.Of(own.Now)})}
}

// blockTokens is the block size in tokens: vLLM's default on GPUs.
const blockTokens = 16

func (x *kvIndex) name(backend string) string { return x.pool + "/" + backend }

// Cached returns how many tokens of a prompt a backend holds. This is unknown for a backend with another
// block size.
func (x *kvIndex) Cached(backend string, chain []uint64) (tokens int, whole, known bool) {
	name := x.name(backend)
	if size := x.events.BlockSize(name); size != 0 && size != blockTokens {
		return 0, false, false
	}
	tokens, known = x.events.Cached(name, chain)
	return tokens, tokens >= len(chain)*blockTokens, known
}

// Chain appends the hashes of a prompt's blocks: of its token ids if they are known, else the hashes learned
// for its conversation or its system prompt.
func (x *kvIndex) Chain(into []uint64, d *pool.Demand) []uint64 {
	if d.IDs != nil {
		if ids := d.IDs(); len(ids) > 0 {
			return kvevents.Chain(into, ids, blockTokens, d.Salt)
		}
	}
	for i := len(d.Parts) - 1; i >= 0; i-- {
		if k := d.Parts[i].Key; k != 0 {
			if chain, ok := x.tokens.Chain(uint64(k)); ok {
				return append(into, chain...)
			}
		}
	}
	return into
}

// Learn asks a backend for the tokens of a prompt.
func (x *kvIndex) Learn(key prefix.Key, url string, body []byte) {
	x.tokens.Learn(uint64(key), url, body)
}

// run follows the events of a pool's backends until ctx ends.
func (x *kvIndex) run(ctx context.Context, p *pool.Pool) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { _ = x.tokens.Run(ctx) }) // ends only with ctx
	feeds := map[string]func(){}
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		x.follow(ctx, p, &all, feeds)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// follow starts to follow new engines, and stops for removed ones.
func (x *kvIndex) follow(ctx context.Context, p *pool.Pool, all *sync.WaitGroup, feeds map[string]func()) {
	there := map[string]bool{}
	for _, b := range p.Snapshot() {
		for rank := range max(b.Reading.Engines, 1) {
			u, err := url.Parse(b.URL)
			if err != nil {
				continue // pools accept no such URL
			}
			endpoint := "tcp://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(x.port+rank))
			feedOf := b.ID + " " + endpoint
			there[feedOf] = true
			if feeds[feedOf] != nil {
				continue
			}
			feed, cancel := context.WithCancel(ctx)
			feeds[feedOf] = cancel
			all.Go(func() {
				panics.KeepRunning(feed, func(ctx context.Context) { _ = x.events.Follow(ctx, x.name(b.ID), endpoint) }) // it logs failures and continues
			})
		}
	}
	for name, end := range feeds {
		if !there[name] {
			end()
			delete(feeds, name)
		}
	}
}
