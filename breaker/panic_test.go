package breaker

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// evil is a word of pub/sub that lacks a part; go-redis panics at it.
const evil = ">2\r\n$7\r\nmessage\r\n$4\r\nevil\r\n"

// liar is a connection on which a subscription is answered by evil, while lies is set.
type liar struct {
	net.Conn
	lies *atomic.Bool
	due  atomic.Bool
}

func (c *liar) Write(b []byte) (int, error) {
	if c.lies.Load() && bytes.Contains(b, []byte("subscribe")) {
		c.due.Store(true)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *liar) Read(b []byte) (int, error) {
	if c.due.Swap(false) {
		return copy(b, evil), nil
	}
	return c.Conn.Read(b)
}

func TestAWordThatLacksPartsIsCountedAndTheSubscriptionMadeAnew(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		lies := &atomic.Bool{}
		lies.Store(true)
		honest := o.Dialer
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := honest(ctx, network, addr)
			return &liar{Conn: c, lies: lies}, err
		}
		all := fleetOf(t, o, 2, &site{})
		for _, m := range all {
			m.Retain("big", members)
		}
		time.Sleep(3 * time.Second)
		if n := all[0].failures(); n < 6 || n > 25 { // one for each subscription, 125 to 375 ms apart
			t.Errorf("%d panics in 3 s", n)
		}
		all[0].calls("a", 5, errBad)
		time.Sleep(400 * time.Millisecond)
		if !every(all, "a", "open") {
			t.Error("nothing is shared meanwhile")
		}
		lies.Store(false)
		time.Sleep(3 * time.Second)
		n := all[0].failures()
		time.Sleep(3 * time.Second)
		if !all[0].events.connected.Load() || all[0].failures() != n {
			t.Errorf("it does not hear again: %d errors, then %d", n, all[0].failures())
		}
	})
}

// landmine panics in place of the next pipeline, as the client does at some replies.
type landmine struct{ armed atomic.Bool }

func (l *landmine) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (l *landmine) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (l *landmine) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if l.armed.Swap(false) {
			panic("a reply")
		}
		return next(ctx, cmds)
	}
}

func TestARunThatPanicsEndsAllThatItStartedAndMayRunAgain(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		m := join(t, o, "r0", &site{})
		m.Retain("big", members)
		mine := &landmine{}
		m.link.redis.AddHook(mine)
		ended := make(chan any, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			defer func() { ended <- recover() }()
			_ = m.Run(t.Context()) // it does not return
		})
		time.Sleep(time.Second)
		mine.armed.Store(true)
		time.Sleep(3 * time.Second)
		select {
		case p := <-ended:
			if p != "a reply" {
				t.Errorf("it ended with %v", p)
			}
		default:
			t.Fatal("the panic is kept: whoever restarts loops cannot know")
		}
		wg.Wait()
		m.run(t)
		time.Sleep(2 * time.Second)
		if !m.shares() || !m.events.connected.Load() {
			t.Error("it does not run again")
		}
	})
}

func TestAProbeThatPanicsIsCountedAndItsLeaseTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T, o *redis.Options, _ *redis.Client) {
		var probes atomic.Int64
		all := fleetOf(t, o, 1, &site{}, func(o *Options) {
			o.Probe = func(context.Context, string, string) error {
				if probes.Add(1) == 1 {
					panic("a probe")
				}
				return nil
			}
		})
		all[0].Retain("big", members)
		all[0].calls("a", 5, errBad)
		time.Sleep(4 * time.Second)
		if probes.Load() != 1 || all[0].failures() != 1 || all[0].log.count("panic: a probe") != 1 {
			t.Errorf("%d probes, %d errors, log:\n%s", probes.Load(), all[0].failures(), all[0].log)
		}
		time.Sleep(lease + time.Second)
		if !every(all, "a", "closed") {
			t.Errorf("%+v after %d probes", all[0].state("a"), probes.Load())
		}
	})
}
