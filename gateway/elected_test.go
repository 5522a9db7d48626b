package gateway

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
)

// gate holds scripts up on their way to Redis until it is opened.
type gate chan struct{}

func (g gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			<-g
		}
		return next(ctx, cmd)
	}
}

func (g gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" {
			<-g
		}
		return next(ctx, cmds)
	}
}

const shortBudget = 15 * time.Millisecond

// startGated is startCached with the budget that gateways have, whose looks wait at a gate.
func startGated(t *testing.T, backend string, k *kept, g gate) *cacheBench {
	t.Helper()
	return startGatedWith(t, backend, k, g, func(*Options) {})
}

func startGatedWith(t *testing.T, backend string, k *kept, g gate, adjust func(*Options)) *cacheBench {
	t.Helper()
	return startCached(t, backend, k, func(o *Options) {
		adjust(o)
		c := k.client(t)
		c.AddHook(g)
		o.Cache = cache.NewStore(cache.Options{Redis: c, Control: k.client(t), Budget: func() time.Duration { return shortBudget }, LocalBytes: -1})
		for i := range o.Background {
			if o.Background[i].Name == "cache" {
				o.Background[i].Run = o.Cache.Run
			}
		}
	})
}

func TestIdenticalRequestsAtTwoReplicasAreAnsweredOnceThoughRedisIsLate(t *testing.T) {
	const each = 15
	for _, stream := range []bool{false, true} {
		up, k := newSpeaker(t), newKept(t)
		up.step = make(chan struct{})
		g := make(gate)
		replicas := []*cacheBench{startGated(t, up.URL, k, g), startGated(t, up.URL, k, g)}
		answers := make([]clientResult, 2*each)
		var all sync.WaitGroup
		began := time.Now()
		for i := range answers {
			all.Go(func() { answers[i] = replicas[i%2].say(t.Context(), question{stream: stream}) })
		}
		soon(t, "all wait, and the budget is over", func() bool {
			return replicas[0].opts.Generations.Subscribers() == each && replicas[1].opts.Generations.Subscribers() == each && time.Since(began) > 2*shortBudget
		})
		close(g)
		soon(t, "one generation is under way", func() bool { return up.calls.Load() > 0 && up.calls.Load()-up.left.Load() == 1 })
		close(up.step)
		all.Wait()
		for i, s := range answers {
			if !s.done || s.broken || s.text != answers[0].text {
				t.Fatalf("stream %t, request %d: %+v", stream, i, s)
			}
		}
		if n := up.calls.Load() - up.left.Load(); n != 1 {
			t.Errorf("stream %t: %d generations", stream, n)
		}
	}
}

func TestARequestThatHearsLateThatAnotherReplicaAnswersItGivesItsOwnGenerationUp(t *testing.T) {
	for _, stream := range []bool{false, true} {
		up, k := newSpeaker(t), newKept(t)
		up.step = make(chan struct{})
		g := make(gate)
		one, two := startCached(t, up.URL, k, nil), startGated(t, up.URL, k, g)
		first, second := make(chan clientResult, 1), make(chan clientResult, 1)
		go func() { first <- one.say(t.Context(), question{stream: stream}) }()
		soon(t, "one replica answers", func() bool { return up.calls.Load() == 1 })
		go func() { second <- two.say(t.Context(), question{stream: stream}) }()
		soon(t, "the other answers, too", func() bool { return up.calls.Load() == 2 })
		close(g)
		soon(t, "it gives that up", func() bool { return up.left.Load() == 1 })
		close(up.step)
		(<-first).fine(t, "the first", "It is answer 1.", "MISS")
		(<-second).fine(t, "the second", "It is answer 1.", "COALESCED")
	}
}

func TestAGenerationThatIsGivenUpForAnotherReplicasIsNoneOfTheTenantsRequests(t *testing.T) {
	who, err := identity.New(identity.Options{Tenants: []identity.Tenant{{ID: identity.DefaultTenant, RPM: 1, TPM: 100_000}}})
	if err != nil {
		t.Fatal(err)
	}
	up, k := newSpeaker(t), newKept(t)
	up.step = make(chan struct{})
	g := make(gate)
	limited := func(o *Options) { o.Identity = who }
	one, two := startCached(t, up.URL, k, limited), startGatedWith(t, up.URL, k, g, limited)
	first, second := make(chan clientResult, 1), make(chan clientResult, 1)
	go func() { first <- one.say(t.Context(), question{}) }()
	soon(t, "one replica answers", func() bool { return up.calls.Load() == 1 })
	go func() { second <- two.say(t.Context(), question{}) }()
	soon(t, "the other answers, too", func() bool { return up.calls.Load() == 2 })
	close(g)
	soon(t, "it gives that up", func() bool { return up.left.Load() == 1 })
	close(up.step)
	<-first
	(<-second).fine(t, "the second", "It is answer 1.", "COALESCED")
	two.say(t.Context(), question{content: "And what is that?"}).fine(t, "the tenant's one request a minute", "It is answer 3.", "MISS")
}

// TestAFollowerThatCannotBeContinuedHearsThatAtOnce has a leader's backend break off; the follower then leads, and what it
// makes does not begin with what its client has.
func TestAFollowerThatCannotBeContinuedHearsThatAtOnce(t *testing.T) {
	for _, others := range []bool{false, true} {
		up, k := newSpeaker(t), newKept(t)
		up.step, up.cut = make(chan struct{}), make(chan struct{})
		up.pieces = func(string) []string { return []string{fmt.Sprint("Answer ", up.calls.Load()), " is this."} }
		b := startCached(t, up.URL, k, nil)
		leader, third := make(chan clientResult, 1), make(chan clientResult, 1)
		go func() { leader <- b.say(t.Context(), question{stream: true}) }()
		soon(t, "the leader is asked for", func() bool { return up.calls.Load() == 1 })
		follower := b.opened(t)
		soon(t, "the follower is there", func() bool { return b.opts.Generations.Subscribers() == 2 })
		up.step <- struct{}{}
		follower.reads(t, "Answer 1")
		up.cut <- struct{}{}
		<-leader
		soon(t, "the follower leads", func() bool { return up.calls.Load() == 2 })
		if others {
			go func() { third <- b.say(t.Context(), question{stream: true}) }()
			soon(t, "a third is there", func() bool { return b.opts.Generations.Subscribers() == 2 })
		}
		up.step <- struct{}{} // it says how it begins, and no more
		follower.reads(t, "event: error")
		if !others {
			soon(t, "what nobody wants is cut off", func() bool { return up.left.Load() == 1 && b.idle() })
			continue
		}
		up.step <- struct{}{}
		(<-third).fine(t, "the third", "Answer 2 is this.", "COALESCED")
	}
}

// TestAFollowerThatLeadsHearsThatTheReplicaEnds has it lead for the client that it has told what another began.
func TestAFollowerThatLeadsHearsThatTheReplicaEnds(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	up.step, up.cut = make(chan struct{}), make(chan struct{})
	up.pieces = func(string) []string { return []string{"The answer", " is this."} }
	b := startCached(t, up.URL, k, nil)
	leader := make(chan clientResult, 1)
	go func() { leader <- b.say(t.Context(), question{stream: true}) }()
	soon(t, "the leader is asked for", func() bool { return up.calls.Load() == 1 })
	follower := b.opened(t)
	soon(t, "the follower is there", func() bool { return b.opts.Generations.Subscribers() == 2 })
	up.step <- struct{}{}
	follower.reads(t, "The answer")
	up.cut <- struct{}{}
	<-leader
	soon(t, "the follower leads", func() bool { return up.calls.Load() == 2 })
	b.cutStreams(errDraining)
	follower.reads(t, `"code":"gateway_draining"`)
}

// opening is a stream that is read as it comes.
type opening struct{ lines chan string }

// opened asks the usual question for a stream.
func (b *cacheBench) opened(t *testing.T) opening {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/chat/completions",
		strings.NewReader(`{"model":"llama-3","stream":true,"temperature":0,"messages":[{"role":"user","content":"What is it?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	o := opening{make(chan string, 100)}
	go func() {
		defer close(o.lines)
		resp, err := b.client.Do(req)
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			o.lines <- in.Text()
		}
	}()
	return o
}

// reads goes on to the line that holds what is wanted.
func (o opening) reads(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case line, ok := <-o.lines:
			switch {
			case strings.Contains(line, want):
				return
			case !ok:
				t.Fatalf("it ends without %q", want)
			}
		case <-deadline:
			t.Fatalf("not within 10 s: %q", want)
		}
	}
}
