package cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

const labelSalt = "foregate prefix salt\x00"

// Salt separates a tenant's prompts from others in the engines' prefix caches (vLLM's cache_salt). It is the
// same on every replica, and cannot be guessed without the secret. It is derived from the key that seals, so
// that a retired secret protects nothing: when another key comes first, all prompts are computed once more.
func (s *Sealer) Salt(tenant string) string {
	mac := hmac.New(sha256.New, s.first().Secret)
	_, _ = mac.Write([]byte(labelSalt + tenant)) // a hash never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
