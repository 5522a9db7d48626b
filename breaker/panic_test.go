package breaker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

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
		m.client.AddHook(mine)
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
		if !m.shares() {
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
		if !every(all, "a", Closed) {
			t.Errorf("%+v after %d probes", all[0].state("a"), probes.Load())
		}
	})
}
