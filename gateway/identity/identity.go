// Package identity says who is calling: it turns a request's credentials and
// headers into a [Caller] with a tenant and a priority. Start at [New] and
// [Resolver.Identify].
//
// It guarantees that a tenant and a priority come from a source that may name
// them (a key, a proxy on the list, or a caller on this very machine), that a
// header never raises a priority above the tenant's ceiling, and that every
// value it hands out is safe in a label, a log line and a Redis key. No error
// of this package repeats a value that a client sent.
package identity

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// DefaultTenant is the tenant of a request that names none.
const DefaultTenant = "default"

// Mode says where a tenant and a priority may come from. The values are those
// of identity.mode in the configuration.
type Mode string

// The modes of this release.
const (
	Open           Mode = ""                // headers are believed; only callers on the loopback are served
	Keys           Mode = "keys"            // tenant and ceiling come from the bearer key
	TrustedHeaders Mode = "trusted_headers" // headers are believed when they come from a listed proxy
)

// Tenant is what the configuration says of one tenant.
type Tenant struct {
	ID          string
	KeySHA256   [][32]byte // SHA-256 of each of its keys
	MaxPriority Priority   // the highest priority it may ask for
	RPM, TPM    int        // requests and tokens per minute; 0 is unlimited
}

// Options are what a [Resolver] needs to know.
type Options struct {
	Mode           Mode
	Tenants        []Tenant
	TrustedProxies []netip.Prefix // socket addresses that may set headers, mode TrustedHeaders only
}

// Caller is who a request comes from and what it may ask for.
type Caller struct {
	Tenant   string
	Priority Priority
	Clamped  bool   // the header asked for more than the tenant may have
	RPM, TPM int    // requests and tokens per minute; 0 is unlimited
	RAGHash  string // "" when the header is absent
}

// Resolver tells callers apart. It is immutable and safe for concurrent use.
type Resolver struct {
	mode    Mode
	byID    map[string]*Tenant
	proxies []netip.Prefix

	// byKey finds a tenant by its key's digest. A plain map is enough: how long
	// it takes may tell something of the digest that was looked up, but to get
	// nearer to a stored digest bit by bit one would have to choose keys by
	// their SHA-256, which is to break it.
	byKey map[[32]byte]*Tenant
}

// New checks the options and builds a Resolver.
func New(o Options) (*Resolver, error) {
	r := &Resolver{mode: o.Mode, byID: map[string]*Tenant{}, byKey: map[[32]byte]*Tenant{}, proxies: slices.Clone(o.TrustedProxies)}
	for _, t := range o.Tenants {
		if err := r.add(t); err != nil {
			return nil, err
		}
	}
	for _, p := range r.proxies {
		if !p.IsValid() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("identity: trusted proxy %v is not a plain IPv4 or IPv6 network", p)
		}
	}
	switch {
	case o.Mode != Open && o.Mode != Keys && o.Mode != TrustedHeaders:
		return nil, errors.New("identity: unknown mode")
	case o.Mode == Keys && len(r.byKey) == 0:
		return nil, errors.New("identity: mode keys needs a tenant with a key")
	case o.Mode == TrustedHeaders && len(r.proxies) == 0:
		return nil, errors.New("identity: mode trusted_headers needs trusted proxies")
	}
	return r, nil
}

// add files a copy of t under its id and its keys.
func (r *Resolver) add(t Tenant) error {
	if !valid(t.ID, maxIdentity) {
		return errors.New("identity: a tenant's id is 1–64 of A-Z a-z 0-9 . _ : -")
	}
	if t.MaxPriority < Low || t.MaxPriority > High {
		return fmt.Errorf("identity: tenant %s has no valid priority", t.ID)
	}
	if r.byID[t.ID] != nil {
		return fmt.Errorf("identity: tenant %s is given twice", t.ID)
	}
	r.byID[t.ID] = &t
	for _, k := range t.KeySHA256 {
		if other := r.byKey[k]; other != nil {
			return fmt.Errorf("identity: tenants %s and %s share a key", other.ID, t.ID)
		}
		r.byKey[k] = &t
	}
	return nil
}

// Identify says who sent req. The error is always an [*Error].
func (r *Resolver) Identify(req *http.Request) (Caller, error) {
	name, err := Header(req.Header, HeaderTenant, maxIdentity)
	if err != nil {
		return Caller{}, err
	}
	asked, err := requested(req.Header)
	if err != nil {
		return Caller{}, err
	}
	rag, err := Header(req.Header, HeaderRAGHash, maxRAGHash)
	if err != nil {
		return Caller{}, err
	}
	t, err := r.tenant(req, name)
	if err != nil {
		return Caller{}, err
	}
	c := Caller{Tenant: t.ID, RPM: t.RPM, TPM: t.TPM, RAGHash: rag}
	c.Priority, c.Clamped = clamp(asked, t.MaxPriority)
	return c, nil
}

// tenant finds who req speaks for; name is what its header says.
func (r *Resolver) tenant(req *http.Request, name string) (*Tenant, error) {
	if r.mode == Keys {
		return r.byBearer(req.Header, name)
	}
	if !r.believes(req.RemoteAddr) {
		return nil, &Error{Kind: Forbidden, Reason: "this address may not name a tenant or a priority"}
	}
	if name == "" {
		name = DefaultTenant
	}
	if t := r.byID[name]; t != nil {
		return t, nil
	}
	return &Tenant{ID: name, MaxPriority: High}, nil
}

// byBearer finds the tenant whose key the request carries.
func (r *Resolver) byBearer(h http.Header, name string) (*Tenant, error) {
	key, err := bearer(h)
	if err != nil {
		return nil, err
	}
	t := r.byKey[sha256.Sum256([]byte(key))]
	if t == nil {
		return nil, &Error{Kind: Unauthorized, Header: headerAuthorization, Reason: "the key is not known"}
	}
	if name != "" && name != t.ID {
		return nil, &Error{Kind: Forbidden, Header: HeaderTenant, Reason: "is not the tenant of this key"}
	}
	return t, nil
}

// bearer takes the key out of the Authorization header.
func bearer(h http.Header) (string, error) {
	values := h[headerAuthorization]
	switch {
	case len(values) == 0:
		return "", &Error{Kind: Unauthorized, Header: headerAuthorization, Reason: "missing; send Bearer and a key"}
	case len(values) > 1:
		return "", &Error{Kind: BadHeader, Header: headerAuthorization, Reason: "is given more than once"}
	}
	scheme, key, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || key == "" || len(key) > maxKey {
		return "", &Error{Kind: Unauthorized, Header: headerAuthorization, Reason: "want Bearer and a key"}
	}
	return key, nil
}

// believes tells whether headers that arrive from this socket address count. It
// looks at no header: X-Forwarded-For is what anybody may write.
func (r *Resolver) believes(remote string) bool {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	addr := ap.Addr().Unmap().WithZone("") // a prefix never contains an address with a zone
	if r.mode == Open {
		return addr.IsLoopback()
	}
	return slices.ContainsFunc(r.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// requested is the priority that the header asks for; absent is Normal.
func requested(h http.Header) (asked ask, err error) {
	text, err := Header(h, HeaderPriority, maxIdentity)
	if err != nil || text == "" {
		return ask{priority: Normal}, err
	}
	p, err := ParsePriority(text)
	if err != nil {
		return ask{}, &Error{Kind: BadHeader, Header: HeaderPriority, Reason: "want low, normal or high"}
	}
	return ask{priority: p, explicit: true}, nil
}

// ask is a priority with or without a header that says so.
type ask struct {
	priority Priority
	explicit bool
}

// clamp holds a priority under its ceiling; only who asked for more is told.
func clamp(a ask, ceiling Priority) (Priority, bool) {
	if a.priority <= ceiling {
		return a.priority, false
	}
	return ceiling, a.explicit
}
