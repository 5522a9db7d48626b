package evidence

import (
	"fmt"
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/tiers/risk"
)

func TestAWarmupThatIsOverIsNotBegunAnewByARedisThatForgot(t *testing.T) {
	s := redistest.Start(t)
	r := join(t, s.Addr)
	for i := range 8 {
		ticket := fmt.Sprint("w-", i)
		if fate, err := r.OpenWarmup(t.Context(), chat, ticket); err != nil || fate != risk.Opened {
			t.Fatal(fate, err)
		}
		r.close(ticket, true)
	}
	began := r.View(chat).Warmup
	if began.Ended != risk.WarmupDisagreement {
		t.Fatalf("%+v", began)
	}
	if err := join(t, s.Addr).Reset(t.Context(), chat); err != nil {
		t.Fatal(err)
	}
	_ = r.Tick(t.Context())
	if v := r.View(chat); v.Warmup.Ended != risk.WarmupDisagreement || v.Warmup.Began != began.Began || v.New {
		t.Errorf("reset by another: %+v", v)
	}
	if err := r.raw.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	_ = r.Tick(t.Context())
	r.Drafted(chat, 1, 1)
	_ = r.Tick(t.Context())
	if v := r.View(chat); v.Warmup.IsRunning(time.Now(), time.Hour) || v.Version != 0 || v.New {
		t.Errorf("emptied: %+v", v)
	}
}

func TestAWarmupServesNothingWhileRedisTakesNoWord(t *testing.T) {
	r := join(t, redistest.Start(t).Addr)
	r.Drafted(chat, 1, 1)
	r.tellDrafted(t.Context())
	_ = r.Tick(t.Context())
	if v := r.View(chat); v.Seen.IsZero() || v.Warmup.Began == 0 || v.Warmup.Served != 1 {
		t.Fatalf("%+v", v)
	}
	if err := r.raw.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	r.Drafted(chat, 1, 1)
	r.tellDrafted(t.Context())
	r.later(MaxUnsynced - time.Second)
	_ = r.Tick(t.Context()) // it answers readers
	if v := r.View(chat); v.Seen.IsZero() {
		t.Errorf("for %s: %+v", MaxUnsynced, v)
	}
	r.later(2 * time.Second)
	r.tellDrafted(t.Context())
	_ = r.Tick(t.Context())
	if v := r.View(chat); !v.Seen.IsZero() {
		t.Errorf("for longer: %+v", v)
	}
	if err := r.raw.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	r.tellDrafted(t.Context())
	_ = r.Tick(t.Context())
	if v := r.View(chat); v.Seen.IsZero() || v.Warmup.Served != 2 || v.Warmup.Drafts != 2 {
		t.Errorf("it takes it again: %+v", v)
	}
}
