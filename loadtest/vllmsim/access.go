package vllmsim

import (
	"crypto/subtle"
	"net/http"
	"strings"
)

// guarded is the beginning of the paths that vLLM's --api-key protects. /health, /metrics, /tokenize and others stay open.
const guarded = "/v1"

// admits reports whether a request has one of the keys, or needs none. The simulator's own routes are always open.
func (s *Server) admits(r *http.Request) bool {
	if len(s.opts.APIKeys) == 0 || strings.HasPrefix(r.URL.Path, "/sim/") {
		return true
	}
	if !s.opts.KeyForAllPaths && !strings.HasPrefix(r.URL.Path, guarded) {
		return true
	}
	shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, key := range s.opts.APIKeys {
		if ok && subtle.ConstantTimeCompare([]byte(shown), []byte(key)) == 1 {
			return true
		}
	}
	return false
}
