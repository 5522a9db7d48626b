package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
)

// keeping is a gateway with a cache, and the Redis that its purges go to.
func keeping(t *testing.T) (office, *kept) {
	t.Helper()
	s, err := cache.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	k := newKept(t)
	store := cache.NewStore(cache.Options{Sealer: s, Redis: k.client(t), Control: k.client(t)})
	log := &lines{}
	b := startBench(t, simulator(t).URL(), func(o *Options) { o.Cache, o.Logger = store, zerolog.New(log) })
	store.Count("llama-3", cache.ResultHit, &cache.Entry{Prompt: 100, Target: 20, USD: 0.5})
	store.Count("llama-3", cache.ResultMiss, nil)
	store.Count("llama-3", cache.ResultBypass, nil)
	return office{bench: b, admin: "http://" + b.AdminAddr().String(), log: log}, k
}

func TestOperatorsSeeTheCache(t *testing.T) {
	o, _ := keeping(t)
	status, body := o.send(t, http.MethodGet, o.admin+"/admin/status", "")
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", status, err, body)
	}
	if diff := cmp.Diff(&CacheTotals{Requests: 2, HitRatio: 0.5, SavedTokens: 120, SavedUSD: 0.5}, s.Cache); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOperatorsPurgeATenantARouteOrAll(t *testing.T) {
	o, k := keeping(t)
	for _, c := range []struct{ query, told, field string }{
		{"?tenant=acme", "tenant acme", "tenant:acme"},
		{"?route=llama-3", "route llama-3", "route:llama-3"},
		{"?tenant=nobody1", "tenant nobody1", "tenant:nobody1"}, // who may come to be, or have been
		{"", "all", "all"},
	} {
		status, body := o.send(t, http.MethodPost, o.admin+"/admin/cache/purge"+c.query, "")
		var got PurgeResult
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || got.Purged != c.told || got.Everything || got.Alone {
			t.Errorf("%q: status %d: %s", c.query, status, body)
		}
		if k.HGet(cache.KeyEpochs, c.field) == "" {
			fields, _ := k.HKeys(cache.KeyEpochs)
			t.Errorf("%q: Redis has purges of %q", c.query, fields)
		}
	}
	if found := o.log.holding(`"order":"purge"`); len(found) != 4 || !strings.Contains(found[0], `"done":true`) {
		t.Errorf("logged %q", found)
	}
}

func TestAPurgeThatMayMeanSomethingElseIsRefused(t *testing.T) {
	o, k := keeping(t)
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
		if status, body := o.send(t, http.MethodPost, o.admin+"/admin/cache/purge"+query, ""); status != want.status || !strings.Contains(body, want.param) {
			t.Errorf("%s: status %d: %s", query, status, body)
		}
	}
	if status, _ := o.send(t, http.MethodPost, o.admin+"/admin/cache/purge", "", "Origin", "http://evil.example"); status != http.StatusForbidden {
		t.Errorf("from another site's page: status %d", status)
	}
	if k.Exists(cache.KeyEpochs) {
		t.Error("something was purged")
	}
}

func TestAPurgeThatRedisDidNotHearOfIsToldSo(t *testing.T) {
	o, k := keeping(t)
	k.Close()
	status, body := o.send(t, http.MethodPost, o.admin+"/admin/cache/purge?tenant=acme", "")
	if status != http.StatusOK || !strings.Contains(body, `"this_replica_only":true`) || !strings.Contains(body, "this replica only") {
		t.Errorf("status %d: %s", status, body)
	}
	if found := o.log.holding(`"order":"purge"`); len(found) != 1 || !strings.Contains(found[0], `"done":true`) || !strings.Contains(found[0], `"shared":false`) {
		t.Errorf("logged %q", found)
	}
}
