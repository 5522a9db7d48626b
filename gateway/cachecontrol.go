package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers"
)

// readCacheControl reads all lines of the header (RFC 9111, section 5.2.1). Unknown directives and those
// without a meaning here are ignored. An age that is not a number counts as 0: the answer must be fresh.
func readCacheControl(h http.Header) (c tiers.CacheControl) {
	for _, line := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "no-store":
				c.NoStore = true
			case "no-cache":
				c.NoCache = true
			case "only-if-cached":
				c.OnlyIfCached = true
			case "max-age":
				age := wholeAge(value)
				if !c.HasMaxAge || age < c.MaxAge {
					c.HasMaxAge, c.MaxAge = true, age
				}
			}
		}
	}
	c.NoCache = c.NoCache || c.HasMaxAge && c.MaxAge == 0
	return c
}

// maxAge is longer than any answer is stored.
const maxAge = 365 * 24 * time.Hour

func wholeAge(value string) time.Duration {
	n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxAge)
}
