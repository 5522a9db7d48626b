package limits

import (
	_ "embed" // the script
	"time"

	"github.com/foregate/foregate/internal/redis/script"
)

// keyLimit, with a tenant's name behind it, is a hash: at, Redis' time in µs of the last
// change; r, t and h, the requests, tokens and requests of priority high that were owed then.
// It shares the hash tag {fg} with the other keys of the replicas. Tenants are many, so the
// keys expire, and may be evicted: one that is gone only means that nothing is owed.
const keyLimit = "foregate:{fg}:limit:"

// keyProbe is what recovery is tried on. No tenant's name has a slash.
const keyProbe = keyLimit + "/probe"

const (
	// maxOwed is the most a bucket holds, in minutes of its limit: a mistaken charge is
	// forgotten after that time.
	maxOwed = 2
	// expiry is longer than the longest debt.
	expiry = (maxOwed + 1) * time.Minute
)

// The script touches one key.
var (
	//go:embed limit.lua
	limitSource string
	limitScript = script.New(limitSource)
)
