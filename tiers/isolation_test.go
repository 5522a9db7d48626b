package tiers

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// part is one thing that decides which answer a request gets, as it is written in a request.
type part struct {
	name   string
	header bool
	value  func(*rand.Rand) string // of the header, or a raw JSON value
}

// parts are all that a client can say. Their values are drawn from few, so that near misses are common.
var parts = []part{
	{"X-Tenant-Id", true, word("acme", "Acme", "acm", "acme1", "a.cme", "beta")},
	{"X-Rag-Hash", true, word("", "a1", "a2", "A1", "a.1")},
	{"X-Tier", true, word("auto", "target", "draft")},
	{"X-Acceptance-Mode", true, word("default", "exact", "target")},
	{"model", false, word(`"llama-3"`, `"llama-4"`)},
	{"system", false, word(`"Be brief."`, `"Be brief"`, `"be brief."`, `""`)},
	{"user", false, word(`"What is it?"`, `"What is it ?"`, `"Wһat is it?"`, `[{"type":"text","text":"What is it?"}]`)},
	{"role", false, word(`"user"`, `"assistant"`, `"developer"`)},
	{"tools", false, word("", `[{"type":"function","function":{"name":"f"}}]`, `[{"type":"function","function":{"name":"g"}}]`)},
	{"tool_choice", false, word("", `"none"`, `"auto"`)},
	{"temperature", false, word("", "0", "0.5", "0.50000001", "1")},
	{"top_p", false, word("", "1", "0.9", "0.91")},
	{"top_k", false, word("", "1", "40", "-1")},
	{"seed", false, word("", "1", "9007199254740993", "9007199254740992", "-9007199254740993")},
	{"max_tokens", false, word("", "16", "17")},
	{"max_completion_tokens", false, word("", "16", "17")},
	{"n", false, word("", "1", "2")},
	{"stop", false, word("", `"a"`, `["a"]`, `["a","b"]`, `["ab"]`)},
	{"response_format", false, word("", `{"type":"text"}`, `{"type":"json_object"}`)},
	{"structured_outputs", false, word("", `{"regex":"a"}`, `{"regex":"b"}`, `{"choice":["a","b"]}`, `{"choice":["ab"]}`)},
	{"presence_penalty", false, word("", "0", "0.1", "-0.1")},
	{"logit_bias", false, word("", `{"1":1}`, `{"1":2}`, `{"11":1}`)},
	{"ignore_eos", false, word("", "true", "false")},
	{"documents", false, word("", `[{"text":"a"}]`, `[{"text":"b"}]`)},
	{"chat_template_kwargs", false, word("", `{"enable_thinking":true}`, `{"enable_thinking":false}`, `{"thinking":false}`, `{"enable_thinking":false,"style":"dry"}`)},
	{"reasoning_effort", false, word("", `"low"`, `"high"`)},
	{"some_new_field", false, word("", "null", `{"a":{"b":1}}`, `{"a":{"b":2}}`, `{"a.b":1}`, `[1,[2]]`, `[[1],2]`)},
}

func word(of ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return of[r.IntN(len(of))] }
}

// keyer finds the keys of requests as a gateway does.
type keyer struct {
	t   testing.TB
	p   *Pipeline
	who *identity.Resolver
	lim openai.Limits

	draft  *pool.Pool
	judged bool // the last request's draft would be

	alone   bool // the last request has no key: it is to get a sample of its own
	keyless int  // such requests
}

func newKeyer(t testing.TB) *keyer {
	t.Helper()
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := &keyer{t: t, who: who, lim: openai.DefaultLimits()}
	if k.draft, err = pool.New(pool.Options{Name: "drafts", Model: "small", Backends: []string{"http://127.0.0.1:1"}}); err != nil {
		t.Fatal(err)
	}
	k.lim.Allow = func(string) []string { return []string{"documents", "chat_template_kwargs.style"} }
	k.p = NewPipeline(PipelineOptions{
		Cascade: New(testOptions(t)), Store: cache.NewStore(cache.Options{}), CacheConfig: func(string) cache.Config { return cache.Config{Enabled: true} },
	})
	return k
}

// key is the key of a request of these values; order shuffles the body's members.
func (k *keyer) key(values []string, order []int) cache.Key {
	k.t.Helper()
	r := &http.Request{Header: http.Header{}, RemoteAddr: "127.0.0.1:1", Method: http.MethodPost}
	demand := plan.Demand{Tier: plan.Auto, Mode: plan.DemandDefault}
	of := map[string]string{}
	members := make([]string, 0, len(parts))
	for _, i := range order {
		p, v := parts[i], values[i]
		switch {
		case p.name == "X-Tier":
			demand.Tier = plan.Tier(v)
		case p.name == "X-Acceptance-Mode":
			demand.Mode = plan.DemandMode(v)
		case p.header && v != "":
			r.Header.Set(p.name, v)
		case p.name == "system" || p.name == "user" || p.name == "role":
			of[p.name] = v
		case v != "":
			members = append(members, fmt.Sprintf("%q:%s", p.name, v))
		}
	}
	members = append(members, fmt.Sprintf(`"messages":[{"role":"system","content":%s},{"content":%s,"role":%s}]`, of["system"], of["user"], of["role"]))
	req, err := openai.Scan(openai.Chat, []byte("{"+strings.Join(members, ",")+"}"), k.lim)
	if err != nil {
		k.t.Fatalf("%v: %v", members, err)
	}
	caller, err := k.who.Identify(r)
	if err != nil {
		k.t.Fatal(err)
	}
	route := &Route{Model: req.Model, Draft: k.draft, Target: k.draft, Serves: Served{Draft: "small", Target: "big"}, Config: func() plan.Config {
		return plan.Config{Mode: plan.ModeConfidence, MaxPromptTokens: 1000}
	}}
	in := Arrival{Metadata: &Metadata{Caller: caller}, Body: req, Route: route, Demand: demand}
	q := k.p.newRequest(in, nil, &Record{})
	keyed := q.makeKey()
	if k.alone = q.wantsOwnSample(); k.alone {
		k.judged = false
		k.keyless++
		return cache.KeyOf(&cache.Parts{RAG: strconv.Itoa(k.keyless)})
	}
	if !keyed {
		k.t.Fatalf("%v: not for the cache", members)
	}
	k.judged = strings.HasPrefix(q.tier, "auto")
	return q.key
}

func TestRequestsThatDifferInOnePartNeverShareAnEntry(t *testing.T) {
	pairs := 1_000_000
	if raced || testing.Short() {
		pairs = 1_000
	}
	const workers = 2
	for w := range workers {
		t.Run(fmt.Sprint("part ", w), func(t *testing.T) {
			t.Parallel()
			k, r := newKeyer(t), rand.New(rand.NewPCG(1, uint64(w)))
			b := make([]string, len(parts))
			for i, p := range parts {
				b[i] = p.value(r)
			}
			other := k.key(b, r.Perm(len(parts)))
			judged := k.judged
			for n := range pairs / workers {
				a, one := append([]string(nil), b...), other // each request differs from the one before in one part
				i := r.IntN(len(parts))
				for b[i] == a[i] {
					b[i] = parts[i].value(r)
				}
				wasJudged, wasAlone := judged, k.alone
				other = k.key(b, r.Perm(len(parts)))
				judged = k.judged
				if one == other || one.Name() == other.Name() {
					if (parts[i].name == "X-Tier" || parts[i].name == "X-Acceptance-Mode") && a[i] != "draft" && b[i] != "draft" && !judged && !wasJudged {
						continue // what goes past the draft pool anyway is the target's, as demanded
					}
					t.Fatalf("%s: %s and %s share an entry; the rest is %q", parts[i].name, a[i], b[i], a)
				}
				if n%16 > 0 || wasAlone {
					continue
				}
				if again := k.key(a, r.Perm(len(parts))); again != one {
					t.Fatalf("the order of the members changes the key of %q", a)
				}
			}
		})
	}
}
