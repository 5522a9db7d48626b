package pool

import (
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
)

// maxID is the longest id; the ids are parts of Redis keys and of metrics.
const maxID = 64

// idOf makes an id of a URL's host and port. Where that is taken or too long,
// a hash of the URL tells them apart.
func idOf(base string, taken func(string) bool) string {
	host := base
	if u, err := url.Parse(base); err == nil {
		host = u.Host
	}
	id := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		default:
			return '-'
		}
	}, host)
	if len(id) <= maxID && !taken(id) {
		return id
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(base)) // a hash takes everything
	suffix := fmt.Sprintf("-%016x", h.Sum64())
	return id[:min(len(id), maxID-len(suffix))] + suffix
}
