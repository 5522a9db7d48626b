package limits

import (
	_ "embed" // the script
	"time"

	"github.com/foregate/foregate/internal/redis/script"
)

// keyLimit plus a tenant's name is a hash: at is Redis' time in µs of the last change; r, t and h are the
// levels of requests, tokens and requests of priority high at that time. It has the hash tag {fg} of the
// replicas' other keys. The keys expire, and may be evicted, because tenants are many: a missing key means
// empty buckets.
const keyLimit = "foregate:{fg}:limit:"

// keyProbe is the key for testing a recovery. No tenant's name has a slash.
const keyProbe = keyLimit + "/probe"

const (
	// maxDebt is the maximum level of a bucket, in minutes of its limit: a wrong charge is forgotten after
	// that time.
	maxDebt = 2
	// expiry is longer than the longest drain.
	expiry = (maxDebt + 1) * time.Minute
)

// The script uses one key.
var (
	//go:embed limit.lua
	limitSource string
	limitScript = script.New(limitSource)
)
