package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
)

// purges note what they were asked for.
type purges struct {
	told       []cache.Scope
	everything bool
	err        error
}

func (p *purges) purge(ctx context.Context, s cache.Scope) (bool, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		return false, errors.New("an order without a deadline")
	}
	p.told = append(p.told, s)
	return p.everything, p.err
}

func keeping(t *testing.T, p *purges) office {
	t.Helper()
	s, err := cache.NewSealer()
	if err != nil {
		t.Fatal(err)
	}
	store := cache.NewStore(cache.Options{Sealer: s})
	log := &lines{}
	b := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Cache, o.Logger, o.Inspector = store, zerolog.New(log), within{}
		if p != nil {
			o.Purge = p.purge
		}
	})
	store.Count("llama-3", cache.ResultHit, &cache.Entry{Prompt: 100, Target: 20, USD: 0.5})
	store.Count("llama-3", cache.ResultMiss, nil)
	store.Count("llama-3", cache.ResultBypass, nil)
	return office{bench: b, admin: "http://" + b.AdminAddr().String(), log: log}
}

func TestOperatorsSeeTheCache(t *testing.T) {
	o := keeping(t, nil)
	status, body := o.send(t, http.MethodGet, o.admin+"/admin/status", "")
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", status, err, body)
	}
	if diff := cmp.Diff(&CacheTotals{Requests: 2, HitRatio: 0.5, SavedTokens: 120, SavedUSD: 0.5}, s.Cache); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if status, body := o.send(t, http.MethodPost, o.admin+"/admin/cache/purge", ""); status != http.StatusConflict || !strings.Contains(body, "no_cache") {
		t.Errorf("a purge where nothing is kept: status %d: %s", status, body)
	}
}

func TestOperatorsPurgeATenantARouteOrAll(t *testing.T) {
	for query, want := range map[string]struct {
		scope cache.Scope
		told  string
	}{
		"":                {cache.Scope{}, "all"},
		"?tenant=acme":    {cache.Scope{Tenant: "acme"}, "tenant acme"},
		"?route=llama-3":  {cache.Scope{Route: "llama-3"}, "route llama-3"},
		"?tenant=nobody1": {cache.Scope{Tenant: "nobody1"}, "tenant nobody1"}, // who may come to be, or have been
	} {
		p := &purges{}
		o := keeping(t, p)
		status, body := o.send(t, http.MethodPost, o.admin+"/admin/cache/purge"+query, "")
		var got PurgeResult
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || got.Purged != want.told || got.Everything {
			t.Errorf("%q: status %d: %s", query, status, body)
		}
		if diff := cmp.Diff([]cache.Scope{want.scope}, p.told); diff != "" {
			t.Errorf("%q: -want +got:\n%s", query, diff)
		}
		if found := o.log.holding(`"order":"purge"`); len(found) != 1 || !strings.Contains(found[0], `"done":true`) {
			t.Errorf("%q: logged %q", query, found)
		}
	}
}

func TestAPurgeThatMayMeanSomethingElseIsRefused(t *testing.T) {
	p := &purges{}
	o := keeping(t, p)
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
	if len(p.told) > 0 {
		t.Errorf("purged %v", p.told)
	}
}

func TestAPurgeThatFailedOrCoveredMoreIsToldSo(t *testing.T) {
	p := &purges{err: errors.New("dial tcp: refused")}
	o := keeping(t, p)
	if status, body := o.send(t, http.MethodPost, o.admin+"/admin/cache/purge?tenant=acme", ""); status != http.StatusInternalServerError || strings.Contains(body, "dial") {
		t.Errorf("status %d: %s", status, body)
	}
	if found := o.log.holding("dial tcp: refused"); len(found) != 1 || !strings.Contains(found[0], `"done":false`) {
		t.Errorf("logged %q", found)
	}
	p.err, p.everything = nil, true
	if status, body := o.send(t, http.MethodPost, o.admin+"/admin/cache/purge?tenant=acme", ""); status != http.StatusOK || !strings.Contains(body, `"everything":true`) || !strings.Contains(body, "Too many purges") {
		t.Errorf("status %d: %s", status, body)
	}
	p.err, p.everything = fmt.Errorf("purge: %w: i/o timeout", cache.ErrNotShared), false
	status, body := o.send(t, http.MethodPost, o.admin+"/admin/cache/purge?tenant=acme", "")
	if status != http.StatusOK || !strings.Contains(body, `"this_replica_only":true`) || !strings.Contains(body, "this replica only") {
		t.Errorf("status %d: %s", status, body)
	}
	if found := o.log.holding("i/o timeout"); len(found) != 1 || !strings.Contains(found[0], `"done":true`) || !strings.Contains(found[0], `"shared":false`) {
		t.Errorf("logged %q", found)
	}
}
