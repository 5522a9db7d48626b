package cache

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// follow has a flight follow another replica's. It reports false where as many are followed as may be.
func (fs *Flights) follow(f *Flight, lease *Lease) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed || fs.tails >= mostTails {
		return false
	}
	fs.tails++
	fs.work.Go(func() {
		defer func() {
			if p := recover(); p != nil { // the client's, at what a server said
				fs.log.Error().Interface("panic", p).Msg("following an answer: the Redis client panicked")
			}
			f.vacate() // where it did not end otherwise
			fs.mu.Lock()
			fs.tails--
			fs.mu.Unlock()
		}()
		fs.tail(f, lease)
	})
	return true
}

// tail reads until the answer is whole, its holder is dead or has failed, Redis has been silent for a second, or nobody
// wants it any more.
func (fs *Flights) tail(f *Flight, lease *Lease) {
	var cursor string
	next := 0 // number of the next piece
	heard := time.Now()
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.gone:
			return
		case <-tick.C:
		}
		if !f.isRemote() {
			return // Run ends
		}
		ctx, cancel := context.WithTimeout(context.Background(), talkTime)
		got, err := lease.read(ctx, fs.o.Redis, cursor)
		cancel()
		if err != nil {
			if time.Since(heard) > silence || redis.HasErrorPrefix(err, "WRONGTYPE") {
				return
			}
			continue
		}
		heard, cursor = time.Now(), got.cursor
		for _, p := range got.pieces {
			if over, err := fs.take(f, lease, p, next); over || err != nil {
				return
			}
			next++
		}
		if !got.held {
			return // without an end: it is dead
		}
	}
}

// take takes in one piece; over says that it was the last.
func (fs *Flights) take(f *Flight, lease *Lease, p piece, next int) (over bool, err error) {
	switch {
	case p.last && len(p.entry) == 0:
		return true, nil // there is no answer
	case p.last:
		e, err := fs.o.Sealer.Open(f.id.Key, p.entry, fs.o.MaxEntry())
		if err == nil {
			f.touchDown(e)
		}
		return true, err
	case p.n != next:
		return false, fmt.Errorf("piece %d where %d should be", p.n, next)
	}
	text, err := fs.o.Sealer.OpenBytes(f.id.Key, lease.pieceLabel(lease.Holder, p.n), p.text, pieceSize)
	if err == nil {
		f.arrive(text)
	}
	return false, err
}

func (f *Flight) isRemote() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stage == remote
}
