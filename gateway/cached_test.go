package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
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
