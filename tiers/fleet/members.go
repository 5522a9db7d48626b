package fleet

import (
	"slices"
	"strings"
	"time"
)

const (
	// goneAfter is the maximum age of a heartbeat: of other replicas' heartbeats by Redis' clock, and of this
	// replica's last tick by its own.
	goneAfter = 1500 * time.Millisecond
	// dropAfter is when a replica without heartbeats leaves the set.
	dropAfter = 10 * time.Second
)

// view is the set of live replicas at one heartbeat.
type view struct {
	members []string // sorted
	hashes  []uint64 // of members
	at      time.Time
	since   time.Time // of the first good tick without a longer pause since then
}

func newView(members []string, at time.Time) *view {
	v := &view{members: members, hashes: make([]uint64, len(members)), at: at, since: at}
	for i, m := range members {
		v.hashes[i] = hash(offset, m)
	}
	return v
}

// shared reports whether the view is still believed at now; nil is not.
func (v *view) shared(now time.Time) bool { return v != nil && now.Sub(v.at) < goneAfter }

// owner is the member with the highest score for a backend (rendezvous hashing): when a member leaves, only
// its own backends get another owner.
func (v *view) owner(pool, backend string) string {
	key := hash(hash(hash(offset, pool), "/"), backend)
	best, high := -1, uint64(0)
	for i, h := range v.hashes {
		if score := mix(h ^ key); best < 0 || score > high {
			best, high = i, score // of equal scores, the first by name
		}
	}
	return v.members[best]
}

// liveMembers makes a list of members from Redis' reply: valid, sorted, unique, including self.
func liveMembers(values []string, self string) []string {
	members := append(slices.DeleteFunc(values, func(m string) bool { return !validReplica(m) }), self)
	slices.Sort(members)
	return slices.Compact(members)
}

// validReplica reports whether an id is 1..64 printable ASCII characters without space.
func validReplica(id string) bool {
	return id != "" && len(id) <= maxReplica && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

const (
	offset = 14695981039346656037 // FNV-1a's
	prime  = 1099511628211
)

// hash continues an FNV-1a hash. All replicas of a fleet must agree on it, so it is our own and never
// changes.
func hash(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * prime
	}
	return h
}

// mix is the finaliser of SplitMix64: every input bit flips about half of the output bits.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
