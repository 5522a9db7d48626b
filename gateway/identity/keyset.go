package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// MaxKeySet bounds the file of a key set, in bytes: several hundred keys.
const MaxKeySet = 256 << 10

// minRSA is the shortest RSA key, in bits (NIST SP 800-131A).
const minRSA = 2048

// publicKey verifies tokens.
type publicKey struct {
	public    any
	algorithm string // that it is for; "" is any that fits
}

// parseKeySet parses a key set (RFC 7517 §5). Errors name keys by their position and repeat nothing, because
// it may be the wrong file, with secrets in it.
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
			continue // RFC 7517 §5: keys that cannot be used are ignored
		case err != nil:
			return nil, fmt.Errorf("keys[%d] is malformed", i)
		case !k.IsPublic():
			return nil, fmt.Errorf("keys[%d] is a private or shared key, which does not belong in this file", i)
		case k.Use != "" && k.Use != "sig":
			continue
		case k.KeyID == "":
			return nil, fmt.Errorf("keys[%d] has no kid, by which tokens name it", i)
		case !strong(k.Key):
			return nil, fmt.Errorf("keys[%d] is an RSA key of less than %d bits, or of a kind that is not read", i, minRSA)
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

// strong reports whether tokens may be signed with this key.
func strong(key any) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}
