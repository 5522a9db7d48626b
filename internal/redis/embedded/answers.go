package embedded

import (
	"container/list"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

const (
	// AnswerKeys begin the keys of cached answers (package cache).
	AnswerKeys = "foregate:cache:"

	// What an embedded Redis keeps of answers: bytes with their names, and how many, because
	// each passing of time goes through all that there are (3 ms for so many).
	maxAnswerBytes = 64 << 20
	maxAnswers     = 16 << 10

	// passEvery is how often time passes for them: a lease of 1.5 s ends up to so much early.
	passEvery = 200 * time.Millisecond
)

// OpenAnswers starts a Redis for answers; stop ends it. It is another one than that of
// coordination, which looks at the time to live of everything before each command: that costs
// nothing for a few dozen keys, and milliseconds for thousands of answers.
func OpenAnswers() (client redis.UniversalClient, stop func()) {
	s := Open()
	s.mini.ClockTTL(false) // time passes below
	s.Client.AddHook(newEviction(maxAnswerBytes, maxAnswers, func(key string) { s.mini.Del(key) }))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		passTime(ctx, s.mini)
	}()
	return s.Client, func() {
		cancel()
		<-ended
		s.Stop()
	}
}

// passTime has what has expired deleted, until ctx ends.
func passTime(ctx context.Context, m *miniredis.Miniredis) {
	tick := time.NewTicker(passEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		m.FastForward(now.Sub(last))
		last = now
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
