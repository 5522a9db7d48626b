package fleet

import (
	"slices"
	"time"
)

const (
	// goneAfter is how old a heartbeat may be: the same for the heartbeats of others,
	// by Redis' clock, and for what this replica heard of them, by its own.
	goneAfter = 1500 * time.Millisecond
	// dropAfter is when a replica that is gone leaves the set.
	dropAfter = 10 * time.Second
)

// view is who lives, as of one heartbeat.
type view struct {
	members []string // sorted
	hashes  []uint64 // of members
	at      time.Time
	level   Mode      // while it is young
	since   time.Time // when that was entered
}

func newView(members []string, at time.Time) *view {
	v := &view{members: members, hashes: make([]uint64, len(members)), at: at, level: Shared, since: at}
	for i, m := range members {
		v.hashes[i] = hash(offset, m)
	}
	return v
}

// mode is what v is worth at now.
func (v *view) mode(now time.Time) Mode {
	if v == nil || now.Sub(v.at) >= goneAfter {
		return Local
	}
	return v.level
}

// entered is when the mode of now was.
func (v *view) entered(now time.Time) time.Time {
	if v.level != Local && v.mode(now) == Local {
		return v.at.Add(goneAfter)
	}
	return v.since
}

// owner is the member with the highest score for a backend (rendezvous hashing): one
// that leaves gives up its own backends and nobody else's.
func (v *view) owner(pool, backend string) string {
	key := hash(hash(hash(offset, pool), "/"), backend)
	best, high := -1, uint64(0)
	for i, h := range v.hashes {
		if score := mix(h ^ key); best < 0 || score > high {
			best, high = i, score // of equals, the first by name
		}
	}
	return v.members[best]
}

// liveMembers makes what Redis told a list of members: valid, sorted, each once, self among them.
func liveMembers(told []string, self string) []string {
	members := append(make([]string, 0, len(told)+1), self)
	for _, m := range told {
		if validReplica(m) {
			members = append(members, m)
		}
	}
	slices.Sort(members)
	return slices.Compact(members)
}

// validReplica says whether an id is 1..64 printable ASCII characters without space,
// so that it stands in a value between spaces.
func validReplica(id string) bool {
	if id == "" || len(id) > maxReplica {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

const (
	offset = 14695981039346656037 // FNV-1a's
	prime  = 1099511628211
)

// hash goes on with FNV-1a. All replicas of a fleet must agree on it, so it is ours and
// never changes.
func hash(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * prime
	}
	return h
}

// mix is the finaliser of SplitMix64: every bit in turns over half of those out.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
