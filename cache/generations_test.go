package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

var text8 = strings.Join(theAnswer, "")

func TestAFollowerOnAnotherReplicaIsToldTheTextWhileItIsMadeAndThenTheWhole(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		id := streamed(1)
		leader, lead := one.leads(t, id)
		lead.Append([]byte(theAnswer[0])) // before anybody follows
		follower, lease := two.followsAnother(t, id)
		wantText(t, follower, theAnswer[0])
		for _, piece := range theAnswer[1:] {
			lead.Append([]byte(piece))
			wantText(t, follower, piece)
		}
		if !leader.Shared() {
			t.Error("the leader does not know that its answer is wanted elsewhere")
		}
		one.kept(t, lead, id, wholeOf(text8))
		n := want(t, follower, EventComplete)
		if string(n.Entry.Answer) != text8 || n.Entry.Tier != "target" {
			t.Errorf("the whole is %+v", n.Entry)
		}
		departed(leader, follower)
		redistest.Within(t, 10*time.Second, "the lease is given back", func() bool { return raw.Exists(t.Context(), lease.Name).Val() == 0 })
		if ttl := raw.PTTL(t.Context(), lease.chunks()).Val(); ttl <= 0 || ttl > endTTL*time.Millisecond {
			t.Errorf("the pieces are kept for %v", ttl)
		}
		wantFound(t, two.store, id.Key, nil, FoundHit)
	})
}

func TestALongAnswerIsToldInPiecesThatAddUp(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		id := streamed(1)
		leader, lead := one.leads(t, id)
		follower, _ := two.followsAnother(t, id)
		isFollowed(t, leader)
		text := strings.Repeat("0123456789abcdef", 5*pieceSize/2/16) + "end" // two pieces and a half
		lead.Append([]byte(text))
		for len(follower.Sent()) < len(text) {
			want(t, follower, EventText)
		}
		if string(follower.Sent()) != text {
			t.Error("the pieces do not add up")
		}
		one.kept(t, lead, id, wholeOf(text))
		want(t, follower, EventComplete)
		departed(leader, follower)
	})
}

func TestAnAnswerThatIsNotKeptIsToldToThoseWhoFollow(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		for n, stream := range []bool{true, false} {
			id := GenerationID{Key: keyNo(n), Stream: stream}
			leader, lead := one.leads(t, id)
			follower, _ := two.followsAnother(t, id)
			isFollowed(t, leader)
			lead.Append([]byte(text8))
			lead.Complete(wholeOf(text8), nil)
			for n := next(t, follower); n.Kind != EventComplete; n = next(t, follower) {
				if n.Kind != EventText || !stream {
					t.Fatalf("event %d: %v", n.Kind, n.Err)
				}
			}
			departed(leader, follower)
			wantFound(t, two.store, id.Key, nil, FoundNone)
		}
	})
}

func TestAnAnswerThatIsNotStreamedIsToldAsAWholeOnly(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		id := GenerationID{Key: keyNo(1)}
		leader, lead := one.leads(t, id)
		follower, lease := two.followsAnother(t, id)
		isFollowed(t, leader)
		lead.Append([]byte(text8))
		one.talk(t.Context(), one.pieces) // as Run does
		if n := raw.XLen(t.Context(), lease.chunks()).Val(); n != 1 {
			t.Errorf("the stream has %d elements, want only the one that says that somebody follows", n)
		}
		one.kept(t, lead, id, wholeOf(text8))
		want(t, follower, EventComplete)
		departed(leader, follower)
	})
}

func TestAnAnswerThatNobodyFollowsIsNotSent(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		one := peerAt(t, addr)
		id := streamed(1)
		leader, lead := one.leads(t, id)
		lead.Append([]byte(text8))
		one.kept(t, lead, id, wholeOf(text8))
		want(t, leader, EventComplete)
		leader.Depart()
		name := newLease(id)
		redistest.Within(t, 10*time.Second, "the lease is given back", func() bool { return raw.Exists(t.Context(), name.Name).Val() == 0 })
		if raw.Exists(t.Context(), name.chunks()).Val() != 0 {
			t.Error("there are pieces")
		}
	})
}

func TestAnAnswerThatFailsLetsAnotherReplicaTryAtOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		id := streamed(1)
		leader, lead := one.leads(t, id)
		follower, _ := two.followsAnother(t, id)
		lead.Append([]byte(theAnswer[0]))
		wantText(t, follower, theAnswer[0])
		lead.Fail(errors.New("it broke off"), false)
		leader.Depart()
		second, _, found := two.turn(t.Context(), want(t, follower, EventLead), id)
		if found != FoundLead {
			t.Fatalf("found %s, want to lead", found)
		}
		second.Begin(func(error) {})
		second.Append([]byte(text8))
		wantText(t, follower, text8[len(theAnswer[0]):])
		two.kept(t, second, id, wholeOf(text8))
		want(t, follower, EventComplete)
		follower.Depart()
	})
}

func TestALeaderWhoseClientsLeftGoesOnForAnotherReplica(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		id := streamed(1)
		s := one.Join(id)
		lead, lease, _ := one.turn(t.Context(), want(t, s, EventLead), id)
		var cancelled atomic.Bool
		lead.Begin(func(error) { cancelled.Store(true) })
		follower, _ := two.followsAnother(t, id)
		isFollowed(t, s)
		s.Depart()
		lead.Append([]byte(theAnswer[0]))
		wantText(t, follower, theAnswer[0])
		if cancelled.Load() {
			t.Fatal("it was cancelled, and another replica follows")
		}
		follower.Depart()
		must(t, raw.Del(t.Context(), lease.Name).Err()) // now it is nobody's
		redistest.Within(t, 10*time.Second, "what nobody can follow and nobody wants is cancelled", cancelled.Load)
		lead.Fail(context.Canceled, false)
	})
}

func TestFollowersHereAreToldEvenWhereNothingCanBePublished(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		id := streamed(1)
		leader, lead := one.leads(t, id)
		here := one.Join(id)
		there, lease := two.followsAnother(t, id)
		lead.Append([]byte(theAnswer[0]))
		wantText(t, here, theAnswer[0])
		wantText(t, there, theAnswer[0])
		there.Depart()
		must(t, raw.Set(t.Context(), lease.chunks(), "no stream", time.Minute).Err())
		lead.Append([]byte(theAnswer[1]))
		redistest.Within(t, 10*time.Second, "publishing has failed", func() bool {
			here.generation.mu.Lock()
			defer here.generation.mu.Unlock()
			return here.generation.muted
		})
		wantText(t, here, theAnswer[1])
		lead.Append([]byte(theAnswer[2]))
		wantText(t, here, theAnswer[2])
		lead.Complete(wholeOf(text8), nil)
		departed(leader, here)
	})
}

func TestTheNextAttemptHasALeaseAndPiecesOfItsOwn(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		s := fs.Join(streamed(1))
		first := want(t, s, EventLead).Leader
		f := s.generation
		old, own := newLease(f.id), newLease(f.id)
		old.taken, own.taken = true, true
		first.lease = old
		first.Begin(func(error) {})
		first.Append([]byte("one"))
		piece := sent{reply: redis.NewCmdResult(int64(1), nil), attempt: f.attempt, upTo: 3}
		first.Fail(errors.New("failed"), false)
		second := want(t, s, EventLead).Leader
		second.lease = own
		second.Begin(func(error) {})
		second.Append([]byte("one two"))
		f.handleSent(piece) // the reply was under way
		fs.follows(f, old, true)
		fs.lose(f, old)
		if f.published != 0 || f.pieces != 0 || f.hasFollower {
			t.Error("what the first attempt published is the second's")
		}
		if len(fs.ended) != 1 || fs.ended[0].lease != old || fs.leasesHeld[f] != own {
			t.Error("it was not the first attempt's lease that was given back")
		}
		second.Complete(wholeOf("one two"), nil)
		s.Depart()
	})
}

func TestScriptsThatWereFlushedAreLoadedAgain(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		flush := func() { must(t, raw.ScriptFlush(t.Context()).Err()) }
		for n := range 3 {
			id := streamed(n)
			flush()
			leader, lead := one.leads(t, id)
			flush()
			follower, _ := two.followsAnother(t, id)
			for _, piece := range theAnswer[:3] {
				flush()
				lead.Append([]byte(piece))
				wantText(t, follower, piece)
			}
			flush()
			lead.Complete(wholeOf(text8), nil)
			want(t, follower, EventComplete)
			departed(leader, follower)
		}
	})
}

func TestAReplicaThatStopsLetsItsFollowersLead(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		id := streamed(1)
		leader, lead := one.leads(t, id)
		follower, _ := two.followsAnother(t, id)
		lead.Append([]byte(theAnswer[0]))
		wantText(t, follower, theAnswer[0])
		two.stop()
		n := want(t, follower, EventLead)
		second, _, found := two.turn(t.Context(), n, id)
		if found != FoundFollow || second == nil {
			t.Fatalf("found %s, lead %v; want to lead because nobody may be followed any more", found, second)
		}
		second.Begin(func(error) {})
		second.Append([]byte(text8))
		wantText(t, follower, text8[len(theAnswer[0]):])
		second.Complete(wholeOf(text8), nil)
		want(t, follower, EventComplete)
		lead.Complete(wholeOf(text8), nil)
		departed(leader, follower)
	})
}

func TestTheLastWordOfAReplicaThatStopsIsHeard(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		two := peerAt(t, addr)
		for n, known := range []bool{true, false} { // that it is followed; else it learns it from its last word
			one, id := peerAt(t, addr), streamed(n)
			leader, lead := one.leads(t, id)
			follower, _ := two.followsAnother(t, id)
			if known {
				isFollowed(t, leader)
			}
			one.stop()
			lead.Complete(wholeOf(text8), func(then func()) { then() })
			one.Generations.stop(t.Context()) // as Run does at its end
			want(t, follower, EventComplete)
			departed(leader, follower)
		}
	})
}

func TestABoundedNumberOfGenerationsIsFollowed(t *testing.T) {
	redistest.Each(t, func(t *testing.T, addr string, raw *redis.Client) {
		p := peerAt(t, addr)
		theirs := func(id GenerationID) {
			l := newLease(id)
			must(t, raw.Set(t.Context(), l.Name, "another", time.Minute).Err())
		}
		var subscribers []*Subscriber
		for n := range maxTails {
			theirs(streamed(n))
			s, _ := p.followsAnother(t, streamed(n))
			subscribers = append(subscribers, s)
		}
		id := streamed(maxTails)
		theirs(id)
		s := p.Join(id)
		lead, _, found := p.turn(t.Context(), want(t, s, EventLead), id)
		if found != FoundFollow || lead == nil {
			t.Fatalf("found %s, lead %v; want to lead without a lease", found, lead)
		}
		lead.Begin(func(error) {})
		lead.Complete(wholeOf("x"), nil)
		departed(subscribers...)
		s.Depart()
		redistest.Within(t, 10*time.Second, "what nobody wants is not followed any more", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.tails == 0
		})
	})
}

// stampede has clients ask on each of the replicas at once; making makes the answers of each.
func stampede(t *testing.T, peers []*peer, id GenerationID, clients int, making func(p *peer) func(*Leader) bool) [][]guest {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	served := table(len(peers), clients)
	var joined, all sync.WaitGroup
	joined.Add(len(peers) * clients)
	for i, p := range peers {
		one := making(p)
		for j := range clients {
			all.Go(func() {
				s := p.Join(id)
				joined.Done()
				served[i][j] = p.serve(ctx, s, id, func(lead *Leader) bool {
					joined.Wait()
					return one(lead)
				})
			})
		}
	}
	all.Wait()
	return served
}

func table(n, m int) [][]guest {
	out := make([][]guest, n)
	for i := range out {
		out[i] = make([]guest, m)
	}
	return out
}

func TestIdenticalRequestsOnThreeReplicasCostOneGeneration(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		peers := []*peer{peerAt(t, addr), peerAt(t, addr), peerAt(t, addr)}
		for n, stream := range []bool{true, false} {
			id := GenerationID{Key: keyNo(n), Stream: stream}
			served := stampede(t, peers, id, 300, func(p *peer) func(*Leader) bool { return p.gives(text8, id) })
			made := 0
			for _, guests := range served {
				for _, g := range guests {
					made += g.made
					g.wantsWhole(t, text8)
				}
			}
			if made != 1 {
				t.Errorf("%d generations, want 1", made)
			}
		}
	})
}

func TestNoGoroutineOutlivesRun(t *testing.T) {
	s := redistest.Start(t)
	one, two := peerAt(t, s.Addr), peerAt(t, s.Addr)
	var subscribers []*Subscriber
	var leads []*Leader
	for n := range 10 {
		leader, lead := one.leads(t, streamed(n))
		follower, _ := two.followsAnother(t, streamed(n))
		subscribers, leads = append(subscribers, leader, follower), append(leads, lead)
	}
	departed(subscribers[:10]...)
	two.stop()
	one.stop()
	redistest.Within(t, 10*time.Second, "no goroutine of theirs is left", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !strings.Contains(string(stacks), "cache.(*Generations)")
	})
	for _, lead := range leads {
		lead.Fail(fmt.Errorf("stopped: %w", context.Canceled), true)
	}
	departed(subscribers...)
}
