package gateway

import (
	"net/http"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers"
)

func TestCacheControlIsReadAsTheStandardSays(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  tiers.CacheControl
	}{
		{nil, tiers.CacheControl{}},
		{[]string{"no-transform, max-stale=5, x=\"a\""}, tiers.CacheControl{}},
		{[]string{"no-store"}, tiers.CacheControl{NoStore: true}},
		{[]string{" No-Cache "}, tiers.CacheControl{NoCache: true}},
		{[]string{"only-if-cached"}, tiers.CacheControl{OnlyIfCached: true}},
		{[]string{"max-age=60"}, tiers.CacheControl{HasMaxAge: true, MaxAge: time.Minute}},
		{[]string{`max-age="60"`}, tiers.CacheControl{HasMaxAge: true, MaxAge: time.Minute}},
		{[]string{"max-age=60, max-age=5"}, tiers.CacheControl{HasMaxAge: true, MaxAge: 5 * time.Second}},
		{[]string{"max-age=60", "max-age=5"}, tiers.CacheControl{HasMaxAge: true, MaxAge: 5 * time.Second}},
		{[]string{"max-age=0"}, tiers.CacheControl{HasMaxAge: true, NoCache: true}},
		{[]string{"max-age"}, tiers.CacheControl{HasMaxAge: true, NoCache: true}},
		{[]string{"max-age=-1"}, tiers.CacheControl{HasMaxAge: true, NoCache: true}},
		{[]string{"max-age=99999999999999999999"}, tiers.CacheControl{HasMaxAge: true, NoCache: true}},
		{[]string{"max-age=2000000000"}, tiers.CacheControl{HasMaxAge: true, MaxAge: maxAge}},
		{[]string{"no-store,,no-cache", "only-if-cached"}, tiers.CacheControl{NoStore: true, NoCache: true, OnlyIfCached: true}},
	} {
		if got := readCacheControl(http.Header{"Cache-Control": c.lines}); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.lines, got, c.want)
		}
	}
}

func FuzzCacheControl(f *testing.F) {
	f.Add("no-cache, max-age=5", "only-if-cached")
	f.Fuzz(func(t *testing.T, a, b string) {
		c := readCacheControl(http.Header{"Cache-Control": {a, b}})
		if c.MaxAge < 0 || c.MaxAge > maxAge || (c.MaxAge > 0 && !c.HasMaxAge) {
			t.Errorf("%q, %q: %+v", a, b, c)
		}
	})
}
