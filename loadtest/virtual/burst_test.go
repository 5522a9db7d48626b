package virtual

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/loadtest"
)

// swing follows the pool's least KV usage, as it truly is, past the threshold of low, and
// when each replica begins to shed.
type swing struct {
	lab       *lab
	began     time.Duration // of the time above that is under way, 0 is none
	lasting   int           // of more than a second
	crossings int           // of any length, each after the usage had fallen to where shedding ends
	above     bool
	late      []time.Duration // of each replica and time above: how long until it shed
	shed      []bool          // by replica, in this time
	sheds     []bool          // by replica, at the last look
	flips     []int           // by replica: how often it began or ended to shed
}

const (
	lowThreshold = 0.85
	lowReleased  = 0.80
	lookEvery    = 10 * time.Millisecond
	worthShed    = time.Second // shorter crossings are over before they must be answered
)

func (s *swing) look() {
	l := s.lab
	least := 1.0
	for _, b := range l.pools["target"].Backends {
		c := b.Counts()
		least = min(least, float64(c.BlocksUsed)/float64(c.BlocksTotal))
	}
	now := l.clock.Elapsed()
	switch {
	case least >= lowThreshold && !s.above:
		s.above = true
		s.crossings++
	case least < lowReleased:
		s.above = false
	}
	switch {
	case least >= lowThreshold && s.began == 0:
		s.began, s.shed = now, make([]bool, len(l.replicas))
	case least < lowThreshold:
		if s.began > 0 && now-s.began > worthShed {
			s.lasting++
			for _, shed := range s.shed {
				if !shed {
					s.late = append(s.late, now-s.began)
				}
			}
		}
		s.began = 0
	}
	for i, r := range l.replicas {
		sheds := r.queues["target"].Shedding(route, identity.Low, l.clock.Now())
		if sheds != s.sheds[i] {
			s.sheds[i] = sheds
			s.flips[i]++
		}
		if s.began > 0 && !s.shed[i] && sheds {
			s.shed[i] = true
			s.late = append(s.late, now-s.began)
		}
	}
	if now < l.scenario.Duration {
		l.clock.After(lookEvery, s.look)
	}
}

// TestLowIsShedWithinASecondOfTheCrossingAndDoesNotFlicker swaps the priorities of the
// burst scenario: the bursts are normal, and push KV usage past what low may use.
func TestLowIsShedWithinASecondOfTheCrossingAndDoesNotFlicker(t *testing.T) {
	s, err := loadtest.Load(filepath.Join("..", "scenarios", "burst.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.Duration = 4 * time.Minute // eight bursts
	if testing.Short() {
		s.Duration = 2 * time.Minute
	}
	s.Arrivals.PerSecond = 30 // so that every replica has low requests in every second
	s.Tenants[0].Weight, s.Tenants[1].Weight, s.Tenants[2].Weight = 1, 20, 0.1
	s.Tenants[1].Priority = map[string]float64{"low": 1}
	s.Tenants[2].Priority = map[string]float64{"normal": 1}
	l, err := newLab(s, &s.Cases[1], 1)
	if err != nil {
		t.Fatal(err)
	}
	swing := &swing{lab: l, sheds: make([]bool, len(l.replicas)), flips: make([]int, len(l.replicas))}
	l.clock.After(0, swing.look)
	if err := l.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	worst := time.Duration(0)
	for _, d := range swing.late {
		worst = max(worst, d)
	}
	t.Logf("%d crossings, %d times above for long, the last replica shed low %v after one", swing.crossings, swing.lasting, worst)
	if swing.lasting == 0 || worst > time.Second {
		t.Errorf("%d times above, the last replica shed low after %v; want some, and a second at most", swing.lasting, worst)
	}
	for i, flips := range swing.flips {
		t.Logf("replica %d: %d flips", i, flips)
		if flips > 2*swing.crossings {
			t.Errorf("replica %d flipped %d times in %d crossings", i, flips, swing.crossings)
		}
	}
	if row := l.result().Row(); row.HighLost > 0 || row.OOMDeaths > 0 {
		t.Errorf("%d of high lost, %d engines died", row.HighLost, row.OOMDeaths)
	}
}
