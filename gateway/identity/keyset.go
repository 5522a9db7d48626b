package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/rs/zerolog"
)

const (
	keySetEvery = 30 * time.Second // how often the file is looked at
	maxKeySet   = 256 << 10        // bytes, several hundred keys
	leastRSA    = 2048             // bits (NIST SP 800-131A)
)

// keySet holds the public keys of a file and follows its changes.
type keySet struct {
	path string
	keys atomic.Pointer[map[string]publicKey] // by kid; never changed once it is here

	seen fs.FileInfo // of the file as it was read last, well or badly; nil: it was away. Only load and follow touch it
}

// publicKey is one that tokens may be signed with.
type publicKey struct {
	public    any
	algorithm string // that it is for; "" is any that fits
}

// find is the key with this id.
func (s *keySet) find(id string) (publicKey, bool) {
	key, ok := (*s.keys.Load())[id]
	return key, ok
}

// load reads the file; when that fails the keys stay as they are.
func (s *keySet) load() error {
	data, state, err := readSmall(s.path, maxKeySet)
	if err != nil {
		return err
	}
	s.seen = state
	keys, err := parseKeySet(data)
	if err != nil {
		return err
	}
	s.keys.Store(&keys)
	return nil
}

// parseKeySet reads a key set (RFC 7517 §5). Errors name keys by their place
// and repeat nothing: the file may be another one, with secrets in it.
func parseKeySet(data []byte) (map[string]publicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, errors.New(`is no JSON Web Key Set, {"keys": […]}`)
	}
	keys := map[string]publicKey{}
	for i, raw := range set.Keys {
		var k jose.JSONWebKey
		err := json.Unmarshal(raw, &k)
		switch {
		case errors.Is(err, jose.ErrUnsupportedKeyType):
			continue // RFC 7517 §5: of no use here
		case err != nil:
			return nil, fmt.Errorf("keys[%d] is malformed", i)
		case !k.IsPublic():
			return nil, fmt.Errorf("keys[%d] is a private or shared key, which does not belong in this file", i)
		case k.Use != "" && k.Use != "sig":
			continue
		case k.KeyID == "":
			return nil, fmt.Errorf("keys[%d] has no kid, by which tokens name it", i)
		case !strong(k.Key):
			return nil, fmt.Errorf("keys[%d] is an RSA key of less than %d bits, or of a kind that is not read", i, leastRSA)
		}
		if _, twice := keys[k.KeyID]; twice {
			return nil, fmt.Errorf("keys[%d] has the kid of another key", i)
		}
		keys[k.KeyID] = publicKey{k.Key, k.Algorithm}
	}
	if len(keys) == 0 {
		return nil, errors.New("has no key for signatures")
	}
	return keys, nil
}

// strong tells whether tokens may be signed with this key.
func strong(key any) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= leastRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// follow looks at the file every 30 s until ctx ends.
func (s *keySet) follow(ctx context.Context, log zerolog.Logger) error {
	tick := time.NewTicker(keySetEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			s.look(log)
		}
	}
}

// look reads the file if it has changed since it was read last. Each change is
// told once, a broken one too.
func (s *keySet) look(log zerolog.Logger) {
	state, err := os.Stat(s.path)
	if err != nil {
		if s.seen != nil {
			s.seen = nil
			log.Warn().Err(withoutPath(err)).Msg("the key set of identity mode jwt is away; the keys that were read stay in force")
		}
		return
	}
	if s.seen != nil && os.SameFile(s.seen, state) && s.seen.Size() == state.Size() && s.seen.ModTime().Equal(state.ModTime()) {
		return
	}
	s.seen = state // also when it cannot be opened, so that this is told once
	if err := s.load(); err != nil {
		log.Warn().Err(err).Msg("the key set of identity mode jwt is broken; the keys that were read before stay in force")
		return
	}
	log.Info().Int("keys", len(*s.keys.Load())).Msg("the key set of identity mode jwt was read again")
}
