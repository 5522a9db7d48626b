package cache

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
)

// SealKey is a secret that values are sealed with.
type SealKey struct {
	ID     string // told in the value, 1 … 64 bytes
	Secret []byte // at least 32 bytes
}

// Why a value does not open.
var (
	// ErrForeign is a value of somebody else's, or of another release: it has not our
	// magic, another version, or a key id that is not known.
	ErrForeign = errors.New("cache: value is not of this version, or sealed with an unknown key")

	// ErrDamaged is a value that seems ours and does not open: it was changed, belongs to
	// another key, does not decode, or is too large.
	ErrDamaged = errors.New("cache: value does not open")
)

const (
	magic     = "fg\xca" // what follows is no text
	version   = 1        // of the envelope
	headerLen = len(magic) + 2
	maxID     = 64 // bytes
	minPlain  = 1  // bytes: how the rest is kept

	// minSecret is as many bytes as the derived keys have: fewer would be the weakest part.
	minSecret = 32

	// sealedBy is what a nonce and a tag add, in bytes.
	sealedBy = 12 + 16
)

// How the rest of a sealed text is kept.
const (
	kept       = 0 // as it is
	compressed = 1 // by S2
)

// Labels tell what a key is derived for, and an entry from the pieces of an answer.
const (
	labelValue = "foregate cache value\x00"
	labelEntry = "entry"
	labelPiece = "piece:"
)

// noSecret stands for the secret where there is none.
const noSecret = "foregate cache without a secret\x00"

// Sealer seals entries to their keys and opens them: AES-256-GCM under a key derived
// from the secret and the entry's own key, with the Redis key as associated data.
//
// Every entry has a key of its own, which seals what one answer and its pieces are at
// most: far fewer than the 2³² values after which random nonces might repeat.
type Sealer struct {
	ring atomic.Pointer[ring]
}

// ring is the keys of a sealer; the first seals, all open. It is never changed.
type ring []SealKey

// NewSealer seals with the first of the keys and opens what any of them sealed. Without
// keys the secret is one that everybody knows: values are still bound to their requests, and nobody reads one
// without knowing the whole request, but whoever knows it can forge one. A sealer with
// keys does not open what one without them sealed.
//
// It is an error for an id to be empty, longer than 64 bytes or there twice, and for a
// secret to be shorter than 32 bytes.
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

// Replace puts other keys in the place of those that there are, for what is sealed and opened from now on. There is
// at least one; the errors are NewSealer's, and change nothing. It is safe beside all other use.
//
// Nothing is lost where several sealers open each other's values and each of them can open what any other seals:
// first all get the new key behind the old one, then all get it first, then, when all that the old one sealed has
// expired, all lose the old one.
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

// Seal encodes, compresses and seals an entry. It is nil for one that is not to be kept:
// with a string of more than 1 KiB, or a count or cost that is negative or out of all reason.
func (s *Sealer) Seal(k Key, e *Entry) []byte {
	if !e.sound() {
		return nil
	}
	return s.seal(k, labelEntry, appendEntry(make([]byte, 0, maxHead/8+len(e.Answer)), e))
}

// Open is the reverse of Seal. What is damaged, foreign, of another version or has an answer of
// more than most bytes is an error, ErrForeign or ErrDamaged; the result shares no memory with value.
func (s *Sealer) Open(k Key, value []byte, most int) (*Entry, error) {
	plain, err := s.open(k, labelEntry, value, maxHead+most)
	if err != nil {
		return nil, err
	}
	return parseEntry(plain, most)
}

// SealBytes seals a piece that belongs to a key, such as a part of an answer under way;
// label says which piece it is.
func (s *Sealer) SealBytes(k Key, label string, piece []byte) []byte {
	return s.seal(k, labelPiece+label, piece)
}

// OpenBytes is the reverse of SealBytes, with the same label. What opens to more than most bytes is an error;
// the errors are Open's.
func (s *Sealer) OpenBytes(k Key, label string, value []byte, most int) ([]byte, error) {
	return s.open(k, labelPiece+label, value, most)
}

// seal makes a value: magic, version, length of the key id, key id, nonce, ciphertext, tag.
func (s *Sealer) seal(k Key, label string, text []byte) []byte {
	with := s.first()
	plain := pack(text)
	value := make([]byte, 0, headerLen+len(with.ID)+sealedBy+len(plain))
	value = append(value, magic...)
	value = append(value, version, byte(len(with.ID)))
	value = append(value, with.ID...)
	return with.aead(&k).Seal(value, nil, plain, bound(value, &k, label))
}

// open is the reverse of seal, for texts of most bytes.
func (s *Sealer) open(k Key, label string, value []byte, most int) ([]byte, error) {
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
	case len(value)-end > sealedBy+minPlain+most: // compressing never adds
		return nil, ErrDamaged
	}
	plain, err := with.aead(&k).Open(nil, nil, value[end:], bound(value[:end], &k, label))
	if err != nil {
		return nil, ErrDamaged
	}
	return unpack(plain, most)
}

// aead is the cipher of one entry's key. Its nonces are random, and told before the ciphertext.
func (k *SealKey) aead(of *Key) cipher.AEAD {
	derive := hmac.New(sha256.New, k.Secret)
	var room [len(labelValue) + sha256.Size]byte
	derive.Write(append(append(room[:0], labelValue...), of.seal[:]...))
	block, err := aes.NewCipher(derive.Sum(room[:0]))
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the block is of AES
	}
	return aead
}

// bound is what a value is bound to: its header, the Redis key, and what it is. Only the
// last has no length of its own.
func bound(header []byte, k *Key, label string) []byte {
	b := make([]byte, 0, len(header)+nameLen+len(label))
	b = append(b, header...)
	b = k.appendName(b)
	return append(b, label...)
}

// pack puts how the text is kept before it. It is compressed where that saves an eighth:
// for less, the time to undo it at every hit is not worth the room.
func pack(text []byte) []byte {
	plain := make([]byte, 1, 1+max(len(text), s2.MaxEncodedLen(len(text))))
	if short := s2.Encode(plain[1:cap(plain)], text); len(short) <= len(text)-len(text)/8 {
		plain[0] = compressed
		return plain[:1+len(short)]
	}
	plain[0] = kept
	return append(plain, text...)
}

// unpack is the reverse of pack, for texts of most bytes: what says that it is longer is
// not made.
func unpack(plain []byte, most int) ([]byte, error) {
	if len(plain) < minPlain {
		return nil, ErrDamaged
	}
	text := plain[1:]
	switch plain[0] {
	case kept:
		if len(text) > most {
			return nil, ErrDamaged
		}
		return text, nil
	case compressed:
		n, err := s2.DecodedLen(text)
		if err != nil || n > most {
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
