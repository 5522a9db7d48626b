package cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

const labelSalt = "foregate prefix salt\x00"

// Salt is what keeps a tenant's prompts apart in the prefix caches of engines (vLLM's cache_salt): the same on every
// replica, and under a secret not to be guessed. It changes with the first of the keys.
func (s *Sealer) Salt(tenant string) string {
	mac := hmac.New(sha256.New, s.keys[0].Secret)
	_, _ = mac.Write([]byte(labelSalt + tenant)) // a hash takes everything
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
