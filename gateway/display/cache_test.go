package display

import (
	"io"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway"
)

// busyCache is the cache of a replica that has seen it all.
func busyCache() gateway.CacheView {
	return gateway.CacheView{
		Routes: []gateway.CacheRoute{
			{Route: "llama-3", Requests: map[string]uint64{"hit": 300, "local": 90, "coalesced": 12, "miss": 600, "late": 3, "bypass": 41, "error": 0}, HitRatio: 0.387, SavedTokens: 123456, SavedUSD: 12.345},
			{Route: "a-route-with-a-name-that-is-much-too-long-for-a-column-70b", Requests: map[string]uint64{"miss": 1}, SavedUSD: 0.00123},
		},
		LocalEntries: 812, LocalBytes: 5 << 20, Away: true, Queued: 7, Refused: map[string]uint64{"damaged": 2, "foreign": 0, "large": 1},
		Dropped: map[string]uint64{"full": 12, "queue": 3, "stopped": 0},
	}
}

func TestTheCachesStatsTellEverythingHoweverWide(t *testing.T) {
	show := func(w io.Writer) {
		Cache(w, busyCache())
		_, _ = io.WriteString(w, "\n---\n\n")
		Cache(w, gateway.CacheView{LocalBytes: 2000})
	}
	var b strings.Builder
	show(&b)
	golden(t, "testdata/cache.txt", b.String())
	fits(t, show)
}
