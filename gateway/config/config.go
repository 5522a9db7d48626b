// Package config reads the gateway's static configuration file: where it
// listens, which pools and routes it serves and who may call it. Start at
// [Load]. What operators change while the gateway runs is in package settings.
//
// It guarantees that a [File] it returns is whole and consistent (defaults
// filled, every name defined, every URL usable), that all mistakes are told at
// once as "file:line: field: what and how to mend", in line order, and that no
// message ever holds a key, a password or a URL that might carry one.
package config

import "time"

// File is the whole configuration, defaults filled.
type File struct {
	Listen string // public listener; default :8080
	Admin  string // metrics, console, settings; default 127.0.0.1:9090
	// AdminTokensFile is the path of the secrets that operators show; "" is none: the admin
	// listener is then on loopback, and its console shows and changes nothing.
	AdminTokensFile string

	Redis    Redis
	Cache    Cache
	Identity Identity

	Pools   map[string]Pool
	Routes  []Route
	Tenants []Tenant
	// TenantsFile is the path of a file with the tenants instead, which is read again when it changes; "" is none.
	TenantsFile string

	Passthrough []string // paths handed to the target pool byte for byte

	Limits  Limits
	Drain   Drain
	Tracing Tracing
}

// Redis says where shared state lives. Neither URL may be logged as it is: print
// the [Endpoint] that [Redis.Endpoint] makes of it.
type Redis struct {
	// URL is redis://, rediss://, unix://, either of the first two with
	// +sentinel or +cluster, "embedded" (inside this process, one replica
	// only) or "none" (the default: every replica for itself).
	URL string
	// CacheURL keeps cached answers apart from coordination; "" is URL.
	CacheURL string
	// SettingsURL is the same Redis as URL for a user who may write live settings, for
	// operators who do so at the admin listener; "" is URL.
	SettingsURL string
	// Replicas is how many replicas there are, for one that has not heard it from
	// Redis; default 1.
	Replicas int

	// Of both URLs, where they have TLS: files in PEM. ServerName is the name that
	// the certificates must have; "" is the host that is dialed.
	CAFile, CertFile, KeyFile, ServerName string
	// Of both URLs, where they have Sentinels: the user that these ask for.
	SentinelUsername string

	// Paths of files that hold a password and nothing else: of the users in URL and CacheURL, of that in
	// SettingsURL, and of SentinelUsername; "" is none.
	PasswordFile, SettingsPasswordFile, SentinelPasswordFile string
}

// Cache is what must be known of cached answers at the start.
type Cache struct {
	// SealKeysFile is the path of the secrets that answers are sealed with: the first seals, all open. "" is none:
	// answers are bound to their requests, but who can write to Redis and knows a request can forge its answer.
	SealKeysFile string
	LocalBytes   int64 // of the copies in this process; default 32 MiB, 0 is none
}

// The modes of [Identity].
const (
	ModeOpen           = ""                // only on a loopback listener
	ModeKeys           = "keys"            // bearer keys of the tenants
	ModeSigned         = "signed"          // X-Identity as signed by a load balancer
	ModeJWT            = "jwt"             // bearer tokens of an issuer
	ModeTrustedHeaders = "trusted_headers" // X-Tenant-ID and X-Priority as set by the proxies listed
)

// Identity says whom to believe about tenant and priority.
type Identity struct {
	Mode            string   // "keys" is filled in when a tenant has keys, or tenants are in a file
	TrustedProxies  []string // CIDRs, mode trusted_headers only
	SigningKeysFile string   // path of the secrets that X-Identity may be signed with; mode signed only
	JWT             JWT      // mode jwt only

	UnlistedTenants string // what becomes of them: "" is refuse, or default in mode open; not in mode keys
	DefaultTenant   Tenant // what each of them may, with "default"; it has neither id nor keys
}

// What becomes of tenants that are not listed.
const (
	UnlistedRefuse  = "refuse"
	UnlistedDefault = "default"
)

// JWT says which tokens count.
type JWT struct {
	Issuer   string // iss of every token
	Audience string // aud holds it
	JWKSFile string // path of the issuer's public keys

	Algorithms    []string // none is RS256, ES256 and EdDSA
	TenantClaim   string   // "" is tenant
	PriorityClaim string   // "" is priority
}

// Pool is a set of backends that serve one model on one kind of hardware. It
// has either Backends or Discover.
type Pool struct {
	Model            string   // the model's name at the backends
	Revision         string   // which weights are served under that name; "" is not said
	USDPerHour       float64  // price of one backend
	PrefillPerSecond float64  // prompt tokens that one backend computes at its operating batch; 0 is to be learned
	DecodePerSecond  float64  // tokens that one backend generates, all its requests together; 0 is to be learned
	Backends         []string // base URLs without a trailing slash
	Discover         string   // dns://HOST:PORT, srv://_SERVICE._tcp.NAME or file://PATH
	Scheduler        string   // "fcfs" (the default) or "priority", as vLLM's --scheduling-policy
	KVEvents         int      // port of vLLM's KV events (ZMQ) on each backend, 1 … 65535; 0 is none
}

// The schedulers of a [Pool].
const (
	SchedulerFCFS     = "fcfs"     // first come, first served; a priority is refused
	SchedulerPriority = "priority" // the lower priority first
)

// Route maps a model name that clients ask for to its pools.
type Route struct {
	Model         string // the name that clients send
	Draft         string // pool; "" means that every request goes to the target
	Target        string // pool
	SameTokenizer bool   // draft and target read and write the same token ids

	AllowFields []string // what its clients may send beyond what all may, as fields.Allowable has it
}

// Tenant is one customer of the gateway.
type Tenant struct {
	ID          string
	KeysSHA256  []string // lower-case hex
	MaxPriority string   // low, normal (the default) or high
	RPM, TPM    int      // requests and tokens per minute; 0 is unlimited
	Concurrent  int      // requests under way; 0 is unlimited

	AllowLowScoreUnderPressure bool // it may get drafts below the threshold while the target is short of memory
	PerTenantEvidence          bool // what is promised of drafts is promised for its requests alone, on evidence of their own
}

// Limits bound what one request and all requests together may take.
type Limits struct {
	BodyBytes     int64 // of a request; default 4 MiB
	ResponseBytes int64 // of an answer that is not streamed; default 16 MiB
	InFlight      int   // requests at once; default 4096
	HeaderBytes   int   // of a request; default 16 KiB

	Connections           int      // open client connections; 0 is what the files that may be open allow
	ConnectionsPerAddress int      // of those, from one address that is not in Balancers; 0 is half
	Balancers             []string // CIDRs of addresses whose connections carry many clients
}

// Drain says how the gateway leaves.
type Drain struct {
	Delay time.Duration // still accepting after the signal; default 5s
	Grace time.Duration // for running streams; default 25s
}
