package cache

// Lease names a request under way among replicas: identical requests of the same class that are
// answered in the same way (streamed or not).
type Lease struct {
	Name   string // its Redis key, in one slot with the entry's
	Token  string // of this replica, for this request
	Holder string // token of whoever has it, when that is another
}

// leaseFor is how long a lease holds without a word of its holder.
const leaseFor = 1500 // ms
