package embedded

import (
	"container/list"
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// AnswerKeys begin the keys of cached answers (package cache).
	AnswerKeys = "foregate:cache:"

	// What an embedded Redis keeps of answers: bytes with their names, and how many, because
	// each passing of time goes through all that there are (8 ms for so many).
	maxAnswerBytes = 64 << 20
	maxAnswers     = 16 << 10

	// passEvery is how often time passes for them, and maxPassEvery how seldom where that takes long: a lease of
	// 1.5 s, which its holder renews four times a second, ends up to so much early.
	passEvery    = 200 * time.Millisecond
	maxPassEvery = 500 * time.Millisecond
	// passShare is the part of one processor that this may take.
	passShare = 50
)

// OpenAnswers starts a Redis for answers; stop ends it. It is called as a library: a command runs in the goroutine of who
// sends it, and scripts by these hashes run in Go. It is another one than that of
// coordination, which looks at the time to live of everything before each command: that costs
// nothing for a few dozen keys, and milliseconds for thousands of answers.
func OpenAnswers(scripts map[string]Script) (client redis.UniversalClient, stop func()) {
	d := newDirect(scripts)
	c := clientOf(func(context.Context, string, string) (net.Conn, error) {
		if d.stopped.Load() {
			return nil, redis.ErrClosed
		}
		return newDirectConn(d), nil
	})
	c.AddHook(newEviction(maxAnswerBytes, maxAnswers, d.del))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		passTime(ctx, d.pass)
	}()
	return c, func() {
		cancel()
		<-ended
		_ = c.Close() // only connections are lost
		d.stop()
	}
}

// passTime has what has expired deleted, until ctx ends.
func passTime(ctx context.Context, pass func(time.Duration)) {
	timer := time.NewTimer(passEvery)
	defer timer.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		now := time.Now()
		pass(now.Sub(last))
		last = now
		timer.Reset(min(max(passEvery, passShare*time.Since(now)), maxPassEvery))
	}
}

// eviction bounds the answers that a client has written with SET: beyond the bounds the oldest are
// deleted. Answers that expired count until it is their turn to be deleted.
type eviction struct {
	bytes, count int64 // at most
	del          func(key string)

	mu   sync.Mutex
	has  int64                    // bytes
	keys map[string]*list.Element // of order
	ages list.List                // of answer, the oldest first
}

// answer is an answer that was written.
type answer struct {
	key  string
	size int64
}

func newEviction(bytes, count int64, del func(key string)) *eviction {
	return &eviction{bytes: bytes, count: count, del: del, keys: map[string]*list.Element{}}
}

// DialHook changes nothing.
func (*eviction) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook notes an answer that was written.
func (r *eviction) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.note(cmd)
		return err
	}
}

// ProcessPipelineHook notes the answers that were written.
func (r *eviction) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			r.note(cmd)
		}
		return err
	}
}

// note makes room for what a command may have written, also where its reply did not come.
func (r *eviction) note(cmd redis.Cmder) {
	args := cmd.Args()
	if len(args) < 3 || !strings.EqualFold(cmd.Name(), "set") {
		return
	}
	key, ok := args[1].(string)
	if !ok || !strings.HasPrefix(key, AnswerKeys) {
		return
	}
	size := int64(len(key))
	switch value := args[2].(type) {
	case string:
		size += int64(len(value))
	case []byte:
		size += int64(len(value))
	}
	for _, old := range r.take(answer{key, size}) {
		r.del(old)
	}
}

// take notes an answer and tells which must go for it.
func (r *eviction) take(a answer) (evicted []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.keys[a.key]; e != nil {
		r.has -= r.ages.Remove(e).(answer).size
	}
	r.keys[a.key] = r.ages.PushBack(a)
	r.has += a.size
	for r.has > r.bytes || int64(len(r.keys)) > r.count {
		old := r.ages.Remove(r.ages.Front()).(answer)
		delete(r.keys, old.key)
		r.has -= old.size
		evicted = append(evicted, old.key)
	}
	return evicted
}
