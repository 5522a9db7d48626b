package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// follow has a generation follow another replica's. It reports false where as many are followed as may be.
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
			if p := recover(); p != nil { // the client's, at what a server said
				fs.log.Error().Interface("panic", p).Msg("following an answer: the Redis client panicked")
			}
			f.loseLeader(attempt) // where it did not end otherwise
			fs.mu.Lock()
			fs.tails--
			fs.mu.Unlock()
		}()
		fs.tail(f, lease, attempt)
	})
	return true
}

// tail reads until the answer is whole, its holder is dead or has failed, Redis has been silent for a second, or nobody
// wants it any more.
func (fs *Generations) tail(f *Generation, lease *Lease, attempt int) {
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
		if !f.depends(attempt) {
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
		if !got.held {
			return // without an end: it is dead
		}
	}
}

// errNoAnswer says that the holder has failed.
var errNoAnswer = errors.New("there is no answer")

// take opens one piece: the text of the number that is next, or of the last one the whole answer.
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
