package cache

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
)

// SealKey is a secret that seals values.
type SealKey struct {
	ID     string // written into the value, 1 … 64 bytes
	Secret []byte // at least 32 bytes
}

// Why a value cannot be opened.
var (
	// ErrForeign is a value of another program or release: it does not begin with our magic, or has another
	// version or an unknown key id.
	ErrForeign = errors.New("cache: value is not of this version, or sealed with an unknown key")

	// ErrDamaged is a value of ours that cannot be opened: it was changed, belongs to another key, cannot be
	// decoded, or is too large.
	ErrDamaged = errors.New("cache: value does not open")
)

const (
	magic     = "fg\xca" // shows that the rest is not text
	version   = 1        // of the envelope
	headerLen = len(magic) + 2
	maxID     = 64 // bytes
	minPlain  = 1  // bytes: the encoding

	// minSecret is the length of the derived keys: a shorter secret would be weaker than these.
	minSecret = 32

	// sealedBy is the length of a nonce and a tag, in bytes.
	sealedBy = 12 + 16
)

// Encodings of the sealed text.
const (
	kept       = 0 // not compressed
	compressed = 1 // with S2
)

// Labels name the purpose of a derived key and of a value.
const (
	labelValue = "foregate cache value\x00"
	labelEntry = "entry"
	labelSalt  = "foregate prefix salt\x00"
)

// noSecret replaces the secret if there is none.
const noSecret = "foregate cache without a secret\x00"

// Sealer seals entries to their keys and opens them: AES-256-GCM with a key derived from the secret and the
// entry's own key, with the Redis key as associated data. Every entry has a derived key of its own, which
// seals one answer at a time: far fewer than the 2³² values after which random nonces might repeat.
type Sealer struct{ ring atomic.Pointer[ring] }

// ring holds the keys of a sealer; the first seals, all open. It is immutable.
type ring []SealKey

// NewSealer seals with the first key and opens with all keys. Without keys the secret is publicly known. Then
// values are still bound to their requests, and a value cannot be read without the whole request, but anyone
// who knows the request can forge one. A sealer with keys does not open values that one without keys sealed.
// An empty, repeated or too long id (64 bytes) and a secret of less than 32 bytes are errors.
func NewSealer(keys ...SealKey) (*Sealer, error) {
	s := &Sealer{}
	if len(keys) == 0 {
		s.ring.Store(&ring{{Secret: []byte(noSecret)}})
		return s, nil
	}
	if err := s.Replace(keys...); err != nil {
		return nil, err
	}
	return s, nil
}

// Replace replaces the keys for later calls. There is at least one; the errors are NewSealer's, and change
// nothing. It is safe for concurrent use. To rotate a key without losing entries on several replicas: first
// give all of them the new key after the old one, then give all of them the new key first, then, after
// everything that the old key sealed has expired, remove the old one.
func (s *Sealer) Replace(keys ...SealKey) error {
	if len(keys) == 0 {
		return errors.New("cache: there is no seal key")
	}
	made := make(ring, 0, len(keys))
	for i, k := range keys {
		switch {
		case k.ID == "":
			return fmt.Errorf("cache: seal key %d has no id", i+1)
		case len(k.ID) > maxID:
			return fmt.Errorf("cache: id of seal key %d has %d bytes, more than %d", i+1, len(k.ID), maxID)
		case made.find(k.ID) != nil:
			return fmt.Errorf("cache: seal key id %q is there twice", k.ID)
		case len(k.Secret) < minSecret:
			return fmt.Errorf("cache: secret of seal key %q has %d bytes, fewer than %d", k.ID, len(k.Secret), minSecret)
		}
		made = append(made, SealKey{ID: k.ID, Secret: slices.Clone(k.Secret)})
	}
	s.ring.Store(&made)
	return nil
}

// first is the key that seals.
func (s *Sealer) first() *SealKey { return &(*s.ring.Load())[0] }

func (r ring) find(id string) *SealKey {
	for i := range r {
		if r[i].ID == id {
			return &r[i]
		}
	}
	return nil
}

// Seal encodes, compresses and seals an entry. It returns nil for an entry that must not be stored: with a
// string of more than 1 KiB, or a count or cost that is negative or out of range.
func (s *Sealer) Seal(k Key, e *Entry) []byte {
	if !e.sound() {
		return nil
	}
	return s.seal(k, appendEntry(make([]byte, 0, maxHead/8+len(e.Answer)), e))
}

// Open is the inverse of Seal. A value that is damaged, foreign, of another version, or whose answer has more
// than maxSize bytes is an error, ErrForeign or ErrDamaged. The result shares no memory with value.
func (s *Sealer) Open(k Key, value []byte, maxSize int) (*Entry, error) {
	plain, err := s.open(k, value, maxHead+maxSize)
	if err != nil {
		return nil, err
	}
	return parseEntry(plain, maxSize)
}

// SealText seals a text that is no cached answer to a key, whose parts must name its kind: no API has it.
func (s *Sealer) SealText(k Key, text []byte) []byte { return s.seal(k, text) }

// OpenText is the inverse of SealText; its errors are Open's.
func (s *Sealer) OpenText(k Key, value []byte, maxSize int) ([]byte, error) {
	return s.open(k, value, maxSize)
}

// seal makes a value: magic, version, length of the key id, key id, nonce, ciphertext, tag.
func (s *Sealer) seal(k Key, text []byte) []byte {
	with := s.first()
	plain := pack(text)
	value := make([]byte, 0, headerLen+len(with.ID)+sealedBy+len(plain))
	value = append(value, magic...)
	value = append(value, version, byte(len(with.ID)))
	value = append(value, with.ID...)
	return with.aead(&k).Seal(value, nil, plain, bound(value, &k))
}

// open is the inverse of seal, for texts of at most maxSize bytes.
func (s *Sealer) open(k Key, value []byte, maxSize int) ([]byte, error) {
	if len(value) < headerLen || string(value[:len(magic)]) != magic || value[len(magic)] != version {
		return nil, ErrForeign
	}
	end := headerLen + int(value[headerLen-1])
	if len(value) < end {
		return nil, ErrDamaged
	}
	with := s.ring.Load().find(string(value[headerLen:end]))
	switch {
	case with == nil:
		return nil, ErrForeign
	case len(value)-end > sealedBy+minPlain+maxSize: // compression never adds bytes
		return nil, ErrDamaged
	}
	plain, err := with.aead(&k).Open(nil, nil, value[end:], bound(value[:end], &k))
	if err != nil {
		return nil, ErrDamaged
	}
	return unpack(plain, maxSize)
}

// aead is the cipher with an entry's key. Its nonces are random and precede the ciphertext.
func (k *SealKey) aead(of *Key) cipher.AEAD {
	derive := hmac.New(sha256.New, k.Secret)
	_, _ = derive.Write(append([]byte(labelValue), of.seal[:]...)) // a hash never fails
	block, err := aes.NewCipher(derive.Sum(nil))
	if err != nil {
		panic(err) // 32 bytes are a valid key
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return aead
}

// bound is the associated data of a value: its header, the Redis key, and the label.
func bound(header []byte, k *Key) []byte {
	b := make([]byte, 0, len(header)+nameLen+len(labelEntry))
	b = append(b, header...)
	b = k.appendName(b)
	return append(b, labelEntry...)
}

// pack prepends the encoding to the text. It compresses if that saves at least an eighth; for less,
// decompressing at every hit costs more than it saves.
func pack(text []byte) []byte {
	plain := make([]byte, 1, 1+max(len(text), s2.MaxEncodedLen(len(text))))
	if short := s2.Encode(plain[1:cap(plain)], text); len(short) <= len(text)-len(text)/8 {
		plain[0] = compressed
		return plain[:1+len(short)]
	}
	plain[0] = kept
	return append(plain, text...)
}

// unpack is the inverse of pack, for texts of at most maxSize bytes: longer ones are not decompressed.
func unpack(plain []byte, maxSize int) ([]byte, error) {
	if len(plain) < minPlain {
		return nil, ErrDamaged
	}
	text := plain[1:]
	switch plain[0] {
	case kept:
		if len(text) > maxSize {
			return nil, ErrDamaged
		}
		return text, nil
	case compressed:
		n, err := s2.DecodedLen(text)
		if err != nil || n > maxSize {
			return nil, ErrDamaged
		}
		text, err = s2.Decode(nil, text)
		if err != nil {
			return nil, ErrDamaged
		}
		return text, nil
	}
	return nil, ErrDamaged
}

// Salt separates a tenant's prompts from others in the engines' prefix caches (vLLM's cache_salt). It is the
// same on every replica, and cannot be guessed without the secret. It is derived from the key that seals, so
// that a retired secret protects nothing: when another key comes first, all prompts are computed once more.
func (s *Sealer) Salt(tenant string) string {
	mac := hmac.New(sha256.New, s.first().Secret)
	_, _ = mac.Write([]byte(labelSalt + tenant)) // a hash never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
