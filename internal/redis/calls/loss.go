package calls

import (
	"context"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"
)

// Loss says which data a Redis has.
type Loss int

// The kinds of losses.
const (
	NoLoss    Loss = iota // nothing was lost since the last look
	OlderData             // the data are those of an earlier time: all that was changed since is lost
	OtherData             // other data, as after it was emptied: others may have written since, and nothing else is left
)

// Detector finds that a Redis has lost data: it was emptied, came back with an older snapshot, or another server took over
// before it had everything. It looks at one key, which is lost together with the other keys of its slot. The key holds a number: a random
// run in its upper bits, and in its lower 32 how often it was read. Every read of every replica adds one. So a lower number, or
// another run, is that of other data. It belongs to one goroutine at a time.
type Detector struct {
	key   string
	known int64 // the number of the last look; 0: there was none
	renew bool  // begin a new run at the next look, so that every replica finds the loss
}

// NewDetector returns one that knows of nothing yet, so its first look finds no loss.
func NewDetector(key string) *Detector { return &Detector{key: key} }

const countBits = 32

// newRun is a random run without a look, from 1<<32 to 2^62.
func newRun() int64 { return (1 + rand.Int64N(1<<30-1)) << countBits }

// Queue adds a look to a pipeline, behind the commands whose data it is about. The result says, once the pipeline was run,
// whether data were lost between the last look and this one. An error is Redis', and says nothing about the data.
func (d *Detector) Queue(ctx context.Context, pipe redis.Pipeliner) (look func() (Loss, error)) {
	if d.renew {
		pipe.Set(ctx, d.key, newRun(), 0)
	} else {
		pipe.SetNX(ctx, d.key, newRun(), 0)
	}
	number := pipe.Incr(ctx, d.key)
	return func() (Loss, error) {
		now, err := number.Result()
		if err != nil {
			return NoLoss, err
		}
		loss := NoLoss
		switch renewed := d.renew; {
		case d.known == 0 || renewed:
		case now>>countBits != d.known>>countBits:
			loss = OtherData
		case now <= d.known:
			loss = OlderData
		}
		d.known, d.renew = now, loss == OlderData
		return loss, nil
	}
}

// Run is the run of the last look, 0 before the first.
func (d *Detector) Run() int64 { return d.known >> countBits }
