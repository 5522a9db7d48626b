package limits

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// landmine panics in place of the next command, as the client does at some replies.
type landmine struct{ armed atomic.Bool }

func (l *landmine) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *landmine) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (l *landmine) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if l.armed.Swap(false) {
			panic("a reply")
		}
		return next(ctx, cmd)
	}
}

func TestALookupThatPanicsIsAFailedOne(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, redistest.OnRequests(s.Addr), 1)
	r.patient()
	mine := &landmine{}
	r.redis.AddHook(mine)
	a := Request{Tenant: "acme", Limit: Limit{RPM: 600_000}}
	redistest.Within(t, 5*time.Second, "requests are counted in Redis", func() bool { r.ask(t, a); return r.results(resultShared) > 0 })
	shared, failed := r.results(resultShared), r.results(resultError)
	mine.armed.Store(true)
	if !r.ask(t, a) || r.results(resultError) != failed+1 {
		t.Errorf("%d errors", r.results(resultError)-failed)
	}
	redistest.Within(t, 5*time.Second, "no lookup is under way", func() bool { return r.asker.InFlight() == 0 })
	if !r.ask(t, a) || r.results(resultShared) == shared {
		t.Error("the next is not counted in Redis")
	}
}
