package fleet

import (
	"testing"
	"time"

	"github.com/foregate/foregate/internal/redistest"
)

// fleetOf runs replicas that share the work on 50 backends.
func fleetOf(t *testing.T, s *redistest.Server, ids ...string) []*member {
	t.Helper()
	var members []*member
	for _, id := range ids {
		m := join(t, redistest.Background(s.Addr), id)
		m.run(t)
		members = append(members, m)
	}
	return members
}

// together says whether all are members of one fleet.
func together(members []*member) func() bool {
	return func() bool {
		for _, m := range members {
			if !m.Sharing() || len(m.Members()) != len(members) {
				return false
			}
		}
		return true
	}
}

func TestAFrozenRedisHoldsNobody(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	members := fleetOf(t, s, "a", "b")
	redistest.Within(t, 5*time.Second, "they found each other", together(members))
	s.Freeze()
	begun := time.Now()
	members[0].Publish("small", "b0", busy(begun, 0.4))
	members[0].Place("small", placements(100))
	if took := time.Since(begun); took > 50*time.Millisecond {
		t.Errorf("the queues took %v", took)
	}
	redistest.Within(t, 5*time.Second, "all are local", func() bool { return !members[0].Sharing() && !members[1].Sharing() })
	begun = time.Now()
	if err := members[0].Drain(t.Context(), "small", "b0", "why", 0); err == nil || time.Since(begun) > time.Second {
		t.Errorf("drain: %v after %v", err, time.Since(begun))
	}
	s.Thaw()
	redistest.Within(t, 10*time.Second, "they found each other again", together(members))
}
