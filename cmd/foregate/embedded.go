package main

import (
	"container/list"
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

const (
	// answerKeys begin the keys of cached answers.
	answerKeys = "foregate:cache:"

	// What an embedded Redis keeps of answers: bytes with their names, and how many, because
	// each passing of time goes through all that there are (3 ms for so many).
	maxAnswerBytes = 64 << 20
	maxAnswers     = 16 << 10

	// passEvery is how often time passes for them: a lease of 1.5 s ends up to so much early.
	passEvery = 200 * time.Millisecond
)

// openEmbedded starts a Redis inside this process, reached through a pipe: no
// port is opened, the first Dial starts it. It serves one process only.
func openEmbedded(m *miniredis.Miniredis, o *redis.UniversalOptions) (redis.UniversalClient, func()) {
	m.ClockTTL(true)
	d := &pipeDialer{server: m}
	o.Addrs = []string{"127.0.0.1:0"}
	o.Dialer = d.dial
	client := redis.NewUniversalClient(o)
	return client, func() {
		_ = client.Close() // only connections are lost
		d.stop()
	}
}

// pipeDialer connects to an embedded Redis until that is stopped. A pool dials in the
// background, also while it is being closed: a connection then would be served by nobody, or
// start the server again.
type pipeDialer struct {
	mu      sync.Mutex
	server  *miniredis.Miniredis
	stopped bool
}

func (d *pipeDialer) dial(context.Context, string, string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return nil, redis.ErrClosed
	}
	c, err := d.server.Dial()
	if err != nil {
		return nil, err
	}
	return newPipe(c), nil
}

// stop ends the server and its connections.
func (d *pipeDialer) stop() {
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	d.server.Close()
}

// openEmbeddedAnswers starts a Redis inside this process for answers. It is not the one of
// coordination: that looks at the time to live of everything before each command, which is
// nothing for a few dozen keys, and milliseconds for thousands of answers.
func openEmbeddedAnswers(o *redis.UniversalOptions) (redis.UniversalClient, func()) {
	m := miniredis.NewMiniRedis()
	client, stop := openEmbedded(m, o)
	m.ClockTTL(false) // time passes below
	client.AddHook(newRation(maxAnswerBytes, maxAnswers, func(key string) { m.Del(key) }))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		passTime(ctx, m)
	}()
	return client, func() {
		cancel()
		<-ended
		stop()
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

// ration bounds the answers that a client has written with SET: beyond it the oldest are
// deleted. Those that are gone already count until their turn comes.
type ration struct {
	bytes, count int64 // at most
	del          func(key string)

	mu   sync.Mutex
	has  int64                    // bytes
	keys map[string]*list.Element // of order
	ages list.List                // of rationed, the oldest first
}

// rationed is an answer that was written.
type rationed struct {
	key  string
	size int64
}

func newRation(bytes, count int64, del func(key string)) *ration {
	return &ration{bytes: bytes, count: count, del: del, keys: map[string]*list.Element{}}
}

// DialHook changes nothing.
func (*ration) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook notes an answer that was written.
func (r *ration) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.note(cmd)
		return err
	}
}

// ProcessPipelineHook notes the answers that were written.
func (r *ration) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			r.note(cmd)
		}
		return err
	}
}

// note makes room for what a command may have written, also where its reply did not come.
func (r *ration) note(cmd redis.Cmder) {
	args := cmd.Args()
	if len(args) < 3 || !strings.EqualFold(cmd.Name(), "set") {
		return
	}
	key, ok := args[1].(string)
	if !ok || !strings.HasPrefix(key, answerKeys) {
		return
	}
	size := int64(len(key))
	switch value := args[2].(type) {
	case string:
		size += int64(len(value))
	case []byte:
		size += int64(len(value))
	}
	for _, old := range r.take(rationed{key, size}) {
		r.del(old)
	}
}

// take notes an answer and tells which must go for it.
func (r *ration) take(a rationed) (gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.keys[a.key]; e != nil {
		r.has -= r.ages.Remove(e).(rationed).size
	}
	r.keys[a.key] = r.ages.PushBack(a)
	r.has += a.size
	for r.has > r.bytes || int64(len(r.keys)) > r.count {
		old := r.ages.Remove(r.ages.Front()).(rationed)
		delete(r.keys, old.key)
		r.has -= old.size
		gone = append(gone, old.key)
	}
	return gone
}
