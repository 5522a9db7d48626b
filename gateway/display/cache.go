package display

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
)

// results in the order of display.
var results = []cache.Result{
	cache.ResultHit, cache.ResultLocal, cache.ResultCoalesced, cache.ResultMiss, cache.ResultAway, cache.ResultLate, cache.ResultError, cache.ResultBypass,
}

// Cache prints a replica's cache state.
func Cache(w io.Writer, v gateway.CacheView) {
	head := Table{MaxWidth: 12}
	head.Add("local copies", fmt.Sprintf("%d, %s", v.LocalEntries, Bytes(v.LocalBytes)))
	state := "in use"
	if v.Away {
		state = "not in use: it does not answer"
	}
	head.Add("redis", state)
	head.Add("write queue", fmt.Sprint(v.Queued))
	for _, part := range []struct {
		name, what string
		by         map[string]uint64
	}{{"refused", "values", v.Refused}, {"dropped", "answers", v.Dropped}} {
		for _, reason := range slices.Sorted(maps.Keys(part.by)) {
			if n := part.by[reason]; n > 0 {
				head.Add(part.name, fmt.Sprintf("%d %s: %s", n, part.what, reason))
			}
		}
	}
	head.Write(w)
	t := Table{}
	t.Add("route", "hit ratio, 5 min", "tokens saved", "USD saved")
	for _, r := range v.Routes {
		var words []string
		for _, result := range results {
			if n := r.Requests[string(result)]; n > 0 {
				words = append(words, fmt.Sprintf("%d %s", n, result))
			}
		}
		t.Add(r.Route, fmt.Sprintf("%.0f%%", 100*r.HitRatio), fmt.Sprint(r.SavedTokens), Dollars(r.SavedUSD))
		t.Add("  " + strings.Join(words, ", "))
	}
	t.Write(w)
}
