package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/world"
)

// startCached is a gateway with a cache, and the Redis of its answers. With purges, nothing is kept: no fleet tells of
// them.
func startCached(t *testing.T, backend string, purges bool) (*bench, *miniredis.Miniredis) {
	t.Helper()
	sealer, err := cache.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	m, c := newRedis(t)
	m.ClockTTL(true)
	b := startBench(t, backend, func(o *Options) {
		at := cache.Options{Redis: c, Sealer: sealer, Budget: func() time.Duration { return 5 * time.Second }, LocalBytes: -1}
		if purges {
			at.Share = func(ctx context.Context) error { return c.Ping(ctx).Err() }
		}
		o.Cache = cache.NewStore(at)
		o.Generations, o.Salt = tiers.NewGenerations(world.System{}), sealer.Salt
		background(t, o.Cache.Run)
	})
	soon(t, "the cache hears of purges", func() bool { // before that nothing is kept
		_, ok := b.opts.Cache.Epochs("default", "llama-3")
		return ok || purges
	})
	return b, m
}

// keeps waits until a Redis has so many answers.
func keeps(t *testing.T, m *miniredis.Miniredis, n int) {
	t.Helper()
	soon(t, "the answers are kept", func() bool {
		found := 0
		for _, name := range m.Keys() {
			if strings.HasPrefix(name, "foregate:cache:") && !strings.HasPrefix(name, "foregate:cache:lead:") {
				found++
			}
		}
		return found == n
	})
}

// greedy is a chat that can be cached.
func greedy(text, more string) string {
	return `{"model":"llama-3","temperature":0,"messages":[{"role":"user","content":"` + text + `"}]` + more + `}`
}

// fine checks a whole answer to a chat, and what the cache had to do with it.
func (r reply) fine(t *testing.T, what, text, cached string) reply {
	t.Helper()
	if got, done := answerOf(t, chatPath, r); r.status != http.StatusOK || !done || got != text || r.head.Get("X-Cache") != cached {
		t.Fatalf("%s: %d %q (%s), want %q (%s): %s", what, r.status, got, r.head.Get("X-Cache"), text, cached, r.body)
	}
	return r
}

func TestAnAnswerIsGivenAgainInEitherShape(t *testing.T) {
	up := speaker(nil)
	b, m := startCached(t, up.start(t), false)
	ask := func(what, more, cached string) reply {
		return b.to(t, chatPath, "", greedy("hi", more)).fine(t, what, "It is answer 1.", cached)
	}
	first := ask("the first", "", "MISS")
	keeps(t, m, 1)
	var one, other struct{ ID string }
	again := ask("again", "", "HIT")
	if err := json.Unmarshal([]byte(again.body), &other); err != nil || json.Unmarshal([]byte(first.body), &one) != nil || one.ID == other.ID || again.head.Get("Age") == "" ||
		again.head.Get("X-Tier") != "target" || !strings.Contains(again.body, `"prompt_tokens":7,`) || !strings.Contains(again.body, `"cached_tokens":7`) || !strings.Contains(again.body, `"cache":"hit"`) {
		t.Errorf("again: %v %s", again.head, again.body)
	}
	if r := ask("as a stream", `,"stream":true`, "HIT"); strings.Contains(r.body, `"prompt_tokens"`) || !strings.Contains(r.body, `"tier":"target"`) {
		t.Errorf("as a stream: %s", r.body)
	}
	if r := ask("with usage", `,"stream":true,"stream_options":{"include_usage":true},"user":"me"`, "HIT"); !strings.Contains(r.body, `"completion_tokens":2`) {
		t.Errorf("with usage: %s", r.body)
	}
	if n := len(up.all()); n != 1 {
		t.Errorf("%d generations", n)
	}
}

func TestTenantsNeverShareAnAnswerNorAPrefix(t *testing.T) {
	up := speaker(nil)
	b, m := startCached(t, up.start(t), false)
	body := greedy("hi", `,"cache_salt":"mine"`)
	tenants := []string{"acme", "Acme", "acm", "acme2", "a.cme", "a:cme", "a-cme", "default", strings.Repeat("a", 64)}
	for _, cached := range []string{"MISS", "HIT"} {
		for i, tenant := range tenants {
			b.to(t, chatPath, tenant, body).fine(t, tenant, fmt.Sprintf("It is answer %d.", i+1), cached)
		}
		keeps(t, m, len(tenants))
	}
	salts := map[any]bool{}
	for _, q := range up.all() {
		salt := q.body["cache_salt"]
		if salt == nil || salt == "mine" || salts[salt] {
			t.Errorf("salt %v", salt)
		}
		salts[salt] = true
	}
	for _, trick := range []string{" acme", "acme ", "acme,beta", "аcme", "acme\u200b", "ａcme", strings.Repeat("a", 10_000), "a cme", "acme;x", "acme%20"} {
		r, err := b.do(newRequest(t.Context(), http.MethodPost, b.url+chatPath, body, jsonOf(trick)...))
		if err == nil && r.status == http.StatusOK && r.head.Get("X-Cache") == "HIT" && strings.TrimSpace(trick) != "acme" {
			t.Errorf("tenant %.20q got another's answer", trick)
		}
	}
}

// TestTheMemoryOfABodyIsReusedOnlyAfterItsRequest sends bodies of many sizes at once, each of one letter, and
// some of them again, so that they share an answer or get a kept one. Some clients hang up. Every other answer comes in one
// piece. With the race detector, memory of a body or of such an answer is overwritten when it is given back: then whoever
// reads it too late finds other letters, or is a race.
func TestTheMemoryOfABodyIsReusedOnlyAfterItsRequest(t *testing.T) {
	up := speaker(func(prompt string) []string {
		text := prompt[strings.LastIndex(prompt, "content:")+len("content:"):]
		text = text[:strings.IndexAny(text, " ]")]
		if letter := text[:1]; strings.Trim(text, letter) != "" {
			t.Errorf("the engine got a prompt of %d bytes with other letters than %s", len(text), letter)
		}
		return []string{"letter ", text[:1]}
	})
	b, _ := startCached(t, up.start(t), false)
	var all sync.WaitGroup
	for client := range 8 {
		all.Go(func() {
			for n := range 30 {
				which := (client/2 + n) % 6 // so that clients ask the same at once, and one after the other
				letter, size := string(rune('a'+which)), []int{5 << 10, 9 << 10, 15 << 10, 40 << 10, 100 << 10, 140 << 10}[which]
				ctx, leave := context.WithCancel(t.Context())
				if hangsUp := (client+n)%5 == 0; hangsUp {
					time.AfterFunc(time.Duration(n)*100*time.Microsecond, leave)
				}
				r, err := b.do(newRequest(ctx, http.MethodPost, b.url+chatPath, greedy(strings.Repeat(letter, size), fmt.Sprintf(`,"stream":%t`, n%2 == 0)), "Content-Type", plainJSON))
				if ctx.Err() == nil {
					if text, _ := answerOf(t, chatPath, r); err != nil || r.status != 200 || text != "letter "+letter {
						t.Errorf("%d bytes of %s: %d %v %s", size, letter, r.status, err, r.body)
					}
				}
				leave()
			}
		})
	}
	all.Wait()
	soon(t, "nothing is under way", b.idle)
}

func TestAKeptAnswerServesEveryAPIInItsOwnFormAndNoOtherTenant(t *testing.T) {
	up := speaker(nil)
	b, m := startCached(t, up.start(t), false)
	calls := 0
	for first := range asked {
		ask := func(path, tenant, more string) reply {
			body := strings.ReplaceAll(asked[path], "%", strings.ReplaceAll(first, "/", " "))
			return b.to(t, path, tenant, strings.TrimSuffix(body, "}")+more+"}")
		}
		made := ask(first, "acme", "")
		want, _ := answerOf(t, first, made)
		calls++
		inForm(t, first, made)
		keeps(t, m, calls)
		for path := range asked {
			for _, more := range []string{"", `,"stream":true`} {
				r := ask(path, "acme", more)
				if text, done := answerOf(t, path, r); r.status != http.StatusOK || r.head.Get("X-Cache") != "HIT" || !done || text != want {
					t.Errorf("%s%s behind %s: %d %s %s", path, more, first, r.status, r.head.Get("X-Cache"), r.body)
				}
				if more == "" {
					inForm(t, path, r)
				}
			}
		}
		if n := len(up.all()); n != calls {
			t.Fatalf("%d calls of the engine, want %d", n, calls)
		}
		if r := ask(first, "other", ""); r.head.Get("X-Cache") != "MISS" {
			t.Errorf("another tenant got %s", r.head.Get("X-Cache"))
		}
		calls++
		keeps(t, m, calls)
	}
}

func TestOperatorsSeeTheCache(t *testing.T) {
	b, _ := startCached(t, simulator(t).URL(), true)
	b.opts.Cache.Count("llama-3", cache.ResultHit, &cache.Entry{Prompt: 100, Target: 20, USD: 0.5})
	b.opts.Cache.Count("llama-3", cache.ResultMiss, nil)
	b.opts.Cache.Count("llama-3", cache.ResultBypass, nil)
	status, body := b.send(t, http.MethodGet, b.admin+"/admin/status", "")
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", status, err, body)
	}
	if diff := cmp.Diff(&CacheTotals{Requests: 2, HitRatio: 0.5, SavedTokens: 120, SavedUSD: 0.5}, s.Cache); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOperatorsPurgeATenantARouteOrAllAndNothingThatMayMeanSomethingElse(t *testing.T) {
	b, m := startCached(t, simulator(t).URL(), true)
	purge := b.admin + "/admin/cache/purge"
	for query, want := range map[string]struct {
		status int
		param  string
	}{
		"?tenant=":                   {http.StatusBadRequest, `"param":"tenant"`}, // a variable that was not set
		"?route=":                    {http.StatusBadRequest, `"param":"route"`},
		"?tenat=acme":                {http.StatusBadRequest, `"param":"tenat"`},
		"?tenant=a&tenant=b":         {http.StatusBadRequest, `"param":"tenant"`},
		"?tenant=acme&route=llama-3": {http.StatusBadRequest, "or both by two requests"},
		"?tenant=a%20b":              {http.StatusBadRequest, "a tenant's name"},
		"?tenant=%zz":                {http.StatusBadRequest, "malformed"},
		"?route=nobody":              {http.StatusNotFound, "model_not_found"},
	} {
		if status, body := b.send(t, http.MethodPost, purge+query, ""); status != want.status || !strings.Contains(body, want.param) {
			t.Errorf("%s: status %d: %s", query, status, body)
		}
	}
	if status, _ := b.send(t, http.MethodPost, purge, "", "Origin", "http://evil.example"); status != http.StatusForbidden {
		t.Errorf("from another site's page: status %d", status)
	}
	if len(b.opts.Cache.Tell()) > 0 {
		t.Error("something was purged")
	}
	for _, c := range []struct{ query, told, field string }{
		{"?tenant=acme", "tenant acme", "tenant:acme"},
		{"?route=llama-3", "route llama-3", "route:llama-3"},
		{"?tenant=nobody1", "tenant nobody1", "tenant:nobody1"}, // who may come to be, or have been
		{"", "all", "all"},
	} {
		status, body := b.send(t, http.MethodPost, purge+c.query, "")
		var got PurgeResult
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || got.Purged != c.told || got.Everything || got.Alone || b.opts.Cache.Tell()[c.field] == "" {
			t.Errorf("%q: status %d: %s", c.query, status, body)
		}
	}
	if found := b.log.holding(`"order":"purge"`); len(found) != 4 || !strings.Contains(found[0], `"done":true`) {
		t.Errorf("logged %q", found)
	}
	m.Close()
	if status, body := b.send(t, http.MethodPost, purge+"?tenant=acme", ""); status != http.StatusOK || !strings.Contains(body, `"this_replica_only":true`) || !strings.Contains(body, "this replica only") {
		t.Errorf("Redis did not hear of it: status %d: %s", status, body)
	}
	if found := b.log.holding(`"order":"purge"`); len(found) != 5 || !strings.Contains(found[4], `"done":true`) || !strings.Contains(found[4], `"shared":false`) {
		t.Errorf("logged %q", found)
	}
}

// TestACachedAnswerIsChargedAsLongAsItIsHeld has a tenant whose bodies take most of its share ask for a large answer.
func TestACachedAnswerIsChargedAsLongAsItIsHeld(t *testing.T) {
	long := strings.Repeat("long ", 20_000)
	b, m := startCached(t, speaker(func(string) []string { return []string{long} }).start(t), false)
	b.shrink(1 << 20)
	b.to(t, chatPath, "", greedy("hi", "")).fine(t, "the first", long, "MISS")
	keeps(t, m, 1)
	soon(t, "nothing is held for what was answered", b.idle)
	b.stalled(t, "default", 600<<10, maxUnproved)
	soon(t, "the body is charged", func() bool { return b.held().bytes >= 600<<10 })
	for _, shape := range []string{"", `,"stream":true`} {
		r := b.to(t, chatPath, "", greedy("hi", shape))
		if _, code, _ := r.says(); r.status != http.StatusTooManyRequests || code != "tenant_share" {
			t.Errorf("%s: %d %.200s", shape, r.status, r.body)
		}
	}
}
