package cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
)

const (
	labelSalt = "foregate prefix salt\x00"

	// maxSalts bounds the tenants whose salts are kept. When there are more, all are forgotten.
	maxSalts = 4096
)

// salts are the salts that were derived from one ring. Deriving one takes 1 µs and 8 allocations, and every
// request needs one (BenchmarkSalt).
type salts struct {
	mu       sync.RWMutex
	ring     *ring
	byTenant map[string]string
}

// Salt separates a tenant's prompts from others in the engines' prefix caches (vLLM's cache_salt). It is the
// same on every replica, and cannot be guessed without the secret. It is derived from the key that seals, so
// that a retired secret protects nothing: when another key comes first, all prompts are computed once more.
func (s *Sealer) Salt(tenant string) string {
	ring, kept := s.ring.Load(), &s.salts
	kept.mu.RLock()
	salt, ok := kept.byTenant[tenant]
	ok = ok && kept.ring == ring
	kept.mu.RUnlock()
	if ok {
		return salt
	}
	salt = ring.salt(tenant)
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.ring != ring || len(kept.byTenant) == maxSalts {
		kept.ring, kept.byTenant = ring, map[string]string{}
	}
	kept.byTenant[strings.Clone(tenant)] = salt
	return salt
}

// salt derives a tenant's salt from the key that seals.
func (r *ring) salt(tenant string) string {
	mac := hmac.New(sha256.New, (*r)[0].Secret)
	_, _ = mac.Write([]byte(labelSalt + tenant)) // a hash never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
