package ledger

import (
	_ "embed" // the scripts
	"strconv"
	"time"

	"github.com/foregate/foregate/internal/redis/script"
)

// All keys have the hash tag {fg} of the replicas' other keys. keyTenant plus a tenant's name is a hash: its levels, and the
// windows of each replica process (reserve.lua). It expires three minutes after its last use, or an hour after the end of
// its windows.
const (
	keyTenant = "foregate:{fg}:ledger1:tenant:"
	keyProbe  = keyTenant + "/probe" // for testing a recovery; no tenant's name has a slash
)

// keyUsage plus a UTC day, such as 2026-11-23, is a hash. Its fields:
//
//	r|TENANT|ROUTE          the sums of processes that have stopped, or for which the day is over
//	o|PROCESS|TENANT|ROUTE  those of a running process so far
//	p|PROCESS               its last version
//
// A tenant's name has no bar; a route's may. The keys have no TTL, because a full Redis evicts keys with a TTL first.
const keyUsage = "foregate:{fg}:usage:"

const (
	expiry       = (maxLevel + 1) * time.Minute // longer than the longest drain
	windowExpiry = time.Hour
)

// expiryOf is how long Redis keeps a tenant.
func expiryOf(t *tenant, now time.Time) time.Duration {
	longest := expiry
	for _, w := range t.windows {
		if w.end > 0 {
			longest = max(longest, time.Unix(w.end, 0).Sub(now)+windowExpiry)
		}
	}
	return longest
}

// Every script uses one key.
var (
	//go:embed reserve.lua
	reserveSource string
	reserveScript = script.New(reserveSource)
	//go:embed write.lua
	writeSource string
	writeScript = script.New(writeSource)
)

// appendNumbers appends numbers as the scripts read them.
func appendNumbers[T int | int64](b []byte, numbers ...T) []byte {
	for _, n := range numbers {
		b = strconv.AppendInt(append(b, ' '), int64(n), 10)
	}
	return b
}
