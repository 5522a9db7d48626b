package fleet

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// redial is how long go-redis waits between attempts to dial a server that is away.
const redial = time.Second

// fleetOf runs replicas that share the work on 50 backends.
func fleetOf(t *testing.T, s *server, ids ...string) []*member {
	t.Helper()
	var members []*member
	for _, id := range ids {
		m := join(t, options(s.addr), id)
		m.run(t)
		members = append(members, m)
	}
	return members
}

// together says whether all are members of one fleet.
func together(members []*member) func() bool {
	return func() bool {
		for _, m := range members {
			if m.Mode() != Shared || len(m.Members()) != len(members) {
				return false
			}
		}
		return true
	}
}

func TestAKilledRedisMakesEveryReplicaLocalAndItsReturnSharedAgain(t *testing.T) {
	s := serve(t)
	members := fleetOf(t, s, "a", "b", "c")
	within(t, 5*time.Second, "they found each other", together(members))
	oneEach(t, owners("small", 50, members...))
	s.stop()
	local := func() bool {
		return !slices.ContainsFunc(members, func(m *member) bool { return m.Mode() != Local || !m.Mine("small", "b0") })
	}
	if took := within(t, 5*time.Second, "all are local", local); took > goneAfter+500*time.Millisecond {
		t.Errorf("local after %v", took)
	}
	members[0].Publish("small", "b0", busy(time.Now(), 0.4))
	s.start()
	took := within(t, 10*time.Second, "they found each other again", together(members))
	if took > redial+2*takeover {
		t.Errorf("shared again after %v", took)
	}
	oneEach(t, owners("small", 50, members...))
	members[1].Publish("small", "b1", busy(time.Now(), 0.5))
	within(t, 5*time.Second, "a reading arrives", func() bool { return members[2].small.reading("b1").KVUsage == 0.5 })
}

func TestAFrozenRedisHoldsNobody(t *testing.T) {
	s := serve(t)
	members := fleetOf(t, s, "a", "b")
	within(t, 5*time.Second, "they found each other", together(members))
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	members[0].Publish("small", "b0", busy(begun, 0.4))
	members[0].Place("small", placements(100))
	if took := time.Since(begun); took > 50*time.Millisecond {
		t.Errorf("the queues took %v", took)
	}
	within(t, 5*time.Second, "all are local", func() bool { return members[0].Mode() == Local && members[1].Mode() == Local })
	begun = time.Now()
	if err := members[0].Drain(t.Context(), "small", "b0", "why", 0); err == nil || time.Since(begun) > time.Second {
		t.Errorf("drain: %v after %v", err, time.Since(begun))
	}
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "they found each other again", together(members))
}

func TestADeadReplicaIsTakenOverWithinTwoSeconds(t *testing.T) {
	s := serve(t)
	members := fleetOf(t, s, "a", "b")
	dead := join(t, options(s.addr), "c")
	ticks(t, dead) // it says no more
	died := time.Now()
	within(t, 5*time.Second, "they know of it", func() bool { return len(members[0].Members()) == 3 && len(members[1].Members()) == 3 })
	within(t, 5*time.Second, "they know of its death", together(members))
	if took := time.Since(died); took > takeover+200*time.Millisecond {
		t.Errorf("taken over after %v", took)
	}
	oneEach(t, owners("small", 50, members...))
}

func TestAPartitionedReplicaIsLocalWhileTheOthersShare(t *testing.T) {
	s := serve(t)
	members := fleetOf(t, s, "a", "b")
	cut := &switchboard{}
	o := options(s.addr)
	o.Dialer = cut.dial
	lonely := join(t, o, "c")
	lonely.run(t)
	all := append(slices.Clone(members), lonely)
	within(t, 5*time.Second, "they found each other", together(all))
	cut.off.Store(true)
	within(t, 5*time.Second, "it is alone, and they are two", func() bool { return lonely.Mode() == Local && together(members)() })
	oneEach(t, owners("small", 50, members...))
	cut.off.Store(false)
	within(t, 10*time.Second, "they found each other again", together(all))
	oneEach(t, owners("small", 50, all...))
}

func TestLeavingTellsARealRedis(t *testing.T) {
	s := serve(t)
	a, b := join(t, options(s.addr), "a"), join(t, options(s.addr), "b")
	a.run(t)
	stop := b.run(t)
	within(t, 5*time.Second, "they found each other", together([]*member{a, b}))
	stop()
	if got, err := a.redis.ZRange(t.Context(), keyReplicas, 0, -1).Result(); err != nil || fmt.Sprint(got) != "[a]" {
		t.Errorf("the set holds %v, %v", got, err)
	}
	within(t, takeover, "a has everything", func() bool { return len(owners("small", 50, a)["b0"]) == 1 && len(a.Members()) == 1 })
}

// switchboard makes connections that fail while it is off.
type switchboard struct{ off atomic.Bool }

func (b *switchboard) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if b.off.Load() {
		return nil, syscall.ECONNREFUSED
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	return &severable{c, b}, err
}

type severable struct {
	net.Conn
	board *switchboard
}

func (c *severable) Write(b []byte) (int, error) {
	if c.board.off.Load() {
		return 0, syscall.ECONNRESET
	}
	return c.Conn.Write(b)
}
