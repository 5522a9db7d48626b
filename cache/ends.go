package cache

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// maxTries is how often a lease is given back before it is left to expire.
const maxTries = 3

// What end.lua is given where there is no entry at hand, and what it replies.
const (
	askWhether = "?" // there is one: is it wanted?
	isWanted   = 2
)

// endings gives leases back. An answer is sealed and sent only where somebody follows it.
func (fs *Generations) endings(ctx context.Context, pipe redis.Pipeliner) func() {
	fs.mu.Lock()
	ended := fs.ended
	fs.ended = nil
	fs.mu.Unlock()
	if len(ended) == 0 {
		return nil
	}
	replies := make([]*redis.Cmd, len(ended))
	for i := range ended {
		e := &ended[i]
		e.tries++
		replies[i] = e.lease.end(ctx, pipe, e.generation.number(), fs.lastPiece(e))
	}
	return func() {
		var again []ending
		for i, reply := range replies {
			n, err := reply.Int()
			switch {
			case err == nil && n == isWanted:
				ended[i].generation.want()
				again = append(again, ended[i])
			case err != nil: // that it was given back twice does no harm
				again = append(again, ended[i])
			}
		}
		fs.repeat(again)
	}
}

// lastPiece is what followers get at the end.
func (fs *Generations) lastPiece(e *ending) []byte {
	switch {
	case e.entry == nil || len(e.entry.Answer) > fs.maxBytes():
		return nil
	case !e.generation.isWanted():
		return []byte(askWhether)
	case e.sealed == nil:
		e.sealed = fs.o.Sealer.Seal(e.generation.id.Key, e.entry)
	}
	return e.sealed
}

// repeat puts leases back that were not given back.
func (fs *Generations) repeat(again []ending) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, e := range again {
		if e.tries < maxTries && len(fs.ended) < maxEnded {
			fs.ended = append(fs.ended, e)
			select {
			case fs.poke <- struct{}{}:
			default:
			}
		}
	}
}

// number is that of the next piece.
func (f *Generation) number() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pieces
}

func (f *Generation) want() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted = true
}

func (f *Generation) isWanted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wanted
}
