package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// follow makes a generation follow another replica's. It returns false if too many are followed already.
func (fs *Generations) follow(l *Leader, lease *Lease) bool {
	f, attempt := l.generation, l.attempt
	fs.mu.Lock()
	f.mu.Lock()
	defer fs.unlock(f)
	if fs.closed || fs.tails >= maxTails || !l.depend() {
		return false
	}
	fs.tails++
	fs.work.Go(func() {
		defer func() {
			if p := recover(); p != nil { // the client panicked on a server's reply
				fs.log.Error().Interface("panic", p).Msg("following an answer: the Redis client panicked")
			}
			f.loseLeader(attempt) // no effect after another end
			fs.mu.Lock()
			fs.tails--
			fs.mu.Unlock()
		}()
		fs.tail(f, lease, attempt)
	})
	return true
}

// tail reads until the answer is complete, its holder is dead or has failed, Redis has been silent for a
// second, or no request wants the answer any more.
func (fs *Generations) tail(f *Generation, lease *Lease, attempt int) {
	var cursor string
	next := 0 // number of the next piece
	heard := time.Now()
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.noSubscribers:
			return
		case <-tick.C:
		}
		if !f.depends(attempt) {
			return // Run stops
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
			text, e, err := fs.take(f.id.Key, lease, p, next)
			switch {
			case err != nil:
				return
			case p.last:
				f.completeElsewhere(attempt, e)
				return
			}
			f.hear(attempt, text)
			next++
		}
		if !got.leaseValid {
			return // without an end: the holder is dead
		}
	}
}

// errNoAnswer means that the holder has failed.
var errNoAnswer = errors.New("there is no answer")

// take opens one piece: the text if it is the next one, or the whole answer if it is the last.
func (fs *Generations) take(k Key, lease *Lease, p piece, next int) (text []byte, e *Entry, err error) {
	switch {
	case p.last && len(p.entry) == 0:
		return nil, nil, errNoAnswer
	case p.last:
		e, err = fs.o.Sealer.Open(k, p.entry, fs.maxBytes())
		return nil, e, err
	case p.n != next:
		return nil, nil, fmt.Errorf("piece %d where %d should be", p.n, next)
	}
	text, err = fs.o.Sealer.OpenBytes(k, lease.pieceLabel(lease.Holder, p.n), p.text, pieceSize)
	return text, nil, err
}
