package fleet

import (
	"context"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"
)

// detector finds that Redis has lost data: it was emptied, came back with an older snapshot, or another server took over before
// it had everything. It looks at keyRun, which is lost together with the other keys. That holds a number: a random run in its upper
// bits, and in its lower 32 how often it was read. Every read of every replica adds one. So a lower number, or another run, is
// that of other data. The zero value knows of nothing yet, so its first look finds no loss.
type detector struct {
	known int64 // the number of the last look; 0: there was none
	renew bool  // begin a new run at the next look, so that every replica finds the loss
}

const countBits = 32

// newRun is a random run without a look, from 1<<32 to 2^62.
func newRun() int64 { return (1 + rand.Int64N(1<<30-1)) << countBits }

// queue adds a look to a pipeline, behind the commands whose data it is about. The result says, once the pipeline was run,
// whether data were lost between the last look and this one. An error is Redis', and says nothing about the data.
func (d *detector) queue(ctx context.Context, pipe redis.Pipeliner) (look func() (bool, error)) {
	if d.renew {
		pipe.Set(ctx, keyRun, newRun(), 0)
	} else {
		pipe.SetNX(ctx, keyRun, newRun(), 0)
	}
	number := pipe.Incr(ctx, keyRun)
	return func() (bool, error) {
		now, err := number.Result()
		if err != nil {
			return false, err
		}
		looks, other := d.known != 0 && !d.renew, now>>countBits != d.known>>countBits
		older := looks && !other && now <= d.known
		d.known, d.renew = now, older
		return older || looks && other, nil
	}
}
