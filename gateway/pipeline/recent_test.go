package pipeline

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/openai"
)

// chatBody is a chat whose question has size bytes.
func chatBody(size int) []byte {
	return []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("q", size) + `"}]}`)
}

func scanned(t *testing.T, kind openai.Kind, body []byte) *openai.Request {
	t.Helper()
	req, err := openai.Scan(kind, body, openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestARepeatedRequestIsKnownByEveryByteOfItAndItsTenant(t *testing.T) {
	r, body := newRecentKeys(), chatBody(100)
	req := scanned(t, openai.Chat, bytes.Clone(body))
	r.keep("acme", req, &cache.Parts{}, cache.Key{})
	if was := r.find(openai.Chat, "acme", bytes.Clone(body)); was == nil || was.request != req {
		t.Fatalf("the same request is not known: %v", was)
	}
	if r.find(openai.Chat, "acm", body) != nil || r.find(openai.Chat, "", body) != nil || r.find(openai.Completion, "acme", body) != nil {
		t.Error("another tenant's request, or another kind of request, is taken for it")
	}
	slot := r.slot("acme", body)
	for i := range body {
		other := bytes.Clone(body)
		other[i] ^= 1
		r.slot("acme", other).Store(slot.Load()) // as if both had one hash
		if r.find(openai.Chat, "acme", other) != nil || r.find(openai.Chat, "acme", body[:i]) != nil {
			t.Fatalf("a request that differs at byte %d is taken for it", i)
		}
	}
	for tenant, kind := range map[string]openai.Kind{"other": openai.Chat, "acme": openai.Completion} {
		r.slot(tenant, body).Store(slot.Load())
		if r.find(kind, tenant, body) != nil {
			t.Errorf("%s of tenant %s is taken for it", kind.Path(), tenant)
		}
	}
}

func TestALargeRequestIsNotRemembered(t *testing.T) {
	r, body := newRecentKeys(), chatBody(maxRecentBytes)
	r.keep("acme", scanned(t, openai.Chat, body), &cache.Parts{}, cache.Key{})
	small := append(make([]byte, 0, 2*maxRecentBytes), chatBody(10)...) // it would keep all of its buffer
	r.keep("acme", scanned(t, openai.Chat, small), &cache.Parts{}, cache.Key{})
	if r.find(openai.Chat, "acme", body) != nil || r.find(openai.Chat, "acme", small) != nil {
		t.Error("it is")
	}
}

func TestAKeyIsRepeatedOnlyWhileEveryPartOfItIsAsItWas(t *testing.T) {
	same := cache.Parts{Kind: "k", Tenant: "t", Epochs: cache.Epochs{All: 1, Tenant: 2, Route: 3}, Route: "r", Draft: "d", Target: "g", Tier: "auto", RAG: "h"}
	key := cache.KeyOf(&cache.Parts{Kind: "k"})
	was := &recentKey{parts: same, key: key}
	if k, ok := was.keyOf(&same); !ok || k != key {
		t.Error("it is not repeated where all parts are")
	}
	if _, ok := (*recentKey)(nil).keyOf(&same); ok {
		t.Error("a request that is not known has a key")
	}
	var change func(v reflect.Value, name string, check func(name string))
	change = func(v reflect.Value, name string, check func(string)) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				change(v.Field(i), name+"."+v.Type().Field(i).Name, check)
			}
			return
		case reflect.String:
			v.SetString(v.String() + " ")
		case reflect.Uint64:
			v.SetUint(v.Uint() + 1)
		case reflect.Slice: // the request itself, which is compared by its body
			return
		default:
			t.Fatalf("%s is a %s, which this test does not change", name, v.Kind())
		}
		check(name)
		v.Set(old)
	}
	other := same
	change(reflect.ValueOf(&other).Elem(), "Parts", func(name string) {
		if _, ok := was.keyOf(&other); ok {
			t.Errorf("it is repeated although %s has changed", name)
		}
	})
}

func TestRepeatsAreReadAndKeptAtOnce(t *testing.T) {
	r := newRecentKeys()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				body := chatBody(n % 10)
				want, _ := scanned(t, openai.Chat, bytes.Clone(body)).Canonical(nil)
				if was := r.find(openai.Chat, "acme", body); was != nil {
					if got, err := was.request.Canonical(nil); err != nil || !bytes.Equal(got, want) {
						t.Errorf("goroutine %d got %s, %v for %s", i, got, err, want)
						return
					}
				}
				r.keep("acme", scanned(t, openai.Chat, body), &cache.Parts{}, cache.Key{})
			}
		})
	}
	all.Wait()
}
