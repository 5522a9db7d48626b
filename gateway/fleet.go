package gateway

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Fleet is what operators may do with backends. It is safe for concurrent use. A backend is named by its pool
// and its id in Backends. If there is no such backend, pool and id are the operator's own words (pool may be
// ""): it may be a backend that left and will return.
type Fleet interface {
	// Drain stops new work on a backend, on every replica, for d; 0 means until Undrain. Running work
	// continues. Its errors match ErrUnknownBackend or ErrAmbiguousBackend, or ErrNotShared if only this
	// replica drained it.
	Drain(ctx context.Context, pool, backend, why string, d time.Duration) error
	// Undrain ends a drain, with the same errors. A drain that does not exist is no error.
	Undrain(ctx context.Context, pool, backend string) error
	// Backends returns all backends of all pools as this replica sees them.
	Backends() []Backend
}

// Errors that a Fleet's errors may match.
var (
	ErrUnknownBackend   = errors.New("unknown backend")
	ErrAmbiguousBackend = errors.New("several pools have this backend")
	// ErrNotShared means that this replica carried out the action, and the other replicas could not be told.
	ErrNotShared = errors.New("the other replicas could not be told")
)

// Backend is one backend as operators see it.
type Backend struct {
	Pool, ID, URL string
	Engine        string  // the kind of its engine; "" is not known yet
	State         string  // up, down, drained or suspect
	Why           string  // why it is not up; "" when it is
	KVUsage       float64 // of its last reading, 0 … 1; NaN: it does not tell it
	InFlight      int     // this replica's requests on it
	Age           float64 // seconds since that reading; negative or NaN: no reading
}

// matchBackends returns the backends that match name: an id, else a base URL, else host:port; in one pool, or
// in all pools if pool is "".
func matchBackends(views []Backend, pool, name string) []Backend {
	base, address := normalizeAddress(name)
	for _, same := range []func(v Backend) bool{
		func(v Backend) bool { return v.ID == name },
		func(v Backend) bool { b, _ := normalizeAddress(v.URL); return base != "" && b == base },
		func(v Backend) bool {
			_, a := normalizeAddress(v.URL)
			return base == "" && address != "" && a == address
		},
	} {
		var found []Backend
		for _, v := range views {
			if (pool == "" || v.Pool == pool) && same(v) {
				found = append(found, v)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// normalizeAddress returns the base URL in comparable form ("" if raw is only an address) and its host:port
// ("" if it has none).
func normalizeAddress(raw string) (base, address string) {
	whole := strings.Contains(raw, "://")
	if !whole {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return "", ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	address = strings.ToLower(net.JoinHostPort(u.Hostname(), port))
	path := strings.TrimRight(u.EscapedPath(), "/")
	switch {
	case whole:
		return u.Scheme + "://" + address + path, address
	case path != "":
		return "", ""
	}
	return "", address
}

// backendNames lists backends as pool/id for a message, at most twenty.
func backendNames(views []Backend) string {
	const maximum = 20
	names := make([]string, 0, len(views))
	for _, v := range views {
		names = append(names, v.Pool+"/"+v.ID)
	}
	slices.Sort(names)
	if len(names) > maximum {
		names = append(names[:maximum], "…")
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
