// Package config reads the gateway's static configuration file: listeners, pools, routes and callers. Start
// at [Load]. Package settings has what operators change at run time. It guarantees that a returned [File] is
// complete and consistent (defaults filled, every name defined, every URL usable); that all mistakes are
// reported together as "file:line:column: field: mistake and correction", in the order of the file; and that
// no message contains a key, a password or a URL that might contain one.
package config

import "time"

// File is the whole configuration with its defaults.
type File struct {
	Listen string `yaml:"listen" default:":8080"`         // public listener; default :8080
	Admin  string `yaml:"admin" default:"127.0.0.1:9090"` // metrics, console, settings; default 127.0.0.1:9090
	// AdminTokensFile is the path of the operators' tokens; "" is none: then the admin listener must be on
	// loopback, and its console is read-only.
	AdminTokensFile string      `yaml:"admin_tokens_file"`
	TLS             ListenerTLS `yaml:"tls"`       // of the public listener; the zero value is plain HTTP
	AdminTLS        ListenerTLS `yaml:"admin_tls"` // of the admin listener

	Redis    Redis    `yaml:"redis"`
	Cache    Cache    `yaml:"cache"`
	Identity Identity `yaml:"identity"`

	Pools   map[string]Pool `yaml:"pools"`
	Routes  []Route         `yaml:"routes"`
	Tenants []Tenant        `yaml:"tenants"`
	// TenantsFile is the path of a file with the tenants, used instead of Tenants and reloaded when it
	// changes; "" is none.
	TenantsFile string `yaml:"tenants_file"`

	// paths forwarded to the target pool byte for byte
	Passthrough []string `yaml:"passthrough" default:"/v1/embeddings,/tokenize,/detokenize,/v1/rerank,/v1/score"`

	Limits  Limits  `yaml:"limits"`
	Drain   Drain   `yaml:"drain"`
	Tracing Tracing `yaml:"tracing"`
}

// Redis configures the shared state. Do not log the URLs: log the [Endpoint] that [Redis.Endpoint] returns.
type Redis struct {
	// URL is redis://, rediss://, unix://, either of the first two with
	// +sentinel or +cluster, "embedded" (inside this process, one replica
	// only) or "none" (the default: every replica for itself).
	URL string `yaml:"url" default:"none"`
	// CacheURL separates cached answers from coordination; "" is URL.
	CacheURL string `yaml:"cache_url"`
	// SettingsURL is the same Redis as URL, for a user that may write live settings, so that operators can do
	// so at the admin listener; "" is URL.
	SettingsURL string `yaml:"settings_url"`
	// Replicas is the number of replicas, used until Redis reports it; default 1.
	Replicas int `yaml:"replicas" default:"1" min:"1" max:"1000"`

	// For both URLs, if they use TLS: PEM files. ServerName is the name that the certificates must have; ""
	// is the dialed host.
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
	// For both URLs, if they use Sentinels: the user at the Sentinels.
	SentinelUsername string `yaml:"sentinel_username"`

	// Paths of files with one password each: of the users in URL and CacheURL, of the user in SettingsURL,
	// and of SentinelUsername; "" is none.
	PasswordFile         string `yaml:"password_file"`
	SettingsPasswordFile string `yaml:"settings_password_file"`
	SentinelPasswordFile string `yaml:"sentinel_password_file"`
}

// Cache is the static configuration of the answer cache.
type Cache struct {
	// SealKeysFile is the path of the secrets that seal answers: the first one seals, all of them open. "" is
	// none: then answers are bound to their requests, but anyone who can write to Redis and knows a request
	// can forge its answer.
	SealKeysFile string `yaml:"seal_keys_file"`
	LocalBytes   int64  `yaml:"local_bytes" default:"32MiB" min:"0" max:"16GiB"` // of the copies in this process; default 32 MiB, 0 is none
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
	Mode           string   `yaml:"mode"`            // "keys" is filled in when a tenant has keys, or tenants are in a file
	TrustedProxies []string `yaml:"trusted_proxies"` // CIDRs, mode trusted_headers only
	JWT            JWT      `yaml:"jwt"`             // mode jwt only

	// UnlistedTenants says what becomes of them: "" is refuse, or default in mode open; not in mode keys.
	UnlistedTenants string `yaml:"unlisted_tenants"`
	// DefaultTenant is what each of them may, with "default"; it has neither id nor keys.
	DefaultTenant Tenant `yaml:"default_tenant" without:"id,keys_sha256,per_tenant_evidence,trace_content"`
}

// What happens to tenants that are not listed.
const (
	UnlistedRefuse  = "refuse"
	UnlistedDefault = "default"
)

// JWT configures which tokens are accepted.
type JWT struct {
	Issuer   string `yaml:"issuer"`    // iss of every token
	Audience string `yaml:"audience"`  // a member of aud in every token
	JWKSFile string `yaml:"jwks_file"` // path of the issuer's public keys

	Algorithms    []string `yaml:"algorithms"`     // none: RS256, ES256 and EdDSA
	TenantClaim   string   `yaml:"tenant_claim"`   // "" is tenant
	PriorityClaim string   `yaml:"priority_claim"` // "" is priority
}

// Pool is a set of backends that serve one model on one kind of hardware. It
// has either Backends or Discover.
type Pool struct {
	Model string `yaml:"model"` // the model's name at the backends
	// which weights are served under that name; "" is not said
	Revision   string  `yaml:"revision"`
	USDPerHour float64 `yaml:"usd_per_hour" min:"0" max:"100000"` // price of one backend
	// prompt tokens per second of one backend at its operating batch; 0: learned
	PrefillPerSecond float64 `yaml:"prefill_tokens_per_s" min:"0.01" max:"10000000"`
	// generated tokens per second of one backend, over all its requests; 0: learned
	DecodePerSecond float64  `yaml:"decode_tokens_per_s" min:"0.01" max:"10000000"`
	Backends        []string `yaml:"backends"` // base URLs without a trailing slash
	// dns://HOST:PORT or srv://_SERVICE._tcp.NAME
	Discover string `yaml:"discover"`
	// one of dialect.Kinds; "auto" (the default) asks the engine
	Engine string `yaml:"engine" default:"auto"`
	// "fcfs" (the default) or "priority", as vLLM's --scheduling-policy
	Scheduler string   `yaml:"scheduler" default:"fcfs"`
	Auth      PoolAuth `yaml:"auth"` // what the backends want to see
	TLS       PoolTLS  `yaml:"tls"`  // how they are reached by https

	// price of a million tokens of prompts; with that of answers 0: not paid by the token
	USDPerMillionInput  float64 `yaml:"usd_per_million_input" min:"0" max:"100000"`
	USDPerMillionOutput float64 `yaml:"usd_per_million_output" min:"0" max:"100000"` // price of a million tokens of answers
}

// The schedulers of a [Pool].
const (
	SchedulerFCFS     = "fcfs"     // first come, first served; a priority is an error
	SchedulerPriority = "priority" // lower priority values first
)

// Route maps a model name of clients to its pools.
type Route struct {
	Model         string `yaml:"model"`          // the name that clients send
	Draft         string `yaml:"draft"`          // pool; "" means that every request goes to the target
	Target        string `yaml:"target"`         // pool; with Targets the first of them
	SameTokenizer bool   `yaml:"same_tokenizer"` // draft and target use the same token ids

	Targets     []WeightedTarget `yaml:"targets"`      // several target pools by weight, the one in force first; none: Target alone
	AllowFields []string         `yaml:"allow_fields"` // additional fields that its clients may send, of fields.Allowable
	Fallbacks   []Fallback       `yaml:"fallbacks"`    // hosted last resorts, in the order in which they are tried; at most 4
}

// Tenant is one customer of the gateway.
type Tenant struct {
	ID          string   `yaml:"id"`
	KeysSHA256  []string `yaml:"keys_sha256,opaque"`               // lower-case hex
	MaxPriority string   `yaml:"max_priority" default:"normal"`    // low, normal (the default) or high
	RPM         int      `yaml:"rpm" min:"0" max:"1000000000"`     // requests per minute; 0 is unlimited
	TPM         int      `yaml:"tpm" min:"0" max:"1000000000000"`  // tokens per minute; 0 is unlimited
	Concurrent  int      `yaml:"concurrent" min:"0" max:"1000000"` // requests in progress; 0 is unlimited

	// it may get drafts below the threshold while the target is short of KV memory
	// the guarantee about drafts holds for its requests alone, with their own evidence
	PerTenantEvidence bool `yaml:"per_tenant_evidence"`

	Models  []string `yaml:"models"`  // names of routes, or beginnings of names that end with *; none: all routes
	Budgets []Budget `yaml:"budgets"` // none: no budget

	AllowExternal bool `yaml:"allow_external"` // its requests may be answered by fallbacks, which are not the operator's own
	// its answers in the Responses API are not stored
	ForgetResponses bool `yaml:"forget_responses"`
	TraceContent    bool `yaml:"trace_content"` // its requests are traced, with their messages and answers
}

// DefaultConnections is the default of [Limits.Connections].
const DefaultConnections = 20000

// Limits bound one request, and all requests together.
type Limits struct {
	BodyBytes     int64 `yaml:"body_bytes" default:"4MiB" min:"1KiB" max:"1GiB"`      // of a request; default 4 MiB
	ResponseBytes int64 `yaml:"response_bytes" default:"16MiB" min:"1KiB" max:"1GiB"` // of a non-streamed answer; default 16 MiB
	InFlight      int   `yaml:"in_flight" default:"4096" min:"1" max:"1000000"`       // requests at once; default 4096
	HeaderBytes   int64 `yaml:"header_bytes" default:"16KiB" min:"1KiB" max:"1MiB"`   // of a request; default 16 KiB
	Connections   int   `yaml:"connections" default:"20000" min:"16" max:"1000000"`   // open on the public listener; default 20,000
}

// Drain configures the shutdown.
type Drain struct {
	Delay time.Duration `yaml:"delay" default:"5s" min:"0s" max:"10m"` // still accepting after the signal; default 5s
	Grace time.Duration `yaml:"grace" default:"25s" min:"0s" max:"1h"` // for running streams to finish; default 25s
}
