package cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

const labelSalt = "foregate prefix salt\x00"

// Salt is what keeps a tenant's prompts apart in the prefix caches of engines (vLLM's cache_salt): the same on every
// replica, and under a secret not to be guessed. It is made of the key that seals, so that a secret which is no longer
// in use protects nothing: where another key comes first, all prompts are computed once more.
func (s *Sealer) Salt(tenant string) string {
	mac := hmac.New(sha256.New, s.first().Secret)
	_, _ = mac.Write([]byte(labelSalt + tenant)) // a hash takes everything
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
