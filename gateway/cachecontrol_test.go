package gateway

import (
	"net/http"
	"testing"
	"time"

	"github.com/foregate/foregate/cache"
)

func TestCacheControlIsReadAsTheStandardSays(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  cacheControl
	}{
		{nil, cacheControl{}},
		{[]string{"no-transform, max-stale=5, x=\"a\""}, cacheControl{}},
		{[]string{"no-store"}, cacheControl{noStore: true}},
		{[]string{" No-Cache "}, cacheControl{noCache: true}},
		{[]string{"only-if-cached"}, cacheControl{only: true}},
		{[]string{"max-age=60"}, cacheControl{bounded: true, maxAge: time.Minute}},
		{[]string{`max-age="60"`}, cacheControl{bounded: true, maxAge: time.Minute}},
		{[]string{"max-age=60, max-age=5"}, cacheControl{bounded: true, maxAge: 5 * time.Second}},
		{[]string{"max-age=60", "max-age=5"}, cacheControl{bounded: true, maxAge: 5 * time.Second}},
		{[]string{"max-age=0"}, cacheControl{bounded: true, noCache: true}},
		{[]string{"max-age"}, cacheControl{bounded: true, noCache: true}},
		{[]string{"max-age=-1"}, cacheControl{bounded: true, noCache: true}},
		{[]string{"max-age=99999999999999999999"}, cacheControl{bounded: true, noCache: true}},
		{[]string{"max-age=2000000000"}, cacheControl{bounded: true, maxAge: mostAge}},
		{[]string{"no-store,,no-cache", "only-if-cached"}, cacheControl{noStore: true, noCache: true, only: true}},
	} {
		if got := readCacheControl(http.Header{"Cache-Control": c.lines}); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.lines, got, c.want)
		}
	}
}

func TestAnAnswerMayBeAsOldAsTheRequestSays(t *testing.T) {
	now := time.Now()
	e := &cache.Entry{Created: now.Add(-time.Minute)}
	for _, c := range []struct {
		header string
		want   bool
	}{{"", true}, {"max-age=60", true}, {"max-age=59", false}, {"no-transform", true}} {
		if got := readCacheControl(http.Header{"Cache-Control": {c.header}}).takes(e, now); got != c.want {
			t.Errorf("%q takes an answer of a minute: %t", c.header, got)
		}
	}
}

func FuzzCacheControl(f *testing.F) {
	f.Add("no-cache, max-age=5", "only-if-cached")
	f.Fuzz(func(t *testing.T, a, b string) {
		c := readCacheControl(http.Header{"Cache-Control": {a, b}})
		if c.maxAge < 0 || c.maxAge > mostAge || (c.maxAge > 0 && !c.bounded) {
			t.Errorf("%q, %q: %+v", a, b, c)
		}
	})
}
