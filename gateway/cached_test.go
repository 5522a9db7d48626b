package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/cache"
)

func TestAnAnswerIsGivenAgainInEitherShape(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	b := startCached(t, up.URL, k, nil)
	ctx := t.Context()
	first := b.say(ctx, question{})
	first.fine(t, "the first", "It is answer 1.", "MISS")
	soon(t, "the answer is kept", func() bool { return len(k.answers()) == 1 })

	again := b.say(ctx, question{})
	again.fine(t, "again", "It is answer 1.", "HIT")
	if again.header.Get("Age") == "" || again.id == first.id || again.header.Get("X-Tier") != "target" ||
		again.usage == nil || again.usage.Prompt != 7 || again.usage.Details.Cached != 7 || again.extra["cache"] != "hit" {
		t.Errorf("again: %+v, usage %+v", again, again.usage)
	}
	stream := b.say(ctx, question{stream: true})
	stream.fine(t, "as a stream", "It is answer 1.", "HIT")
	if stream.usage != nil || stream.extra["tier"] != "target" {
		t.Errorf("as a stream: %+v", stream)
	}
	counted := b.say(ctx, question{stream: true, more: `,"stream_options":{"include_usage":true},"user":"me"`})
	counted.fine(t, "with usage", "It is answer 1.", "HIT")
	if counted.usage == nil || counted.usage.Completion != 2 {
		t.Errorf("with usage: %+v", counted)
	}
	if n := up.calls.Load(); n != 1 {
		t.Errorf("%d generations", n)
	}
}

func TestAStreamIsKeptAsAJSONAnswerIs(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	b := startCached(t, up.URL, k, nil)
	b.say(t.Context(), question{stream: true}).fine(t, "the first", "It is answer 1.", "MISS")
	soon(t, "the answer is kept", func() bool { return len(k.answers()) == 1 })
	b.say(t.Context(), question{}).fine(t, "again", "It is answer 1.", "HIT")
}

func TestTheRequestsCacheControlIsObeyed(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	b := startCached(t, up.URL, k, nil)
	ctx := t.Context()
	with := func(value string) question { return question{header: map[string]string{"Cache-Control": value}} }
	if s := b.say(ctx, with("only-if-cached")); s.code != http.StatusGatewayTimeout || s.header.Get("X-Should-Retry") != "false" || !strings.Contains(s.message, "not_cached") {
		t.Errorf("only-if-cached without an answer: %+v", s)
	}
	b.say(ctx, with("no-store")).fine(t, "no-store", "It is answer 1.", "BYPASS")
	if n := len(k.answers()); n != 0 {
		t.Fatalf("%d answers are kept after no-store", n)
	}
	b.say(ctx, question{}).fine(t, "the first", "It is answer 2.", "MISS")
	soon(t, "the answer is kept", func() bool { return len(k.answers()) == 1 })
	b.say(ctx, with("only-if-cached")).fine(t, "only-if-cached", "It is answer 2.", "HIT")
	b.say(ctx, with("max-age=60")).fine(t, "max-age=60", "It is answer 2.", "HIT")
	b.say(ctx, with("no-store")).fine(t, "no-store again", "It is answer 3.", "BYPASS")
	b.say(ctx, with("no-cache")).fine(t, "no-cache", "It is answer 4.", "MISS")
	soon(t, "the new answer is kept", func() bool { return b.say(ctx, question{}).text == "It is answer 4." })
}

func TestOnlyWholeAnswersAreKept(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	b := startCached(t, up.URL, k, nil)
	ctx := t.Context()
	for finish, want := range map[string]int{"stop": 1, "length": 1, "content_filter": 0, "error": 0} {
		up.finish.Store(finish)
		b.say(ctx, question{content: finish})
		up.finish.Store("stop")
		b.say(ctx, question{content: "last " + finish}) // is written after what came before it
		soon(t, "writes are done", func() bool {
			return b.say(ctx, question{content: "last " + finish}).header.Get("X-Cache") == "HIT"
		})
		got := b.say(ctx, question{content: finish}).header.Get("X-Cache")
		if (got != "MISS") != (want == 1) {
			t.Errorf("finish_reason %s: %s the second time", finish, got)
		}
	}
	up.status.Store(500)
	if s := b.say(ctx, question{content: "broken"}); s.code != http.StatusBadGateway || s.header.Get("X-Cache") != "MISS" {
		t.Errorf("a failing backend: %+v", s)
	}
	up.status.Store(0)
	if s := b.say(ctx, question{content: "broken"}); s.header.Get("X-Cache") != "MISS" || s.code != http.StatusOK {
		t.Errorf("after a failure: %+v", s)
	}
}

func TestTenantsNeverShareAnAnswerNorAPrefix(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	b := startCached(t, up.URL, k, trustTenants(t))
	ctx := t.Context()
	as := func(tenant string) question {
		return question{header: map[string]string{"X-Tenant-ID": tenant}, more: `,"cache_salt":"mine"`}
	}
	tenants := []string{"acme", "Acme", "acm", "acme2", "a.cme", "a:cme", "a-cme", "default", strings.Repeat("a", 64)}
	for i, tenant := range tenants {
		b.say(ctx, as(tenant)).fine(t, tenant, fmt.Sprintf("It is answer %d.", i+1), "MISS")
	}
	soon(t, "all are kept", func() bool { return len(k.answers()) == len(tenants) })
	for i, tenant := range tenants {
		b.say(ctx, as(tenant)).fine(t, tenant+" again", fmt.Sprintf("It is answer %d.", i+1), "HIT")
	}
	seen := map[any]bool{}
	for _, salt := range up.asked("cache_salt") {
		if salt == nil || salt == "mine" || seen[salt] {
			t.Errorf("salt %v", salt)
		}
		seen[salt] = true
	}
	calls := up.calls.Load()
	for _, trick := range []string{" acme", "acme ", "acme,beta", "аcme", "acme\u200b", "ａcme", strings.Repeat("a", 10_000), "a cme", "acme;x", "acme%20"} {
		s := b.say(ctx, as(trick))
		if s.code == http.StatusOK && s.header.Get("X-Cache") == "HIT" && strings.TrimSpace(trick) != "acme" {
			t.Errorf("tenant %.20q got another's answer", trick)
		}
	}
	if n := up.calls.Load() - calls; n != 0 {
		t.Logf("%d tricks were answered as tenants of their own", n)
	}
}

func TestManyIdenticalRequestsCostOneGeneration(t *testing.T) {
	const many = 200
	up, k := newSpeaker(t), newKept(t)
	up.step = make(chan struct{})
	b := startCached(t, up.URL, k, nil)
	for _, stream := range []bool{false, true} {
		calls := up.calls.Load()
		q := question{content: fmt.Sprint("together ", stream), stream: stream}
		var all sync.WaitGroup
		answers := make([]clientResult, many)
		for i := range answers {
			all.Go(func() { answers[i] = b.say(t.Context(), q) })
		}
		soon(t, "one generation is under way", func() bool { return up.calls.Load() == calls+1 && b.opts.Generations.Subscribers() == many })
		up.step <- struct{}{}
		up.step <- struct{}{}
		all.Wait()
		shared := 0
		for i, s := range answers {
			if !s.done || s.broken || s.text != answers[0].text || s.text == "" {
				t.Fatalf("request %d: %+v; calls %d", i, s, up.calls.Load()-calls)
			}
			if s.header.Get("X-Cache") != "MISS" { // who comes a little late has a hit
				shared++
			}
		}
		if n := up.calls.Load() - calls; n != 1 || shared != many-1 {
			t.Errorf("stream %t: %d generations, %d shared", stream, n, shared)
		}
	}
}

func TestALeaderThatLeavesDoesNotTakeTheAnswerAlong(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	up.step = make(chan struct{})
	b := startCached(t, up.URL, k, nil)
	for _, stream := range []bool{false, true} {
		calls := up.calls.Load()
		q := question{content: fmt.Sprint("leaving ", stream), stream: stream}
		leaderCtx, leave := context.WithCancel(t.Context())
		leader := make(chan clientResult, 1)
		go func() { leader <- b.say(leaderCtx, q) }()
		soon(t, "the leader is asked for", func() bool { return up.calls.Load() == calls+1 })
		follower := make(chan clientResult, 1)
		go func() { follower <- b.say(t.Context(), q) }()
		soon(t, "the follower is there", func() bool { return b.opts.Generations.Subscribers() == 2 })
		up.step <- struct{}{}
		leave()
		<-leader
		up.step <- struct{}{}
		s := <-follower
		s.fine(t, "the follower", fmt.Sprintf("It is answer %d.", calls+1), "COALESCED")
		soon(t, "both are over", func() bool { return b.idle() })
	}
	if n := up.left.Load(); n != 0 {
		t.Errorf("%d generations were cut off", n)
	}
}

func TestAGenerationThatNobodyWantsIsCutOff(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	up.step = make(chan struct{})
	b := startCached(t, up.URL, k, nil)
	ctx, leave := context.WithCancel(t.Context())
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { b.say(ctx, question{stream: true}) })
	}
	soon(t, "both are there", func() bool { return b.opts.Generations.Subscribers() == 2 && up.calls.Load() == 1 })
	up.step <- struct{}{}
	leave()
	both.Wait()
	soon(t, "the generation is cut off", func() bool { return up.left.Load() == 1 && b.idle() })
	if n := len(k.answers()); n != 0 {
		t.Errorf("%d answers are kept", n)
	}
}

func TestOneOfThoseWhoWaitTriesAgainAfterAFailure(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	up.step = make(chan struct{})
	b := startCached(t, up.URL, k, nil)
	const many = 50
	var all sync.WaitGroup
	answers := make([]clientResult, many)
	up.status.Store(500)
	for i := range answers {
		all.Go(func() { answers[i] = b.say(t.Context(), question{}) })
	}
	all.Wait()
	for i, s := range answers {
		if s.code != http.StatusBadGateway {
			t.Errorf("request %d: %+v", i, s)
		}
	}
	if n := up.calls.Load(); n > 3*many/10 { // those that come after the end begin anew
		t.Errorf("%d calls for %d requests", n, many)
	}
}

func TestALeaderThatReadsNothingHoldsNobodyUp(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	up.step = make(chan struct{})
	many := 30_000 // some seven megabytes of frames: more than the kernel holds for a client
	if raced {
		many = 10_000
	}
	up.pieces = func(string) []string {
		pieces := make([]string, many)
		for i := range pieces {
			pieces[i] = "on and "
		}
		return pieces
	}
	b := startCached(t, up.URL, k, nil)
	conn, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	const body = `{"model":"llama-3","stream":true,"temperature":0,"messages":[{"role":"user","content":"What is it?"}]}`
	_, _ = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	soon(t, "the leader is asked for", func() bool { return up.calls.Load() == 1 })
	follower := make(chan clientResult, 1)
	go func() { follower <- b.say(t.Context(), question{stream: true}) }()
	soon(t, "the follower is there", func() bool { return b.opts.Generations.Subscribers() == 2 })
	close(up.step)
	(<-follower).fine(t, "the follower", strings.Repeat("on and ", many), "COALESCED")
	soon(t, "the leader is cut off", func() bool { return b.idle() })
}

func TestAnswersThatAreNotKeptAreSharedAllTheSame(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	up.finish.Store("content_filter")
	for _, stream := range []bool{false, true} {
		up.step = make(chan struct{})
		b := startCached(t, up.URL, k, nil)
		calls := up.calls.Load()
		var all sync.WaitGroup
		answers := make([]clientResult, 20)
		for i := range answers {
			all.Go(func() { answers[i] = b.say(t.Context(), question{stream: stream}) })
		}
		soon(t, "all are there", func() bool { return b.opts.Generations.Subscribers() == 20 && up.calls.Load() == calls+1 })
		close(up.step)
		all.Wait()
		for i, s := range answers {
			if !s.done || s.broken || s.finish != "content_filter" || s.text != answers[0].text {
				t.Errorf("request %d: %+v", i, s)
			}
		}
		if n := up.calls.Load() - calls; n != 1 {
			t.Errorf("%d generations", n)
		}
	}
	if n := len(k.answers()); n != 0 {
		t.Errorf("%d answers are kept", n)
	}
}

func TestADraftNeverServesWhoDemandsTheTarget(t *testing.T) {
	k := newKept(t)
	base := startCut(t, false, k)
	ask := func(tier string) (xcache, from string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/chat/completions",
			strings.NewReader(`{"model":"m","stream":true,"max_tokens":100,"user":"fin-1000000-x","messages":[{"role":"user","content":"x"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Tier", tier)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = rest(resp)
		return resp.Header.Get("X-Cache"), resp.Header.Get("X-Tier")
	}
	for i, tier := range []string{"auto", "target"} {
		want := map[string]string{"auto": "draft", "target": "target"}[tier]
		if xcache, from := ask(tier); xcache != "MISS" || from != want {
			t.Errorf("%s: %s from %s", tier, xcache, from)
		}
		soon(t, "the answer is kept", func() bool { return len(k.answers()) == i+1 })
		if xcache, from := ask(tier); xcache != "HIT" || from != want {
			t.Errorf("%s again: %s from %s", tier, xcache, from)
		}
	}
}

func TestARequestThatWasRepeatedIsAskedAgainAfterAPurge(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	b := startCached(t, up.URL, k, nil)
	b.say(t.Context(), question{}).fine(t, "the first", "It is answer 1.", "MISS")
	soon(t, "the answer is kept", func() bool { return len(k.answers()) == 1 })
	for range 3 { // it is remembered, then known
		b.say(t.Context(), question{}).fine(t, "again", "It is answer 1.", "HIT")
	}
	if _, err := cache.Purge(t.Context(), k.client(t), cache.Scope{}); err != nil {
		t.Fatal(err)
	}
	soon(t, "the purge is heard of", func() bool { return b.say(t.Context(), question{}).header.Get("X-Cache") == "MISS" })
}
