package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/rs/zerolog"
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
	ID          string
	KeySHA256   [][32]byte // SHA-256 of each of its keys
	MaxPriority Priority   // the highest priority it may ask for
	RPM, TPM    int        // requests and tokens per minute; 0 is unlimited
	Concurrent  int        // requests under way; 0 is unlimited
	Spared      bool       // it may get drafts below the threshold while the target is short of memory
	Apart       bool       // what is promised of drafts is promised for its requests alone
}

// Options are what a [Resolver] needs to know.
type Options struct {
	Mode           Mode
	Tenants        []Tenant
	TrustedProxies []netip.Prefix // socket addresses that may set headers, mode TrustedHeaders only
	SigningKeys    []SigningKey   // mode Signed only
	JWT            JWT            // mode JWTs only

	Logger zerolog.Logger   // told of changes of the key set
	Now    func() time.Time // nil is time.Now
}

// Caller is who a request comes from and what it may ask for.
type Caller struct {
	Tenant     string
	Priority   Priority
	Clamped    bool   // the header asked for more than the tenant may have
	RPM, TPM   int    // requests and tokens per minute; 0 is unlimited
	Concurrent int    // requests under way; 0 is unlimited
	RAGHash    string // "" when the header is absent
	Spared     bool   // as in [Tenant]
	Apart      bool
}

// Resolver tells callers apart. It is safe for concurrent use; nothing of it
// changes but the key set of mode JWTs, while Run runs.
type Resolver struct {
	mode     Mode
	byID     map[string]*Tenant
	proxies  []netip.Prefix
	secrets  map[string][]byte // by key id, mode Signed
	tokens   *tokens           // mode JWTs
	warnings []string
	log      zerolog.Logger
	now      func() time.Time

	// byKey finds a tenant by its key's digest. A plain map is enough: how long
	// it takes may tell something of the digest that was looked up, but to get
	// nearer to a stored digest bit by bit one would have to choose keys by
	// their SHA-256, which is to break it.
	byKey map[[32]byte]*Tenant
}

// New checks the options, reads the files that they name and builds a Resolver.
// Errors name a file by what it is for, never by its path or content.
func New(o Options) (*Resolver, error) {
	r := &Resolver{
		mode: o.Mode, byID: map[string]*Tenant{}, byKey: map[[32]byte]*Tenant{}, proxies: slices.Clone(o.TrustedProxies), log: o.Logger, now: o.Now,
	}
	if r.now == nil {
		r.now = time.Now
	}
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
	if err := r.believe(o); err != nil {
		return nil, err
	}
	return r, nil
}

// believe makes ready whatever the mode believes in.
func (r *Resolver) believe(o Options) (err error) {
	switch o.Mode {
	case Open:
	case Keys:
		if len(r.byKey) == 0 {
			return errors.New("identity: mode keys needs a tenant with a key")
		}
	case TrustedHeaders:
		if len(r.proxies) == 0 {
			return errors.New("identity: mode trusted_headers needs trusted proxies")
		}
	case Signed:
		r.secrets, r.warnings, err = readSecrets(o.SigningKeys)
	case JWTs:
		r.tokens, err = newTokens(o.JWT)
	default:
		return errors.New("identity: unknown mode")
	}
	return err
}

// Warnings are what New found that works and should be otherwise.
func (r *Resolver) Warnings() []string { return r.warnings }

// Open reports whether callers need to show nothing.
func (r *Resolver) Open() bool { return r.mode == Open }

// Run follows the key set of mode JWTs, and only waits in the other modes. It
// returns when ctx ends.
func (r *Resolver) Run(ctx context.Context) error {
	if r.tokens == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return r.tokens.keys.follow(ctx, r.log)
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
	who, err := r.claim(req, name)
	if err != nil {
		return Caller{}, err
	}
	if !asked.explicit {
		asked.priority = who.usual
	}
	t := who.tenant
	c := Caller{Tenant: t.ID, RPM: t.RPM, TPM: t.TPM, Concurrent: t.Concurrent, RAGHash: rag, Spared: t.Spared, Apart: t.Apart}
	c.Priority, c.Clamped = clamp(asked, who.ceiling)
	return c, nil
}

// claim is what a source that may say so says of a request.
type claim struct {
	tenant  *Tenant
	ceiling Priority // the highest that the request may have
	usual   Priority // what it has when X-Priority is absent, under the ceiling
}

// claim finds who req speaks for; name is what its X-Tenant-ID says.
func (r *Resolver) claim(req *http.Request, name string) (claim, error) {
	switch r.mode {
	case Keys:
		return r.byBearer(req.Header, name)
	case Signed:
		return r.bySignature(req, name)
	case JWTs:
		return r.byToken(req.Header, name)
	}
	if !r.believes(req.RemoteAddr) {
		return claim{}, &Error{Kind: Forbidden, Reason: "this address may not name a tenant or a priority"}
	}
	if name == "" {
		name = DefaultTenant
	}
	return r.named(name, High, Normal), nil
}

// named is the claim of tenant id, which need not be listed, with a ceiling that
// the list may lower.
func (r *Resolver) named(id string, ceiling, usual Priority) claim {
	if t := r.byID[id]; t != nil {
		return claim{t, min(ceiling, t.MaxPriority), usual}
	}
	return claim{&Tenant{ID: id, MaxPriority: ceiling}, ceiling, usual}
}

// byBearer finds the tenant whose key the request carries.
func (r *Resolver) byBearer(h http.Header, name string) (claim, error) {
	key, err := bearer(h, maxKey)
	if err != nil {
		return claim{}, err
	}
	t := r.byKey[sha256.Sum256([]byte(key))]
	if t == nil {
		return claim{}, refused("the key is not known")
	}
	if err := sameTenant(name, t.ID); err != nil {
		return claim{}, err
	}
	return claim{t, t.MaxPriority, Normal}, nil
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
