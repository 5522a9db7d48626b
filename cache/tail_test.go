package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

// longest is the longest of some times.
type longest struct{ ns atomic.Int64 }

func (l *longest) note(d time.Duration) {
	for {
		was := l.ns.Load()
		if int64(d) <= was || l.ns.CompareAndSwap(was, int64(d)) {
			return
		}
	}
}

func TestALeaderThatDiesBetweenAnyTwoPiecesIsReplacedByOneOther(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	s := redistest.Start(t)
	var replaced longest
	var names []string
	for n := range 2 * (len(theAnswer) + 1) {
		names = append(names, fmt.Sprintf("after %d, speaking %v", n/2, n%2 > 0))
	}
	atOnce(t, names, func(t *testing.T, i int) { replaced.note(dieAfter(t, s, i/2, i%2 > 0)) })
	t.Logf("another led after %v at most", time.Duration(replaced.ns.Load()).Round(time.Millisecond))
}

// dieAfter has two replicas follow one that dies after n pieces, or as it publishes one more, and says how long it
// took until one of them led.
func dieAfter(t *testing.T, srv *redistest.Server, n int, speaking bool) (took time.Duration) {
	t.Helper()
	raw := srv.Client
	one, two, three := peerAt(t, srv.Addr), peerAt(t, srv.Addr), peerAt(t, srv.Addr)
	id := streamed(2 * n)
	if speaking {
		id = streamed(2*n + 1)
	}
	leader, lead := one.leads(t, id)
	a, lease := two.followsAnother(t, id)
	b, _ := three.followsAnother(t, id)
	isFollowed(t, leader)
	for _, piece := range theAnswer[:n] {
		lead.Append([]byte(piece))
		wantText(t, a, piece)
		wantText(t, b, piece)
	}
	if speaking {
		lead.Append([]byte(strings.Join(append(theAnswer[n:], ""), "")))
	}
	one.kill()
	died := time.Now()
	if ttl := raw.PTTL(t.Context(), lease.Name).Val(); ttl > leaseTTL*time.Millisecond {
		t.Errorf("its lease holds for %v", ttl)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var ledHere atomic.Int64
	served := [2]guest{}
	var all sync.WaitGroup
	for i, p := range []*peer{two, three} {
		seat := []*Subscriber{a, b}[i]
		all.Go(func() {
			served[i] = p.serve(ctx, seat, id, func(lead *Leader) bool {
				ledHere.Store(int64(time.Since(died)))
				return p.gives(text8, id)(lead)
			})
		})
	}
	all.Wait()
	made := 0
	for i, g := range served {
		g.told = append([]byte(strings.Join(theAnswer[:n], "")), g.told...)
		g.wantsWhole(t, text8)
		made += served[i].made
	}
	if made != 1 {
		t.Errorf("%d generations after the death, want 1", made)
	}
	lead.Fail(errors.New("dead"), true)
	leader.Depart()
	return time.Duration(ledHere.Load())
}

func TestIdenticalRequestsOnThreeReplicasAreAllAnsweredWhereTheLeaderDies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	peers := []*peer{peerAt(t, s.Addr), peerAt(t, s.Addr), peerAt(t, s.Addr)}
	id := streamed(1)
	var dead atomic.Pointer[peer]
	served := stampede(t, peers, id, 300, func(p *peer) func(*Leader) bool {
		return func(lead *Leader) bool {
			if !dead.CompareAndSwap(nil, p) {
				return p.gives(text8, id)(lead)
			}
			lead.Begin(func(error) {})
			lead.Append([]byte(theAnswer[0]))
			redistest.Within(t, 10*time.Second, "the first piece is told", func() bool { return lead.generation.number() > 0 })
			p.kill()
			lead.Fail(errors.New("dead"), true)
			return false
		}
	})
	made := 0
	for i, guests := range served {
		if peers[i] == dead.Load() {
			continue
		}
		for _, g := range guests {
			made += g.made
			g.wantsWhole(t, text8)
		}
	}
	if made != 1 {
		t.Errorf("%d generations after the death, want 1", made)
	}
}

func TestWhereRedisStopsEachReplicaAnswersByItself(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	for _, how := range []struct {
		name string
		end  func(*redistest.Server)
	}{{"killed", (*redistest.Server).Kill}, {"frozen", (*redistest.Server).Freeze}} {
		t.Run(how.name, func(t *testing.T) {
			s := redistest.Start(t)
			one, two := peerAt(t, s.Addr), peerAt(t, s.Addr)
			id := streamed(1)
			leader, lead := one.leads(t, id)
			follower, _ := two.followsAnother(t, id)
			lead.Append([]byte(theAnswer[0]))
			wantText(t, follower, theAnswer[0])
			how.end(s)
			stopped := time.Now()
			n := want(t, follower, EventLead)
			t.Logf("a follower leads after %v", time.Since(stopped).Round(time.Millisecond))
			second, _, found := two.turn(t.Context(), n, id)
			if second == nil || found == FoundHit || found == FoundLead || found == FoundFollow {
				t.Fatalf("found %s, and Redis is away", found)
			}
			two.gives(text8, id)(second)
			n = next(t, follower)
			if n.Kind == EventText {
				n = next(t, follower)
			}
			if n.Kind != EventComplete || string(n.Entry.Answer) != text8 {
				t.Fatalf("event %d: %v", n.Kind, n.Err)
			}
			lead.Append([]byte(text8[len(theAnswer[0]):]))
			one.kept(t, lead, id, wholeOf(text8)) // that it will never be is told, too
			departed(leader, follower)
		})
	}
}

func TestWhateverIsDoneToALeaseOrItsPiecesEveryoneIsAnswered(t *testing.T) {
	t.Parallel()
	type harm func(ctx context.Context, c *redis.Client, l *Lease) error
	harms := map[string]harm{
		"the pieces are deleted": func(ctx context.Context, c *redis.Client, l *Lease) error { return c.Del(ctx, l.chunks()).Err() },
		"the pieces are text": func(ctx context.Context, c *redis.Client, l *Lease) error {
			return c.Set(ctx, l.chunks(), "x", 0).Err()
		},
		"the pieces are a list": func(ctx context.Context, c *redis.Client, l *Lease) error {
			return errors.Join(c.Del(ctx, l.chunks()).Err(), c.RPush(ctx, l.chunks(), "x").Err())
		},
		"the pieces are cut": func(ctx context.Context, c *redis.Client, l *Lease) error {
			return c.XTrimMaxLen(ctx, l.chunks(), 0).Err()
		},
		"the lease is deleted": func(ctx context.Context, c *redis.Client, l *Lease) error { return c.Del(ctx, l.Name).Err() },
		"the lease is a hash": func(ctx context.Context, c *redis.Client, l *Lease) error {
			return errors.Join(c.Del(ctx, l.Name).Err(), c.HSet(ctx, l.Name, "a", "b").Err())
		},
		"the lease is empty": func(ctx context.Context, c *redis.Client, l *Lease) error {
			return c.Set(ctx, l.Name, "", time.Minute).Err()
		},
		"the lease has no end": func(ctx context.Context, c *redis.Client, l *Lease) error {
			return c.Set(ctx, l.Name, "other", 0).Err()
		},
		"the lease is one who is mute's": func(ctx context.Context, c *redis.Client, l *Lease) error {
			return c.Set(ctx, l.Name, "other", time.Minute).Err()
		},
		"all is flushed": func(ctx context.Context, c *redis.Client, _ *Lease) error { return c.FlushAll(ctx).Err() },
	}
	s := redistest.Start(t)
	for name, harm := range harms {
		for _, goesOn := range []bool{true, false} { // or is whole at once
			t.Run(fmt.Sprintf("%s, goes on %v", name, goesOn), func(t *testing.T) {
				raw := s.Client
				must(t, raw.FlushAll(t.Context()).Err())
				one, two := peerAt(t, s.Addr), peerAt(t, s.Addr)
				id := streamed(1)
				leader, lead := one.leads(t, id)
				follower, lease := two.followsAnother(t, id)
				lead.Append([]byte(theAnswer[0]))
				wantText(t, follower, theAnswer[0])
				must(t, harm(t.Context(), raw, lease))
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				served := make(chan guest)
				go func() { served <- two.serve(ctx, follower, id, two.gives(text8, id)) }()
				if goesOn {
					lead.Append([]byte(text8[len(theAnswer[0]):]))
					one.talk(t.Context(), one.beats)
				}
				one.kept(t, lead, id, wholeOf(text8))
				g := <-served
				g.told = append([]byte(theAnswer[0]), g.told...)
				g.wantsWhole(t, text8)
				departed(leader)
			})
		}
	}
}

func TestAHolderThatIsNotHeardIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		id := streamed(1)
		leader, lead := one.leads(t, id)
		follower, lease := two.followsAnother(t, id)
		lead.Append([]byte(theAnswer[0]))
		wantText(t, follower, theAnswer[0])
		must(t, raw.Del(t.Context(), lease.chunks()).Err()) // and it has nothing to say for now
		n := want(t, follower, EventLead)
		second, _, found := two.turn(t.Context(), n, id)
		if found != FoundFollow || second != nil {
			t.Fatalf("found %s, want to follow anew", found)
		}
		one.kept(t, lead, id, wholeOf(text8))
		g := two.serve(t.Context(), follower, id, two.gives(text8, id))
		g.wantsWhole(t, text8)
		leader.Depart()
	})
}

func TestALeaderThatIsLostAgainAndAgainIsNotFollowedForEver(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		p := peerAt(t, addr)
		id := streamed(1)
		s := p.Join(id)
		for n := 0; ; n++ {
			turn := want(t, s, EventLead)
			must(t, raw.Set(t.Context(), newLease(id).Name, "another", time.Minute).Err())
			lead, lease, found := p.turn(t.Context(), turn, id)
			if found != FoundFollow {
				t.Fatalf("found %s, want to follow", found)
			}
			if lead != nil {
				if n != maxLostLeaders || lease != nil {
					t.Errorf("it leads after %d were lost, want %d, and without a lease", n, maxLostLeaders)
				}
				lead.Begin(func(error) {})
				lead.Complete(wholeOf("x"), nil)
				break
			}
			must(t, raw.Del(t.Context(), lease.Name).Err())
		}
		want(t, s, EventComplete)
		s.Depart()
	})
}

// forger writes elements that the holder did not write.
type forger struct {
	sealer *Sealer
	key    Key
	lease  *Lease
	first  string // piece 0, as the holder sealed it
}

func (f forger) text(n any, d string) []any { return []any{"t", f.lease.Holder, "n", n, "d", d} }
func (f forger) last(e string) []any        { return []any{"t", f.lease.Holder, "n", 1, "e", e} }

func (f forger) seal(k Key, holder string, n int) string {
	return string(f.sealer.SealBytes(k, f.lease.pieceLabel(holder, n), []byte("forged")))
}

func (f forger) entry(k Key, size int) string {
	return string(f.sealer.Seal(k, wholeOf(strings.Repeat("f", size))))
}

func (f forger) flipped() string {
	b := []byte(f.first)
	b[len(b)/2] ^= 1
	return string(b)
}

// forgeries are such elements, and whether they are passed over: then the holder's go on.
var forgeries = []struct {
	name     string
	passedBy bool
	values   func(f forger) []any
}{
	{"a changed piece", false, func(f forger) []any { return f.text(1, f.flipped()) }},
	{"a piece of another number", false, func(f forger) []any { return f.text(1, f.first) }},
	{"a piece of another request", false, func(f forger) []any { return f.text(1, f.seal(keyNo(99), f.lease.Holder, 1)) }},
	{"a piece of another holder", false, func(f forger) []any { return f.text(1, f.seal(f.key, "another", 1)) }},
	{"an entry for a piece", false, func(f forger) []any { return f.text(1, f.entry(f.key, 10)) }},
	{"an empty piece", false, func(f forger) []any { return f.text(1, "") }},
	{"a cut piece", false, func(f forger) []any { return f.text(1, f.first[:len(f.first)-1]) }},
	{"a piece after a gap", false, func(f forger) []any { return f.text(2, f.seal(f.key, f.lease.Holder, 2)) }},
	{"a piece twice", false, func(f forger) []any { return f.text(0, f.first) }},
	{"a number below zero", false, func(f forger) []any { return f.text(-1, f.seal(f.key, f.lease.Holder, -1)) }},
	{"a huge number", false, func(f forger) []any { return f.text("9223372036854775807", f.first) }},
	{"another request's answer", false, func(f forger) []any { return f.last(f.entry(keyNo(99), 10)) }},
	{"an answer that is cut", false, func(f forger) []any { e := f.entry(f.key, 10); return f.last(e[:len(e)-1]) }},
	{"an answer that is too large", false, func(f forger) []any { return f.last(f.entry(f.key, 1<<20+1)) }},
	{"a piece for the answer", false, func(f forger) []any { return f.last(f.first) }},
	{"junk for the answer", false, func(f forger) []any { return f.last("junk") }},
	{"no answer", false, func(f forger) []any { return f.last("") }},
	{"no number", true, func(f forger) []any { return f.text("one", f.first) }},
	{"a number that is too large", true, func(f forger) []any { return f.text("99999999999999999999", f.first) }},
	{"neither text nor answer", true, func(f forger) []any { return []any{"t", f.lease.Holder, "n", 1, "x", f.first} }},
	{"another's word", true, func(forger) []any { return []any{"t", "another", "n", 1, "e", ""} }},
	{"nobody's word", true, func(forger) []any { return []any{"n", 1, "e", ""} }},
}

func TestAPieceThatTheHolderDidNotWriteIsAsGoodAsItsDeath(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		var names []string
		for _, f := range forgeries {
			names = append(names, f.name)
		}
		atOnce(t, names, func(t *testing.T, i int) {
			id := streamed(i)
			leader, lead := one.leads(t, id)
			follower, lease := two.followsAnother(t, id)
			lead.Append([]byte(theAnswer[0]))
			wantText(t, follower, theAnswer[0])
			stream := raw.XRange(t.Context(), lease.chunks(), "-", "+").Val()
			first, _ := stream[len(stream)-1].Values["d"].(string)
			f := forgeries[i]
			values := f.values(forger{one.o.Sealer, id.Key, lease, first})
			must(t, raw.XAdd(t.Context(), &redis.XAddArgs{Stream: lease.chunks(), Values: values}).Err())
			if f.passedBy {
				lead.Append([]byte(theAnswer[1]))
				wantText(t, follower, theAnswer[1])
				lead.Complete(wholeOf(text8), nil)
				want(t, follower, EventComplete)
				departed(leader, follower)
				return
			}
			n := next(t, follower)
			if n.Kind != EventLead || string(follower.Sent()) != theAnswer[0] {
				t.Fatalf("event %d, told %q; want to lead", n.Kind, follower.Sent())
			}
			n.Leader.Fail(errors.New("enough"), true)
			lead.Fail(errors.New("enough"), true)
			departed(leader, follower)
		})
	})
}

func TestPiecesThatCannotBeReadAreAnErrorAndNotSilence(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, _ string, raw *redis.Client) {
		l := newLease(streamed(1))
		l.Holder = "another"
		wrong := func(what string) {
			t.Helper()
			if got, err := l.read(t.Context(), raw, ""); !redis.HasErrorPrefix(err, "WRONGTYPE") || got.leaseValid {
				t.Errorf("%s: read %+v, %v", what, got, err)
			}
		}
		must(t, raw.Set(t.Context(), l.Name, l.Holder, time.Minute).Err())
		must(t, raw.XAdd(t.Context(), &redis.XAddArgs{Stream: l.chunks(), Values: []any{"t", l.Holder, "n", 0, "d", "sealed"}}).Err())
		if got, err := l.read(t.Context(), raw, ""); err != nil || !got.leaseValid || len(got.pieces) != 1 {
			t.Fatalf("read %+v, %v", got, err)
		}
		must(t, raw.Set(t.Context(), l.chunks(), "x", time.Minute).Err())
		wrong("the pieces are text")
		must(t, raw.Del(t.Context(), l.chunks(), l.Name).Err())
		must(t, raw.HSet(t.Context(), l.Name, "a", "b").Err())
		wrong("the lease is a hash")
	})
}

func FuzzWhatAFollowerReads(f *testing.F) {
	sealer, err := NewSealer()
	must(f, err)
	k := keyNo(1)
	l := &Lease{Name: "lease", Holder: "holder"}
	fs := NewGenerations(GenerationOptions{Sealer: sealer, MaxEntry: func() int { return 1 << 16 }})
	for n := range 3 {
		f.Add("holder", fmt.Sprint(n), sealer.SealBytes(k, l.pieceLabel("holder", n), []byte(theAnswer[n])), false, n)
	}
	f.Add("holder", "3", sealer.Seal(k, wholeOf(text8)), true, 3)
	f.Add("holder", "3", []byte(nil), true, 3)
	f.Add("another", "-1", []byte("x"), true, 0)
	f.Fuzz(func(t *testing.T, holder, n string, value []byte, last bool, next int) {
		field := "d"
		if last {
			field = "e"
		}
		odd := map[string]any{"t": n, "n": 1, field: []string{holder}}
		got := l.deliveryOf("0-1", false, []redis.XMessage{
			{ID: "1-1", Values: odd}, {ID: "1-2"}, {ID: "1-3", Values: map[string]any{"t": holder, "n": n, field: string(value)}},
		})
		if got.leaseValid || got.cursor != "1-3" || len(got.pieces) > 1 || len(got.pieces) == 1 && holder != l.Holder {
			t.Fatalf("read %+v", got)
		}
		for _, p := range got.pieces {
			text, e, err := fs.take(k, l, p, next)
			switch {
			case err != nil:
			case p.last && string(e.Answer) != text8:
				t.Errorf("a whole answer %q", e.Answer)
			case !p.last && (next < 0 || next > 2 || string(text) != theAnswer[next]):
				t.Errorf("piece %d is %q", next, text)
			}
		}
	})
}
