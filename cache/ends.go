package cache

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// maxTries is how often the return of a lease is tried before it is left to expire.
const maxTries = 3

// Arguments of end.lua without an entry, and its reply.
const (
	askWhether = "?" // there is an entry: does anyone want it?
	isWanted   = 2
)

// endings returns leases. An answer is sealed and sent only if it is followed.
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
			case err != nil: // returning it twice does no harm
				again = append(again, ended[i])
			}
		}
		fs.repeat(again)
	}
}

// lastPiece is what followers receive at the end.
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

// repeat queues leases again whose return failed.
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

// number is the number of the next piece.
func (f *Generation) number() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pieces
}

func (f *Generation) want() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hasFollower = true
}

func (f *Generation) isWanted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hasFollower
}
