package admission

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSheddingEndsOnlyBelowTheRelease(t *testing.T) {
	s := &Shedder{Rand: func() float64 { return 0 }}
	cfg := DefaultConfig()
	flips, last := 0, false
	for i, step := range []struct {
		usage float64
		shed  bool
	}{{0.84, false}, {0.85, true}, {0.84, true}, {0.86, true}, {0.81, true}, {0.79, false}, {0.81, false}, {0.84, false}, {0.85, true}} {
		d := s.Shed(cfg, Place{"r", "p", low}, at(step.usage))
		if d.Shed != step.shed {
			t.Errorf("step %d, usage %v: shed %v", i, step.usage, d.Shed)
		}
		if d.Shed != (d.RetryAfter == time.Second) {
			t.Errorf("step %d: retry after %v", i, d.RetryAfter)
		}
		if d.Shed != last {
			flips++
		}
		last = d.Shed
	}
	if flips != 3 {
		t.Errorf("%d flips", flips)
	}
}

func TestRoutesPoolsAndClassesAreRememberedApart(t *testing.T) {
	var s Shedder
	cfg := DefaultConfig()
	s.Shed(cfg, Place{"r", "a", low}, at(0.9))
	if !s.Shed(cfg, Place{"r", "a", low}, at(0.82)).Shed {
		t.Error("pool a forgot")
	}
	if s.Shed(cfg, Place{"r", "b", low}, at(0.82)).Shed {
		t.Error("pool b remembers pool a")
	}
	if s.Shed(cfg, Place{"r", "a", normal}, at(0.92)).Shed {
		t.Error("normal remembers low")
	}
	if s.Shed(cfg, Place{"another", "a", low}, at(0.82)).Shed {
		t.Error("a route remembers another's")
	}
}

func TestAQueueDoesNotLowerTheThresholdOfUsage(t *testing.T) {
	var s Shedder
	cfg := DefaultConfig()
	cfg.Queue = 2
	if d := s.Shed(cfg, Place{"r", "p", low}, []Load{{Usage: 0.82, Known: true, Waiting: 9}}); d.Reason != ReasonQueue {
		t.Fatalf("got %+v", d)
	}
	if d := s.Shed(cfg, Place{"r", "p", low}, at(0.82)); d.Shed {
		t.Errorf("got %+v", d)
	}
}

func TestWhatWasShedLongAgoIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Shedder
		cfg := DefaultConfig()
		s.Shed(cfg, Place{"r", "p", low}, at(0.9))
		time.Sleep(memory)
		if !s.Shed(cfg, Place{"r", "p", low}, at(0.82)).Shed {
			t.Error("forgotten too early")
		}
		time.Sleep(memory + 1)
		if s.Shed(cfg, Place{"r", "p", low}, at(0.82)).Shed {
			t.Error("not forgotten")
		}
	})
}

func TestTheMemoryOfPoolsIsBounded(t *testing.T) {
	var s Shedder
	cfg := DefaultConfig()
	for i := range maxShedding + 100 {
		if !s.Shed(cfg, Place{"r", fmt.Sprint(i), low}, at(0.9)).Shed {
			t.Fatal("not shed")
		}
	}
	if len(s.shedding) != maxShedding {
		t.Errorf("%d classes remembered", len(s.shedding))
	}
}

func TestManyRequestsMayAskAtOnce(t *testing.T) {
	var s Shedder
	var l Limiter
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				d := s.Shed(DefaultConfig(), Place{"r", fmt.Sprint(j % 3), low}, at(float64(j%100)/100))
				if d.Shed && (d.RetryAfter < time.Second || d.RetryAfter > 30*time.Second) {
					t.Errorf("retry after %v", d.RetryAfter)
				}
				l.Allow(fmt.Sprint(i, j%7), 60, time.Now())
			}
		})
	}
	wg.Wait()
}

func TestARequestIsShedOnlyWhenEveryPoolItCouldGoToShedsIt(t *testing.T) {
	var s Shedder
	cfg := DefaultConfig()
	full, idle, dead := at(0.99), at(0.1), []Load(nil)
	for name, tc := range map[string]struct {
		pools []PoolLoad
		shed  string // the pool named in the refusal
	}{
		"no pool":                          {nil, ""},
		"room in the second":               {[]PoolLoad{{"draft", full}, {"target", idle}}, ""},
		"both full":                        {[]PoolLoad{{"draft", full}, {"target", full}}, "target"},
		"a dead pool keeps nothing open":   {[]PoolLoad{{"draft", full}, {"target", dead}}, "draft"},
		"all dead: somebody else's answer": {[]PoolLoad{{"draft", dead}, {"target", dead}}, ""},
	} {
		d := s.Admit(cfg, name, low, tc.pools)
		if d.Shed != (tc.shed != "") || d.Shed && d.Pool != tc.shed {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
