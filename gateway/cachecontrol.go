package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/pipeline"
)

// readCacheControl reads all lines of the header (RFC 9111, section 5.2.1). Directives that have no meaning here, or are
// unknown, are passed over. An age that is no number is none at all: the answer must be fresh.
func readCacheControl(h http.Header) (c pipeline.CacheControl) {
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

// maxAge is more than anything is kept for.
const maxAge = 365 * 24 * time.Hour

func wholeAge(value string) time.Duration {
	n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxAge)
}
