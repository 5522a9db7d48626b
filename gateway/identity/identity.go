package identity

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultTenant is the tenant of a request that names none. With trusted headers it must be listed: a proxy that sets no
// header would otherwise make one tenant of all its users.
const DefaultTenant = "default"

// Mode is the trusted source of tenant and priority. The values are those of identity.mode in the
// configuration.
type Mode string

// The modes.
const (
	Open           Mode = ""                // headers are trusted; only callers on loopback are served
	Keys           Mode = "keys"            // tenant and ceiling belong to the bearer key
	JWTs           Mode = "jwt"             // from the claims of a bearer token
	TrustedHeaders Mode = "trusted_headers" // headers are trusted if they come from a listed proxy
)

// Tenant is the configuration of one tenant.
type Tenant struct {
	ID                string
	KeySHA256         [][32]byte // SHA-256 of each of its keys
	MaxPriority       Priority   // highest allowed priority
	RPM, TPM          int        // requests and tokens per minute; 0 is unlimited
	Concurrent        int        // requests in progress; 0 is unlimited
	PerTenantEvidence bool       // the guarantee about drafts holds for its requests alone
	Access            *Access    // nil: no restrictions
}

// Unlisted says what happens to a tenant that is not listed, in modes in which a request may name one. The
// values are those of identity.unlisted_tenants in the configuration.
type Unlisted string

// What happens to unlisted tenants.
const (
	UnlistedModeDefault Unlisted = ""        // served without limits in mode Open, refused in all others
	UnlistedRefuse      Unlisted = "refuse"  // 403
	UnlistedDefault     Unlisted = "default" // served with the rights in Options.Default
)

// Options configure a [Resolver].
type Options struct {
	Mode           Mode
	Tenants        []Tenant       // at the start; [Resolver.SetTenants] replaces them
	Unlisted       Unlisted       // at the start, as Default; [Resolver.SetUnlisted] replaces both. Not for mode Keys, where every key has a listed tenant
	Default        Tenant         // rights of each unlisted tenant, with UnlistedDefault; its id and keys are ignored
	TrustedProxies []netip.Prefix // socket addresses that may set headers, mode TrustedHeaders only
	JWT            JWT            // mode JWTs only

	Now func() time.Time // nil is time.Now
}

// Caller is the sender of a request and its rights.
type Caller struct {
	Tenant            string
	Priority          Priority
	Clamped           bool   // the header asked for more than allowed
	RPM, TPM          int    // requests and tokens per minute; 0 is unlimited
	Concurrent        int    // requests in progress; 0 is unlimited
	RAGHash           string // "" when the header is absent
	PerTenantEvidence bool
	Access            *Access
}

// Resolver identifies callers. It is safe for concurrent use. All rotating data are in a table, which the
// Set… methods replace; a request reads it once.
type Resolver struct {
	mode    Mode
	proxies []netip.Prefix
	tokens  *tokens // mode JWTs
	now     func() time.Time

	set   sync.Mutex // held while the table is replaced
	table atomic.Pointer[table]
}

// New checks the options and builds a Resolver. In mode JWTs nobody is accepted before the first
// SetKeySet, in mode Keys nobody before there are tenants.
func New(o Options) (*Resolver, error) {
	r := &Resolver{mode: o.Mode, proxies: slices.Clone(o.TrustedProxies), now: o.Now}
	if r.now == nil {
		r.now = time.Now
	}
	r.table.Store(&table{})
	for _, p := range r.proxies {
		if !p.IsValid() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("identity: trusted proxy %v is not a plain IPv4 or IPv6 network", p)
		}
	}
	if err := r.believe(o); err != nil {
		return nil, err
	}
	if err := r.SetUnlisted(o.Unlisted, o.Default); err != nil {
		return nil, err
	}
	if len(o.Tenants) == 0 {
		return r, nil
	}
	if err := r.SetTenants(o.Tenants); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return r, nil
}

// believe prepares the mode's source of trust.
func (r *Resolver) believe(o Options) (err error) {
	switch o.Mode {
	case Open, Keys:
	case TrustedHeaders:
		if len(r.proxies) == 0 {
			return errors.New("identity: mode trusted_headers needs trusted proxies")
		}
	case JWTs:
		r.tokens, err = newTokens(o.JWT)
	default:
		return errors.New("identity: unknown mode")
	}
	return err
}

// Open reports whether callers need no credentials.
func (r *Resolver) Open() bool { return r.mode == Open }

// Identify returns the sender of req. The error is always an [*Error].
func (r *Resolver) Identify(req *http.Request) (Caller, error) {
	name, err := Header(req.Header, HeaderTenant, maxIdentity)
	if err != nil {
		return Caller{}, err
	}
	asked, explicit, err := requested(req.Header)
	if err != nil {
		return Caller{}, err
	}
	rag, err := Header(req.Header, HeaderRAGHash, maxRAGHash)
	if err != nil {
		return Caller{}, err
	}
	who, err := r.claim(r.table.Load(), req, name)
	if err != nil {
		return Caller{}, err
	}
	if !explicit {
		asked = who.defaultPriority
	}
	t := who.tenant
	c := Caller{Tenant: who.id, RPM: t.RPM, TPM: t.TPM, Concurrent: t.Concurrent, RAGHash: rag,
		PerTenantEvidence: t.PerTenantEvidence, Access: t.Access}
	c.Priority, c.Clamped = min(asked, who.ceiling), explicit && asked > who.ceiling
	return c, nil
}

// claim is what a trusted source says about a request.
type claim struct {
	tenant          *Tenant  // its rights
	id              string   // its id
	ceiling         Priority // highest priority that the request may have
	defaultPriority Priority // priority without X-Priority, limited by the ceiling
}

// claim returns the claim of req; name is the value of its X-Tenant-ID.
func (r *Resolver) claim(t *table, req *http.Request, name string) (claim, error) {
	switch r.mode {
	case Keys:
		return t.byBearer(req.Header, name)
	case JWTs:
		return r.byToken(t, req.Header, name)
	}
	if !r.believes(req.RemoteAddr) {
		return claim{}, &Error{Kind: Forbidden, Reason: "this address may not name a tenant or a priority"}
	}
	switch {
	case name != "":
	case r.mode == TrustedHeaders && t.byID[DefaultTenant] == nil:
		return claim{}, &Error{Kind: Forbidden, Header: HeaderTenant, Reason: "is missing, and there is no tenant named " + DefaultTenant}
	default:
		name = DefaultTenant
	}
	return r.named(t, name, High, Normal)
}

// named is the claim of tenant id. The list may lower the ceiling; unlisted tenants have the default.
func (r *Resolver) named(t *table, id string, ceiling, usual Priority) (claim, error) {
	if listed := t.byID[id]; listed != nil {
		return claim{listed, id, min(ceiling, listed.MaxPriority), usual}, nil
	}
	if t.unlisted == nil {
		return claim{}, &Error{Kind: Forbidden, Reason: "this tenant is not served here"}
	}
	return claim{t.unlisted, id, min(ceiling, t.unlisted.MaxPriority), usual}, nil
}

// byBearer returns the tenant of the request's bearer key.
func (t *table) byBearer(h http.Header, name string) (claim, error) {
	c, err := bearer(h, maxKey)
	if err != nil {
		return claim{}, err
	}
	owner := t.byKey[sha256.Sum256([]byte(c.text))]
	if owner == nil {
		return claim{}, c.refused("the key is not known")
	}
	if err := sameTenant(name, owner.ID); err != nil {
		return claim{}, err
	}
	return claim{owner, owner.ID, owner.MaxPriority, Normal}, nil
}

// sameTenant refuses an X-Tenant-ID that contradicts the credentials.
func sameTenant(name, id string) error {
	if name != "" && name != id {
		return &Error{Kind: Forbidden, Header: HeaderTenant, Reason: "is not the tenant of these credentials"}
	}
	return nil
}

// believes reports whether headers from this socket address are trusted. It ignores X-Forwarded-For, which
// anyone can write.
func (r *Resolver) believes(remote string) bool {
	addr := addressOf(remote)
	if r.mode == Open {
		return addr.IsLoopback()
	}
	return slices.ContainsFunc(r.proxies, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// addressOf is the IP address of a socket address: IPv4 as IPv4, and without a zone, because no network contains an address
// with one. It is the zero Addr, which is in no network, for anything else.
func addressOf(socket string) netip.Addr {
	ap, _ := netip.ParseAddrPort(socket) // the zero AddrPort with an error
	return ap.Addr().Unmap().WithZone("")
}

// requested parses the priority header; explicit is false without it.
func requested(h http.Header) (p Priority, explicit bool, err error) {
	text, err := Header(h, HeaderPriority, maxIdentity)
	if err != nil || text == "" {
		return Normal, false, err
	}
	if p, err = ParsePriority(text); err != nil {
		return Low, false, &Error{Kind: BadHeader, Header: HeaderPriority, Reason: "want low, normal or high"}
	}
	return p, true, nil
}
