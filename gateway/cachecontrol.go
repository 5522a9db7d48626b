package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/cache"
)

// cacheControl is what a request's Cache-Control asks for (RFC 9111, section 5.2.1). Directives that have no meaning
// here, or are unknown, are passed over.
type cacheControl struct {
	noStore bool // nothing of it is kept, and nothing kept is given
	noCache bool // a fresh answer, which is kept
	only    bool // a kept answer or none
	bounded bool // the answer may be as old as maxAge
	maxAge  time.Duration
}

// plain says that the request asks for nothing.
func (c cacheControl) plain() bool { return c == cacheControl{} }

// takes says whether a kept answer is young enough.
func (c cacheControl) takes(e *cache.Entry, now time.Time) bool {
	return !c.bounded || now.Sub(e.Created) <= c.maxAge
}

// readCacheControl reads all lines of the header. An age that is no number is none at all: the answer must be fresh.
func readCacheControl(h http.Header) (c cacheControl) {
	for _, line := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "no-store":
				c.noStore = true
			case "no-cache":
				c.noCache = true
			case "only-if-cached":
				c.only = true
			case "max-age":
				age := wholeAge(value)
				if !c.bounded || age < c.maxAge {
					c.bounded, c.maxAge = true, age
				}
			}
		}
	}
	c.noCache = c.noCache || c.bounded && c.maxAge == 0
	return c
}

// mostAge is more than anything is kept for.
const mostAge = 365 * 24 * time.Hour

func wholeAge(value string) time.Duration {
	n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, mostAge)
}
