package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// replicas are sets of the same operators that share a Redis.
type replicas struct {
	t     *testing.T
	redis *miniredis.Miniredis
	now   time.Time
	log   strings.Builder
}

func shared(t *testing.T) *replicas {
	t.Helper()
	return &replicas{t: t, redis: miniredis.RunT(t), now: time.Unix(1e9, 0)}
}

// another starts a replica.
func (r *replicas) another() *Set {
	r.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: r.redis.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	r.t.Cleanup(func() { _ = client.Close() })
	s := New(Options{Redis: client, Logger: zerolog.New(&r.log), Now: func() time.Time { return r.now }})
	if err := s.Apply(file("ann operate " + annsToken)); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// hear is a round of Run.
func (r *replicas) hear(all ...*Set) {
	for _, s := range all {
		s.revocations.exchangeAndLog(r.t.Context(), s.now)
	}
}

func good(s *Set, x Session) bool {
	_, ok := s.Session(x.Value)
	return ok
}

func TestASessionThatWasEndedIsOverAtAllReplicasAndNoOther(t *testing.T) {
	r := shared(t)
	a, b := r.another(), r.another()
	x, other := a.BeginSession(a.Authenticate(annsToken)), a.BeginSession(a.Authenticate(annsToken))
	if !good(b, x) {
		t.Fatal("the other replica does not know the session")
	}
	if err := a.EndSession(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if good(a, x) {
		t.Error("it is good where it was ended")
	}
	r.hear(b)
	late := r.another()
	r.hear(late)
	for name, s := range map[string]*Set{"here": a, "there": b, "at one that starts later": late} {
		if good(s, x) || !good(s, other) {
			t.Errorf("%s: ended %v, another %v", name, good(s, x), good(s, other))
		}
	}
}

func TestWithoutRedisASessionEndsHereAndElsewhereWhenItIsBack(t *testing.T) {
	r := shared(t)
	a, b := r.another(), r.another()
	x, before := a.BeginSession(a.Authenticate(annsToken)), a.BeginSession(a.Authenticate(annsToken))
	if err := a.EndSession(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	r.hear(b)
	r.redis.Close()
	if err := a.EndSession(t.Context(), x); err == nil {
		t.Error("nobody says that the others were not told")
	}
	r.hear(b)
	if good(a, x) || !good(b, x) || good(b, before) {
		t.Errorf("here %v, there %v, one of before %v", good(a, x), good(b, x), good(b, before))
	}
	if err := r.redis.Restart(); err != nil {
		t.Fatal(err)
	}
	r.redis.FlushAll() // it has lost its data
	r.hear(a, b)
	if good(b, x) || good(b, before) || len(r.members()) != 2 {
		t.Errorf("after that: there %v, one of before %v, in Redis %q", good(b, x), good(b, before), r.members())
	}
	if r.log.Len() > 0 {
		t.Errorf("logged: %s", r.log.String())
	}
}

// members are the ids in Redis.
func (r *replicas) members() []string {
	ids, _ := r.redis.ZMembers(keyRevoked) // none where there is no key
	return ids
}

func TestTooManyEndedSessionsEndThoseThatWereBegunEarlier(t *testing.T) {
	r := shared(t)
	a, b := r.another(), r.another()
	first := a.BeginSession(a.Authenticate(annsToken))
	if err := a.EndSession(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	bystander := a.BeginSession(a.Authenticate(annsToken))
	for range maxRevoked + 9 {
		r.now = r.now.Add(time.Second)
		x := a.BeginSession(a.Authenticate(annsToken))
		a.revocations.add(map[string]int64{x.id: x.expires}, r.now)
	}
	r.now = r.now.Add(time.Second)
	after := a.BeginSession(a.Authenticate(annsToken))
	r.hear(a, b)
	late := r.another()
	r.hear(late)
	for i, s := range []*Set{a, b, late} {
		if good(s, first) || good(s, bystander) || !good(s, after) || len(s.revocations.revoked.expiries) > maxRevoked {
			t.Errorf("replica %d: the first %v, one begun early %v, one begun after %v, %d kept", i, good(s, first), good(s, bystander), good(s, after), len(s.revocations.revoked.expiries))
		}
	}
	if n := len(r.members()); n > maxRevoked {
		t.Errorf("Redis has %d", n)
	}
}
