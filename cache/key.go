package cache

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Parts are all inputs that decide which answer a request gets. Two requests share an entry only if all of
// them are equal.
type Parts struct {
	Kind   string // of the request: the API's path
	Tenant string
	Epochs Epochs // of purges
	Route  string
	Draft  string // model and revision of the draft pool, "" without one
	Target string // model and revision of the target pool
	Tier   string // demanded: auto, draft or target
	RAG    string // digest of the retrieved context

	Request []byte // the request: a collision-resistant digest of its canonical form
}

// Epochs count purges: a purge changes one of them, and so the keys of everything that it covers. Zero is
// never purged.
type Epochs struct{ All, Tenant, Route uint64 }

// Key identifies an entry; its value is sealed to it. Keys are comparable.
type Key struct {
	tenant [16]byte // hash of the tenant's name
	name   [32]byte // hash of the parts: the name in Redis
	seal   [32]byte // another hash of the parts: never leaves the process
}

// partsVersion changes whenever stored answers must no longer be found: when the order of the parts, or the
// digest of the request, changes.
const partsVersion = 3

// The purpose of each hash, so that none can replace another.
const (
	labelTenant = "foregate cache tenant\x00"
	labelName   = "foregate cache name\x00\x00\x00"
	labelSeal   = "foregate cache seal\x00\x00\x00"
)

// keyPrefix begins the Redis keys of all entries.
const keyPrefix = "foregate:cache:"

// nameLen is the length of a Redis key of an entry, in bytes: 32 are 43 in base64.
const nameLen = len(keyPrefix) + 43

// KeyOf hashes the parts, each with its length before it. The name and the seal are hashes of that hash, so
// the name in Redis reveals nothing about the seal.
func KeyOf(p *Parts) Key {
	var room [512]byte // longer names than most need an allocation
	b := append(room[:0], partsVersion)
	for _, part := range [...]string{p.Kind, p.Tenant, p.Route, p.Draft, p.Target, p.Tier, p.RAG} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	b = binary.BigEndian.AppendUint64(b, p.Epochs.All)
	b = binary.BigEndian.AppendUint64(b, p.Epochs.Tenant)
	b = binary.BigEndian.AppendUint64(b, p.Epochs.Route)
	b = binary.BigEndian.AppendUint64(b, uint64(len(p.Request)))
	h := sha256.New()
	h.Write(b)
	h.Write(p.Request)

	k := Key{tenant: tenantHash(p.Tenant)}
	var labelled [len(labelName) + sha256.Size]byte
	h.Sum(labelled[:len(labelName)])
	copy(labelled[:], labelName)
	k.name = sha256.Sum256(labelled[:])
	copy(labelled[:], labelSeal)
	k.seal = sha256.Sum256(labelled[:])
	return k
}

// Name is the Redis key of the entry: foregate:cache:<sha256>, in base64 for URLs. It is short: each request sends it.
func (k Key) Name() string {
	var room [nameLen]byte
	return string(k.appendName(room[:0]))
}

func (k *Key) appendName(b []byte) []byte {
	return base64.RawURLEncoding.AppendEncode(append(b, keyPrefix...), k.name[:])
}

// Tenant is a hash of the tenant's name.
func (k Key) Tenant() [16]byte { return k.tenant }

// tenantHash is the first half of the hash of a tenant's name.
func tenantHash(tenant string) [16]byte {
	var room [128]byte
	sum := sha256.Sum256(append(append(room[:0], labelTenant...), tenant...))
	return [16]byte(sum[:16])
}
