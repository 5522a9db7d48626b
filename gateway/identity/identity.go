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

	"github.com/foregate/foregate/gateway/peer"
)

// DefaultTenant is the tenant of a request that names none.
const DefaultTenant = "default"

// Mode says where a tenant and a priority may come from. The values are those
// of identity.mode in the configuration.
type Mode string

// The modes.
const (
	Open           Mode = ""                // headers are believed; only callers on the loopback are served
	Keys           Mode = "keys"            // tenant and ceiling come from the bearer key
	Signed         Mode = "signed"          // they come from X-Identity, which a load balancer signs
	JWTs           Mode = "jwt"             // they come from the claims of a bearer token
	TrustedHeaders Mode = "trusted_headers" // headers are believed when they come from a listed proxy
)

// Tenant is what the configuration says of one tenant.
type Tenant struct {
	ID                         string
	KeySHA256                  [][32]byte // SHA-256 of each of its keys
	MaxPriority                Priority   // the highest priority it may ask for
	RPM, TPM                   int        // requests and tokens per minute; 0 is unlimited
	Concurrent                 int        // requests under way; 0 is unlimited
	AllowLowScoreUnderPressure bool       // it may get drafts below the threshold while the target is short of memory
	PerTenantEvidence          bool       // what is promised of drafts is promised for its requests alone
}

// Unlisted says what becomes of a tenant that is not listed, in modes that may name one. The values are
// those of identity.unlisted_tenants in the configuration.
type Unlisted string

// What becomes of unlisted tenants.
const (
	UnlistedModeDefault Unlisted = ""        // served without limits in mode Open, refused in all others
	UnlistedRefuse      Unlisted = "refuse"  // 403
	UnlistedDefault     Unlisted = "default" // each is served as Options.Default
)

// Options are what a [Resolver] needs to know.
type Options struct {
	Mode           Mode
	Tenants        []Tenant       // those of the start; [Resolver.SetTenants] replaces them
	Unlisted       Unlisted       // not for mode Keys, where a key's tenant is listed
	Default        Tenant         // what each unlisted tenant may, with UnlistedDefault; its id and keys do not count
	TrustedProxies []netip.Prefix // socket addresses that may set headers, mode TrustedHeaders only
	JWT            JWT            // mode JWTs only

	Now func() time.Time // nil is time.Now
}

// Caller is who a request comes from and what it may ask for.
type Caller struct {
	Tenant                     string
	Priority                   Priority
	Clamped                    bool   // the header asked for more than the tenant may have
	RPM, TPM                   int    // requests and tokens per minute; 0 is unlimited
	Concurrent                 int    // requests under way; 0 is unlimited
	RAGHash                    string // "" when the header is absent
	AllowLowScoreUnderPressure bool   // as in [Tenant]
	PerTenantEvidence          bool
}

// Resolver tells callers apart. It is safe for concurrent use. What rotates is in a table, which Set…
// methods replace; a request reads it once.
type Resolver struct {
	mode     Mode
	unlisted *Tenant // what a tenant that is not listed may; nil: it is refused
	proxies  []netip.Prefix
	tokens   *tokens // mode JWTs
	now      func() time.Time

	set   sync.Mutex // held while the table is replaced
	table atomic.Pointer[table]
}

// New checks the options and builds a Resolver. In mode Signed and JWTs nobody is believed before the
// first SetSigningKeys or SetKeySet, in mode Keys nobody before there are tenants.
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
	if err := r.receive(o); err != nil {
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

// believe makes ready whatever the mode believes in.
func (r *Resolver) believe(o Options) (err error) {
	switch o.Mode {
	case Open, Keys, Signed:
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

// Open reports whether callers need to show nothing.
func (r *Resolver) Open() bool { return r.mode == Open }

// receive settles what becomes of tenants that are not listed.
func (r *Resolver) receive(o Options) error {
	switch {
	case o.Unlisted == UnlistedDefault && (o.Default.MaxPriority < Low || o.Default.MaxPriority > High):
		return errors.New("identity: unlisted tenants have no valid priority")
	case o.Unlisted == UnlistedDefault:
		r.unlisted = &o.Default
	case o.Unlisted == UnlistedModeDefault && o.Mode == Open:
		r.unlisted = &Tenant{MaxPriority: High}
	case o.Unlisted == UnlistedModeDefault, o.Unlisted == UnlistedRefuse:
	default:
		return errors.New("identity: unlisted tenants are refused or have the default")
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
	who, err := r.claim(r.table.Load(), req, name)
	if err != nil {
		return Caller{}, err
	}
	if !asked.explicit {
		asked.priority = who.defaultPriority
	}
	t := who.tenant
	c := Caller{Tenant: t.ID, RPM: t.RPM, TPM: t.TPM, Concurrent: t.Concurrent, RAGHash: rag, AllowLowScoreUnderPressure: t.AllowLowScoreUnderPressure, PerTenantEvidence: t.PerTenantEvidence}
	c.Priority, c.Clamped = clamp(asked, who.ceiling)
	return c, nil
}

// claim is what a source that may say so says of a request.
type claim struct {
	tenant          *Tenant
	ceiling         Priority // the highest that the request may have
	defaultPriority Priority // what it has when X-Priority is absent, under the ceiling
}

// claim finds who req speaks for, by t; name is what its X-Tenant-ID says.
func (r *Resolver) claim(t *table, req *http.Request, name string) (claim, error) {
	switch r.mode {
	case Keys:
		return t.byBearer(req.Header, name)
	case Signed:
		return r.bySignature(t, req, name)
	case JWTs:
		return r.byToken(t, req.Header, name)
	}
	if !r.believes(req.RemoteAddr) {
		return claim{}, &Error{Kind: Forbidden, Reason: "this address may not name a tenant or a priority"}
	}
	if name == "" {
		name = DefaultTenant
	}
	return r.named(t, name, High, Normal)
}

// named is the claim of tenant id with a ceiling, which the list may lower, or the default of those that
// are not listed.
func (r *Resolver) named(t *table, id string, ceiling, usual Priority) (claim, error) {
	if listed := t.byID[id]; listed != nil {
		return claim{listed, min(ceiling, listed.MaxPriority), usual}, nil
	}
	if r.unlisted == nil {
		return claim{}, &Error{Kind: Forbidden, Reason: "this tenant is not served here"}
	}
	unlisted := *r.unlisted
	unlisted.ID = id
	return claim{&unlisted, min(ceiling, unlisted.MaxPriority), usual}, nil
}

// byBearer finds the tenant whose key the request carries.
func (t *table) byBearer(h http.Header, name string) (claim, error) {
	key, err := bearer(h, maxKey)
	if err != nil {
		return claim{}, err
	}
	owner := t.byKey[sha256.Sum256([]byte(key))]
	if owner == nil {
		return claim{}, refused("the key is not known")
	}
	if err := sameTenant(name, owner.ID); err != nil {
		return claim{}, err
	}
	return claim{owner, owner.MaxPriority, Normal}, nil
}

// sameTenant refuses an X-Tenant-ID that contradicts the credentials.
func sameTenant(name, id string) error {
	if name != "" && name != id {
		return &Error{Kind: Forbidden, Header: HeaderTenant, Reason: "is not the tenant of these credentials"}
	}
	return nil
}

// believes tells whether headers that arrive from this socket address count. It
// looks at no header: X-Forwarded-For is what anybody may write.
func (r *Resolver) believes(remote string) bool {
	addr := peer.Address(remote)
	if r.mode == Open {
		return addr.IsLoopback()
	}
	return peer.Within(addr, r.proxies)
}

// requested is the priority that the header asks for; absent is Normal.
func requested(h http.Header) (asked requestedPriority, err error) {
	text, err := Header(h, HeaderPriority, maxIdentity)
	if err != nil || text == "" {
		return requestedPriority{priority: Normal}, err
	}
	p, err := ParsePriority(text)
	if err != nil {
		return requestedPriority{}, &Error{Kind: BadHeader, Header: HeaderPriority, Reason: "want low, normal or high"}
	}
	return requestedPriority{priority: p, explicit: true}, nil
}

// requestedPriority is a priority with or without a header that says so.
type requestedPriority struct {
	priority Priority
	explicit bool
}

// clamp holds a priority under its ceiling; only who asked for more is told.
func clamp(a requestedPriority, ceiling Priority) (Priority, bool) {
	if a.priority <= ceiling {
		return a.priority, false
	}
	return ceiling, a.explicit
}
