// Package discover finds a pool's backends: the addresses of a name, or the service records of a name. Start at [New].
// It guarantees that a result is sorted, has no duplicates, and has 1 to [MaxBackends] base URLs in their canonical form:
// the caller may use it as the pool's complete set. If there is no result, the caller decides what to do; a Source does
// not keep old results.
package discover

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"
)

// Source finds the backends that a pool has now. Only one goroutine may use it.
type Source interface {
	// Find looks once: base URLs in the canonical form of [URL], 1 … [MaxBackends], sorted as text, without
	// duplicates; the caller may keep and change them. No backend is an error. It returns within 4 s.
	Find(ctx context.Context) ([]string, error)
	// Every is the time between two calls of Find.
	Every() time.Duration
}

// New makes a Source of one of
//
//	dns://HOST:PORT            every A and AAAA record of HOST
//	srv://_SERVICE._tcp.NAME   the SRV records of that name, target and port each
//
// Nothing is looked up before Find, so an error is about raw itself and says what it must be; it never repeats raw.
func New(raw string, o Options) (Source, error) {
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	switch {
	case ok && scheme == "dns":
		return newAddresses(rest, o)
	case ok && scheme == "srv":
		return newServices(rest, o)
	}
	return nil, errors.New("want dns://HOST:PORT or srv://_SERVICE._tcp.NAME, such as dns://vllm-draft.svc:8000")
}

// Check reports whether New would accept raw.
func Check(raw string) error {
	_, err := New(raw, Options{})
	return err
}
