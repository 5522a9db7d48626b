// Package config reads the gateway's static configuration file: listeners, pools, routes and callers. Start
// at [Load]. Package settings has what operators change at run time. It guarantees that a returned [File] is
// complete and consistent (defaults filled, every name defined, every URL usable); that all mistakes are
// reported together as "file:line: field: mistake and correction", in line order; and that no message
// contains a key, a password or a URL that might contain one.
package config

import "time"

// File is the whole configuration with its defaults.
type File struct {
	Listen string // public listener; default :8080
	Admin  string // metrics, console, settings; default 127.0.0.1:9090
	// AdminTokensFile is the path of the operators' tokens; "" is none: then the admin listener must be on
	// loopback, and its console is read-only.
	AdminTokensFile string
	TLS, AdminTLS   ListenerTLS // of the two listeners; the zero value is plain HTTP

	Redis    Redis
	Cache    Cache
	Identity Identity

	Pools   map[string]Pool
	Routes  []Route
	Tenants []Tenant
	// TenantsFile is the path of a file with the tenants, used instead of Tenants and reloaded when it
	// changes; "" is none.
	TenantsFile string

	Passthrough []string // paths forwarded to the target pool byte for byte

	Limits  Limits
	Drain   Drain
	Tracing Tracing
	Export  Export
}

// Redis configures the shared state. Do not log the URLs: log the [Endpoint] that [Redis.Endpoint] returns.
type Redis struct {
	// URL is redis://, rediss://, unix://, either of the first two with
	// +sentinel or +cluster, "embedded" (inside this process, one replica
	// only) or "none" (the default: every replica for itself).
	URL string
	// CacheURL separates cached answers from coordination; "" is URL.
	CacheURL string
	// SettingsURL is the same Redis as URL, for a user that may write live settings, so that operators can do
	// so at the admin listener; "" is URL.
	SettingsURL string
	// Replicas is the number of replicas, used until Redis reports it; default 1.
	Replicas int

	// For both URLs, if they use TLS: PEM files. ServerName is the name that the certificates must have; ""
	// is the dialed host.
	CAFile, CertFile, KeyFile, ServerName string
	// For both URLs, if they use Sentinels: the user at the Sentinels.
	SentinelUsername string

	// Paths of files with one password each: of the users in URL and CacheURL, of the user in SettingsURL,
	// and of SentinelUsername; "" is none.
	PasswordFile, SettingsPasswordFile, SentinelPasswordFile string
}

// Cache is the static configuration of the answer cache.
type Cache struct {
	// SealKeysFile is the path of the secrets that seal answers: the first one seals, all of them open. "" is
	// none: then answers are bound to their requests, but anyone who can write to Redis and knows a request
	// can forge its answer.
	SealKeysFile string
	LocalBytes   int64 // of the copies in this process; default 32 MiB, 0 is none
}

// The modes of [Identity].
const (
	ModeOpen           = ""                // only on a loopback listener
	ModeKeys           = "keys"            // bearer keys of the tenants
	ModeJWT            = "jwt"             // bearer tokens of an issuer
	ModeTrustedHeaders = "trusted_headers" // X-Tenant-ID and X-Priority as set by the proxies listed
)

// Identity configures which sources of tenant and priority are trusted.
type Identity struct {
	Mode           string   // "keys" is filled in when a tenant has keys, or tenants are in a file
	TrustedProxies []string // CIDRs, mode trusted_headers only
	JWT            JWT      // mode jwt only

	UnlistedTenants string // what becomes of them: "" is refuse, or default in mode open; not in mode keys
	DefaultTenant   Tenant // what each of them may, with "default"; it has neither id nor keys
}

// What happens to tenants that are not listed.
const (
	UnlistedRefuse  = "refuse"
	UnlistedDefault = "default"
)

// JWT configures which tokens are accepted.
type JWT struct {
	Issuer   string // iss of every token
	Audience string // a member of aud in every token
	JWKSFile string // path of the issuer's public keys

	Algorithms    []string // none: RS256, ES256 and EdDSA
	TenantClaim   string   // "" is tenant
	PriorityClaim string   // "" is priority
}

// Pool is a set of backends that serve one model on one kind of hardware. It
// has either Backends or Discover.
type Pool struct {
	Model            string   // the model's name at the backends
	Revision         string   // which weights are served under that name; "" is not said
	USDPerHour       float64  // price of one backend
	PrefillPerSecond float64  // prompt tokens per second of one backend at its operating batch; 0: learned
	DecodePerSecond  float64  // generated tokens per second of one backend, over all its requests; 0: learned
	Backends         []string // base URLs without a trailing slash
	Discover         string   // dns://HOST:PORT, srv://_SERVICE._tcp.NAME or file://PATH
	Engine           string   // one of dialect.Kinds; "auto" (the default) asks the engine
	Scheduler        string   // "fcfs" (the default) or "priority", as vLLM's --scheduling-policy
	Auth             PoolAuth // what the backends want to see
	TLS              PoolTLS  // how they are reached by https
	KVEvents         int      // port of vLLM's KV events (ZMQ) on each backend, 1 … 65535; 0 is none

	USDPerMillionInput, USDPerMillionOutput float64 // price of a million tokens of prompts and of answers; both 0: not paid by the token
}

// The schedulers of a [Pool].
const (
	SchedulerFCFS     = "fcfs"     // first come, first served; a priority is an error
	SchedulerPriority = "priority" // lower priority values first
)

// Route maps a model name of clients to its pools.
type Route struct {
	Model         string // the name that clients send
	Draft         string // pool; "" means that every request goes to the target
	Target        string // pool; with Targets the first of them
	SameTokenizer bool   // draft and target use the same token ids

	Targets     []WeightedTarget // several target pools by weight, the one in force first; none: Target alone
	Mirror      Mirror           // another pool that is compared with the target in the background
	AllowFields []string         // additional fields that its clients may send, of fields.Allowable
	Fallbacks   []Fallback       // hosted last resorts, in the order in which they are tried; at most 4
}

// Tenant is one customer of the gateway.
type Tenant struct {
	ID          string
	KeysSHA256  []string // lower-case hex
	MaxPriority string   // low, normal (the default) or high
	RPM, TPM    int      // requests and tokens per minute; 0 is unlimited
	Concurrent  int      // requests in progress; 0 is unlimited

	AllowLowScoreUnderPressure bool // it may get drafts below the threshold while the target is short of KV memory
	PerTenantEvidence          bool // the guarantee about drafts holds for its requests alone, with their own evidence

	Models  []string // names of routes, or beginnings of names that end with *; none: all routes
	Budgets []Budget // none: no budget

	AllowExternal bool // its requests may be answered by fallbacks, which are not the operator's own
}

// Limits bound one request, and all requests together.
type Limits struct {
	BodyBytes     int64 // of a request; default 4 MiB
	ResponseBytes int64 // of a non-streamed answer; default 16 MiB
	InFlight      int   // requests at once; default 4096
	HeaderBytes   int   // of a request; default 16 KiB

	Connections           int      // open client connections; 0: derived from the limit of open files
	ConnectionsPerAddress int      // of these, from one address that is not in Balancers; 0 is half
	Balancers             []string // CIDRs of addresses whose connections carry many clients
}

// Drain configures the shutdown.
type Drain struct {
	Delay time.Duration // still accepting after the signal; default 5s
	Grace time.Duration // for running streams to finish; default 25s
}
