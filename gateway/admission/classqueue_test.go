package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/pool"
)

// queued has requests wait, each of which notes its name when it gets a place. Their
// waits do not end.
type queued struct {
	*bench
	order []string
}

func newQueued(t *testing.T) *queued {
	q := &queued{bench: newBench(t)}
	q.mem.places = 0
	q.cfg.MaxWait = [3]time.Duration{time.Hour, time.Hour, time.Hour}
	q.starvedServedAt = q.now // the trickle has a test of its own
	return q
}

func (q *queued) wait(class identity.Priority, tenant, name string, tokens int) *asked {
	q.now = q.now.Add(time.Microsecond)
	return q.enter(class, tenant, func(w *Ticket) {
		w.Tokens = tokens
		w.Try = func(l pool.Admission) error {
			err := q.mem.try(l)
			if err == nil {
				q.order = append(q.order, name)
			}
			return err
		}
	})
}

// free gives so many places and says who took them.
func (q *queued) free(n int) string {
	q.order, q.mem.places = nil, n
	q.serve(time.Microsecond)
	return strings.Join(q.order, " ")
}

func TestHighGoesBeforeNormalBeforeLow(t *testing.T) {
	q := newQueued(t)
	for i, class := range []identity.Priority{low, normal, high, low, normal, high} {
		q.wait(class, "t", fmt.Sprintf("%s%d", class, i), 100)
	}
	q.enter(low, "t", func(w *Ticket) {
		w.MidStream = true
		w.Try = func(l pool.Admission) error {
			err := q.mem.try(l)
			if err == nil {
				q.order = append(q.order, "must")
			}
			return err
		}
	})
	if got := q.free(100); got != "must high2 high5 normal1 normal4 low0 low3" {
		t.Error(got)
	}
	if q.Len() != 0 {
		t.Errorf("%d still wait", q.Len())
	}
}

func TestATenantWithMuchWaitingDoesNotHoldUpOneWithLittle(t *testing.T) {
	q := newQueued(t)
	for i := range 100 {
		q.wait(normal, "hot", fmt.Sprint("hot", i), 500)
	}
	if got := q.free(3); got != "hot0 hot1 hot2" {
		t.Error(got)
	}
	for i := range 5 {
		q.wait(normal, "light", fmt.Sprint("light", i), 500)
		if got := q.free(2); got != fmt.Sprintf("hot%d light%d", 3+i, i) {
			t.Errorf("round %d: %s", i, got)
		}
	}
	// Who has had nothing yet goes before who has had something while he waits.
	q.wait(normal, "light", "light5", 500)
	if got := q.free(1); got != "hot8" {
		t.Error(got)
	}
	if got := q.free(1); got != "light5" {
		t.Error(got)
	}
	if q.ClassLen(normal) != 91 {
		t.Errorf("%d wait", q.ClassLen(normal))
	}
}

func TestANewcomerQueuesBehindItsClassAndPassesThoseBelow(t *testing.T) {
	for _, c := range []struct {
		waits, comes identity.Priority
		passes       bool
	}{
		{low, low, false},
		{low, normal, true},
		{low, high, true},
		{normal, low, false},
		{normal, normal, false},
		{normal, high, true},
		{high, low, false},
		{high, normal, false},
		{high, high, false},
	} {
		q := newQueued(t)
		q.wait(c.waits, "a", "first", 100)
		q.mem.places = 1 // of which nobody was told
		tries := len(q.mem.asked)
		a := q.wait(c.comes, "b", "second", 100)
		if want := map[bool]string{true: "in", false: "waits"}[c.passes]; a.is() != want {
			t.Errorf("%s behind %s: %s", c.comes, c.waits, a.is())
		}
		if tried := len(q.mem.asked) > tries; tried != c.passes {
			t.Errorf("%s behind %s: tried %v", c.comes, c.waits, tried)
		}
	}
	q := newQueued(t)
	q.wait(normal, "a", "first", 100)
	q.mem.places = 1
	a := q.enter(low, "b", func(w *Ticket) { w.MidStream = true })
	q.want(a, "in") // one that must goes before all
}

func TestWhoLeavesIsTakenOutAndHearsNothing(t *testing.T) {
	q := newQueued(t)
	first, second := q.wait(low, "t", "first", 100), q.wait(low, "t", "second", 100)
	must := q.enter(low, "t", func(w *Ticket) { w.MidStream = true })
	if !q.Leave(&first.Ticket) || q.Leave(&first.Ticket) || !q.Leave(&must.Ticket) {
		t.Error("leaving twice, or not at all")
	}
	if q.Len() != 1 {
		t.Errorf("%d wait", q.Len())
	}
	if got := q.free(5); got != "second" || first.done != 0 || must.done != 0 || second.done != 1 {
		t.Errorf("%q, told %d, %d and %d times", got, first.done, must.done, second.done)
	}
	if q.Leave(&second.Ticket) || q.Leave(&Ticket{Tenant: "nobody"}) {
		t.Error("left, but was in, or never came")
	}
}

func TestTheLowestClassThatWaitsGetsTheRoomOfTheNextEveryTwoSeconds(t *testing.T) {
	for class, next := range map[identity.Priority]float64{low: 0.95, normal: 1} {
		q := newQueued(t)
		q.mem.places, q.mem.minimum = -1, next // there is room, but by what answers will grow to only for the next class
		for i := range 10 {
			q.wait(class, "t", fmt.Sprint(i), 100)
		}
		q.serve(2*time.Second - 20*time.Microsecond)
		if len(q.order) != 0 {
			t.Errorf("%s: %q within 2 s", class, q.order)
		}
		for range 200 { // 10 s
			q.serve(50 * time.Millisecond)
		}
		if got := strings.Join(q.order, " "); got != "0 1 2 3 4" {
			t.Errorf("%s: in 12 s: %q", class, got)
		}
		q.mem.minimum = next + 0.01
		for range 100 {
			q.serve(50 * time.Millisecond)
		}
		if len(q.order) != 5 {
			t.Errorf("%s got room that the next class has not: %q", class, q.order)
		}
		q.mem.minimum = next
		q.serve(50 * time.Millisecond)
		if len(q.order) != 6 {
			t.Errorf("%s: %q", class, q.order)
		}
	}
}
