package identity

import (
	"crypto/sha256"
	"errors"
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

// Tenant is one customer of the gateway, as the configuration declares it, and as JSON without its keys and budgets.
type Tenant struct {
	ID                string     `json:"tenant" yaml:"id" form:"tenant" need:"give the tenant's name" doc:"The tenant's name: 1–64 of 'A-Z a-z 0-9 . _ : -'."`
	KeySHA256         [][32]byte `json:"-" yaml:"keys_sha256" doc:"SHA-256 of each of its bearer keys, in hex: 'printf %s \"$KEY\" \\| sha256sum'."`
	MaxPriority       Priority   `json:"max_priority" yaml:"max_priority" default:"normal" doc:"Highest priority of its requests: 'low', 'normal' or 'high'."`
	RPM               int        `json:"rpm" yaml:"rpm" min:"0" max:"1000000000" absent:"'0'" doc:"Requests per minute over all replicas; 0 means no limit. Bursts are 1.2 seconds' worth, and up to four requests with limits below 200. At most 'limit.high_priority_share' of them may have priority 'high'. While Redis is down every replica admits its share."`
	TPM               int        `json:"tpm" yaml:"tpm" min:"0" max:"1000000000000" absent:"'0'" doc:"Prompt and answer tokens per minute over all replicas; 0 means no limit. A request is admitted by what it may need ('max_tokens', or 512), and charged what it has used. If that is unknown, for example if its client disconnects before the first byte, it is charged what it may need. Bursts are 3 seconds' worth plus one request."`
	Concurrent        int        `json:"concurrent" yaml:"concurrent" min:"0" max:"1000000" absent:"'0'" doc:"Answers at once, 'n' for each prompt of a list; 0 means no limit. Every replica admits this number divided by the number of replicas, rounded up. Answers from the cache do not count, but a body over 64 KiB, or of unknown length, counts from before its first byte until its request ends."`
	PerTenantEvidence bool       `json:"per_tenant_evidence" yaml:"per_tenant_evidence" doc:"Modes 'risk' and 'shadow': certify thresholds from this tenant's own requests, so that 'risk.max_disagreement' holds for this tenant alone. Useful from about 20,000 requests per day."`
	Access            `yaml:",inline"`
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

// Options configure a [Resolver]; those with tags are the section identity of the configuration, which checks them.
type Options struct {
	Mode           Mode           `yaml:"mode" choice:"keys,jwt,trusted_headers" hint:"or leave it out" absent:"none, or 'keys' when a tenant has keys or there is a 'tenants_file'" doc:"How the gateway learns tenant and priority: 'keys' (bearer keys of the tenants), 'jwt' (bearer tokens of an issuer) or 'trusted_headers' ('X-Tenant-ID' and 'X-Priority', set by the listed proxies; a request without 'X-Tenant-ID' is refused unless a tenant named 'default' is listed). Without a mode, which only a loopback listener allows, clients may claim any tenant, and browsers must use an IP address, 'localhost', or a name under '.localhost' or '.internal'. For tenants that are not listed see 'identity.unlisted_tenants'."`
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies" form:"network" doc:"CIDRs of the proxies whose identity headers are trusted, such as '[10.0.0.0/16]'. Required with mode 'trusted_headers', not allowed with others."`                                                                                                                      // mode TrustedHeaders only
	Unlisted       Unlisted       `yaml:"unlisted_tenants" choice:"refuse,default" absent:"'refuse'; without a mode 'default', unlimited" doc:"What happens to a tenant that a token or trusted header names but 'tenants' does not list: 'refuse' (403), or 'default' (served with the limits of 'identity.default_tenant'). Not with mode 'keys'."` // not for mode Keys, where every key has a listed tenant
	Default        Tenant         `yaml:"default_tenant" without:"id,keys_sha256,per_tenant_evidence,trace_content" absent:"no limits" doc:"Rights of each tenant that is not listed: the fields of 'tenants[]' but 'id', 'keys_sha256', 'per_tenant_evidence' and 'trace_content'. Only with 'unlisted_tenants: default'."`
	JWT            JWT            `yaml:"jwt"` // mode JWTs only

	Tenants []Tenant         // at the start; [Resolver.SetTenants] replaces them
	Now     func() time.Time // nil is time.Now
}

// Caller is the sender of a request and its rights.
type Caller struct {
	Tenant            string
	Priority          Priority
	Clamped           bool   // the header asked for more than allowed
	RPM, TPM          int    // requests and tokens per minute; 0 is unlimited
	Concurrent        int    // requests in progress; 0 is unlimited
	RAGHash           string // "" when the header is absent
	Application       string // as the client named it, if its tenant may; "" is by its prompt
	PerTenantEvidence bool
	Access            Access
}

// Resolver identifies callers. It is safe for concurrent use. All rotating data are in a table, which the
// Set… methods replace; a request reads it once.
type Resolver struct {
	mode    Mode
	proxies []netip.Prefix
	jwt     JWT // mode JWTs
	now     func() time.Time

	set   sync.Mutex // held while the table is replaced
	table atomic.Pointer[table]
}

// New builds a Resolver. In mode JWTs nobody is accepted before the first SetKeySet, in mode Keys nobody before there are
// tenants.
func New(o Options) (*Resolver, error) {
	switch {
	case o.Mode == TrustedHeaders && len(o.TrustedProxies) == 0:
		return nil, errors.New("identity: mode trusted_headers needs trusted proxies")
	case o.Mode == JWTs && (o.JWT.Issuer == "" || o.JWT.Audience == ""):
		return nil, errors.New("identity: mode jwt needs an issuer and an audience")
	}
	r := &Resolver{mode: o.Mode, proxies: o.TrustedProxies, jwt: o.JWT, now: o.Now}
	if r.now == nil {
		r.now = time.Now
	}
	r.table.Store(&table{})
	r.SetUnlisted(o.Unlisted, o.Default)
	r.SetTenants(o.Tenants)
	return r, nil
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
	app, err := Header(req.Header, HeaderApplication, maxIdentity)
	if err != nil {
		return Caller{}, err
	}
	who, err := r.claim(r.table.Load(), req, name)
	if err != nil {
		return Caller{}, err
	}
	t := who.tenant
	c := Caller{Tenant: who.id, RPM: t.RPM, TPM: t.TPM, Concurrent: t.Concurrent, RAGHash: rag,
		PerTenantEvidence: t.PerTenantEvidence, Access: t.Access}
	if t.NameApplications {
		c.Application = app
	}
	c.Priority, c.Clamped = min(asked, who.ceiling), explicit && asked > who.ceiling
	return c, nil
}

// claim is what a trusted source says about a request.
type claim struct {
	tenant  *Tenant  // its rights
	id      string   // its id
	ceiling Priority // highest priority that the request may have
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
	return t.named(name, High)
}

// named is the claim of tenant id. The list may lower the ceiling; unlisted tenants have the default.
func (t *table) named(id string, ceiling Priority) (claim, error) {
	rights := t.byID[id]
	if rights == nil {
		rights = t.unlisted
	}
	if rights == nil {
		return claim{}, &Error{Kind: Forbidden, Reason: "this tenant is not served here"}
	}
	return claim{rights, id, min(ceiling, rights.MaxPriority)}, nil
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
	return claim{owner, owner.ID, owner.MaxPriority}, nil
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
