package cache

// Parts are what decides which answer a request gets. Two requests share an entry
// only if all of them are equal.
type Parts struct {
	Kind   string // of the request: the API's path
	Tenant string
	Epochs Epochs // of purges
	Route  string
	Draft  string // model and revision of the draft pool, "" without one
	Target string // model and revision of the target pool
	Tier   string // demanded: auto, draft or target
	RAG    string // digest of the retrieved context

	Request []byte // the request's body in canonical form
}

// Epochs count purges: a purge changes one, and with it the keys of all that it covers.
// Zero is never purged.
type Epochs struct{ All, Tenant, Route uint64 }

// Key names an entry, and is what its value is sealed to. Keys are comparable.
type Key struct {
	tenant [16]byte // of the tenant's name, for sweeping
	name   [32]byte // of the parts: what Redis sees
	seal   [32]byte // of the parts, too: never leaves the process
}

// KeyOf hashes the parts, each with its length before it.
func KeyOf(p *Parts) Key { panic("not built yet") }

// Name is the Redis key of the entry: foregate:cache:<tenant hash>:{<sha256>}, both in
// hexadecimal. The braces put it in one slot with what is kept of the request while
// it is under way.
func (k Key) Name() string { panic("not built yet") }
