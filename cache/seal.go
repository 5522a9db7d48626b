package cache

// SealKey is a secret that values are sealed with.
type SealKey struct {
	ID     string // told in the value, 1 … 64 bytes
	Secret []byte // at least 32 bytes
}

// Sealer seals entries to their keys and opens them: AES-256-GCM under a key derived
// from the secret and the entry's own key, with the Redis key as associated data.
type Sealer struct{}

// NewSealer seals with the first of the keys and opens what any of them sealed. Without
// keys the secret is empty: values are still bound to their requests, and nobody reads one
// without knowing the whole request, but whoever knows it can forge one.
func NewSealer(keys ...SealKey) (*Sealer, error) { panic("not built yet") }

// Seal encodes, compresses and seals an entry.
func (s *Sealer) Seal(k Key, e *Entry) []byte { panic("not built yet") }

// Open is the reverse of Seal. What is damaged, foreign, of another version or larger
// than most bytes is an error; the result shares no memory with value.
func (s *Sealer) Open(k Key, value []byte, most int) (*Entry, error) { panic("not built yet") }

// SealBytes seals a piece that belongs to a key, such as a part of an answer under way;
// label says which piece it is.
func (s *Sealer) SealBytes(k Key, label string, piece []byte) []byte { panic("not built yet") }

// OpenBytes is the reverse of SealBytes, with the same label. What opens to more than most bytes is an error.
func (s *Sealer) OpenBytes(k Key, label string, value []byte, most int) ([]byte, error) {
	panic("not built yet")
}
