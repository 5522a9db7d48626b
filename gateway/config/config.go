// Package config reads the gateway's static configuration file: listeners, pools, routes and callers. Start
// at [Load]. Package settings has what operators change at run time. It guarantees that a returned [File] is
// complete and consistent (defaults filled, every name defined, every URL usable); that all mistakes are
// reported together as "file:line:column: field: mistake and correction", in the order of the file; and that
// no message contains a key, a password or a URL that might contain one.
//
// A field is declared once, by the tags of its struct's field (yamlfile.Value.Into): its name, default and bounds, what it is
// checked for, and what the reference says of it. forms.go has the forms of texts, check.go what fields say of each other.
package config

import (
	"slices"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// File is the whole configuration with its defaults.
type File struct {
	Listen          string      `yaml:"listen" default:":8080" form:"address" doc:"Public listener, 'HOST:PORT'. An address that is not loopback needs 'identity' or tenants with keys."`
	Admin           string      `yaml:"admin" default:"127.0.0.1:9090" form:"address" doc:"Admin listener, 'HOST:PORT': console, '/metrics', '/livez', '/readyz', pprof and operator actions ('/admin/backends', '/admin/drain', '/admin/undrain', '/admin/spot', '/admin/cache/purge'). An address that is not loopback needs 'admin_tokens_file'."`
	AdminTokensFile string      `yaml:"admin_tokens_file" form:"file" doc:"Path of the file with the operators' tokens, the same on all replicas: at most 64 lines 'NAME SCOPES SECRET'. The secret is 32 to 4096 printable characters ('openssl rand -hex 32'); the name appears in the log of operator actions and in the settings history. SCOPES is a comma-separated list of 'metrics' ('/metrics', '/admin/usage'), 'drain' ('/admin/backends', '/admin/drain', '/admin/undrain', '/admin/spot') and 'operate' (everything, and the console). With it, every change at the admin listener needs a token ('Authorization: Bearer …'), and on an address that is not loopback every read too; '/livez' and '/readyz' never do. Read again when it changes: removed tokens and their sessions are refused within 4 s. Without the file the console is read-only."`
	TLS             ListenerTLS `yaml:"tls"`
	AdminTLS        ListenerTLS `yaml:"admin_tls" absent:"none: plain HTTP" doc:"Certificate of the admin listener: the fields of 'tls'. Scrapes and probes are clients of 'client_ca_file', too; changes and reads need operators' tokens as before. The commands of 'foregate' then need '--admin https://HOST:PORT' and '--ca-file'."`

	Redis    Redis            `yaml:"redis"`
	Cache    Cache            `yaml:"cache"`
	Identity identity.Options `yaml:"identity"`

	Pools       map[string]Pool   `yaml:"pools" need:"give at least one pool with its model and backends" empty:"give at least one pool with its model and backends"`
	Routes      []Route           `yaml:"routes,distinct" need:"give at least one route: {model: NAME, target: POOL}" empty:"give at least one route: {model: NAME, target: POOL}"`
	Tenants     []identity.Tenant `yaml:"tenants,distinct"`
	TenantsFile string            `yaml:"tenants_file" form:"file" doc:"Path of a YAML file with 'tenants:' alone, instead of 'tenants' here; 'identity.mode' is then 'keys' by default. Read again when it changes, see *Files that are read again*: added tenants are served, removed keys are refused, new limits hold for new requests, and requests in flight continue."` // used instead of Tenants

	Passthrough []string `yaml:"passthrough,distinct" form:"passed path" default:"/v1/embeddings,/tokenize,/detokenize,/v1/rerank,/v1/score" doc:"Exact paths that are forwarded to the route's target pool unchanged. Their tokens count against 'tpm': first what the request may need, then what the answer reports. Requests whose prompt an engine computes get the tenant's 'cache_salt'; vLLM obeys it at '/v1/responses', and for pooling requests that know the field. The cascade answers '/v1/responses' and '/v1/messages' itself, and the gateway '/v1/messages/count_tokens'; listed here, requests that only an engine can serve (stored responses, tools that a server runs, counts of engines whose kind has no tokenizer) are forwarded instead of refused. '/v1/messages' has no 'cache_salt': tenants whose requests are forwarded there share an engine's prefix cache, and one can measure by timing what another asked. Paths that control or reveal an engine are refused."`

	Limits  Limits  `yaml:"limits"`
	Drain   Drain   `yaml:"drain"`
	Tracing Tracing `yaml:"tracing"`
}

// ListenerTLS names the PEM files of a listener that speaks TLS; the zero value is plain HTTP. They are read again when
// they change.
type ListenerTLS struct {
	CertFile     string `yaml:"cert_file" form:"file" need:"give the path of the listener's certificate, a PEM file" absent:"none: plain HTTP" doc:"Path of a PEM file with the public listener's certificate, followed by its intermediate certificates. With it the listener speaks TLS 1.2 or newer, HTTP/1.1 and HTTP/2, and nothing else. The files of 'tls' are read again when they change, see *Files that are read again*: new connections get the new certificate, open connections stay. A certificate that does not fit 'tls.key_file', has expired or is not valid yet is refused. From 14 days before the certificate expires, the log, '/admin/status' and the console warn."`
	KeyFile      string `yaml:"key_file" form:"file" need:"give the path of the certificate's private key, a PEM file" absent:"required with 'tls'" doc:"Path of a PEM file with the private key of 'tls.cert_file', without a password."`
	ClientCAFile string `yaml:"client_ca_file" form:"file" doc:"Path of a PEM file with the certificate authorities of the clients. With it every client must present a certificate that one of them has signed, besides what 'identity' needs; '/livez' and '/readyz' are no exception. Revoked certificates are not recognized."`
}

// On reports whether the listener speaks TLS.
func (t ListenerTLS) On() bool { return t.CertFile != "" }

// Redis configures the shared state.
type Redis struct {
	URL         Endpoint `yaml:"url" default:"none" doc:"Where live settings are read from and replicas share what they know: 'redis://[USER:PASSWORD@]HOST:6379/0', 'rediss://…' (TLS), 'unix:///PATH', 'redis+sentinel://HOST:26379,HOST:26379/MASTER', 'redis+cluster://HOST:6379,HOST:6379' (both with 'rediss+…', too), 'embedded' (inside this process, one replica only) or 'none'. In a password, write '?', '#', '%' and '/' as '%3F', '%23', '%25' and '%2F'."`
	CacheURL    Endpoint `yaml:"cache_url" absent:"'redis.url'" doc:"A separate Redis for cached answers, in the same forms as 'redis.url', so that a full cache cannot evict the replicas' shared state."`
	SettingsURL Endpoint `yaml:"settings_url" absent:"'redis.url'" doc:"The Redis of 'redis.url' with a user who may write live settings ('operator' in deploy/redis/users.acl). Needed to change settings at the admin listener; replicas themselves only read them."`
	Replicas    int      `yaml:"replicas" default:"1" min:"1" max:"1000" doc:"Number of replicas, used until Redis reports it: while Redis is down, or there is none, every tenant limit is divided by it."`

	CAFile           string `yaml:"ca_file" form:"file" absent:"the system's" doc:"PEM file of the certificate authorities that sign the certificates of Redis and the Sentinels. Only with TLS URLs."`
	CertFile         string `yaml:"cert_file" form:"file" with:"key_file, the certificate's private key" doc:"PEM file of the client certificate that is presented to Redis, with 'redis.key_file'. Only with TLS URLs."`
	KeyFile          string `yaml:"key_file" form:"file" with:"cert_file, the certificate that the key belongs to" doc:"PEM file of the private key of 'redis.cert_file'. Only with TLS URLs."`
	ServerName       string `yaml:"server_name" form:"host" absent:"the host that is dialed" doc:"Name that the servers' certificates must contain, if Sentinels or the cluster announce addresses that the certificates do not contain. Only with TLS URLs."`
	SentinelUsername string `yaml:"sentinel_username" with:"sentinel_password_file, the file with its password" doc:"User at the Sentinels. User and password in the URL are those of the Redis servers."`

	PasswordFile         string `yaml:"password_file" form:"file" doc:"Path of a file with the password of the users in 'redis.url' and 'redis.cache_url', one line of printable characters, instead of a password in the URLs ('redis://USER@HOST:6379/0'). Read again when it changes: new connections use the new password, open connections stay."`
	SettingsPasswordFile string `yaml:"settings_password_file" form:"file" doc:"Path of a file with the password of the user in 'redis.settings_url', one line of printable characters, instead of a password in the URL. Read again when it changes: new connections use the new password, open connections stay."`
	SentinelPasswordFile string `yaml:"sentinel_password_file" form:"file" doc:"Path of a file with the password at the Sentinels. It is read at the start only; a change is logged, and a new password needs a restart."`
}

// Cache is the static configuration of the answer cache.
type Cache struct {
	SealKeysFile string `yaml:"seal_keys_file" form:"file" doc:"Path of the file with the secrets that encrypt cached answers in Redis, the same on all replicas: lines 'ID SECRET'. The id is 1–64 of 'A-Z a-z 0-9 . _ : -' and is stored with every value; the secret is 32 to 4096 printable characters ('openssl rand -hex 32'). The first secret encrypts, all of them decrypt; a value that none decrypts is a miss. Read again when it changes. To replace a secret: add the new one as the last on all replicas, then move it to the first place on all, then remove the old one after 'cache.ttl'. The first secret also gives each tenant's 'cache_salt' ('cache.isolate_prefixes'): when it changes, engines compute every prefix once more. Without the file, anybody who can write to Redis and knows a request can forge its answer; 'foregate check', the log and the console warn unless Redis is embedded."`
	LocalBytes   int64  `yaml:"local_bytes" default:"32MiB" min:"0" max:"16GiB" doc:"Largest memory for cached answers in each replica, up to 16GiB; 0 turns the local copies off."`
}

// Pool is a set of backends that serve one model on one kind of hardware. It has either Backends or Discover.
type Pool struct {
	Model               string   `yaml:"model" form:"printable" need:"give the model's name as the backends know it" doc:"Model name that the backends know ('model' in upstream requests)."`
	Revision            string   `yaml:"revision" form:"revision" doc:"Version of the weights behind that name, such as a commit or a date: 1–64 of 'A-Z a-z 0-9 . _ : @ / -'. It is part of the cache key, so a change invalidates the cached answers of the old weights. Evidence of audits of the old weights does not count any more."`
	USDPerHour          float64  `yaml:"usd_per_hour" min:"0" max:"100000" absent:"'0'" doc:"Price of one backend in USD per hour. 0 turns cost estimates off. A pool of a route needs a price where a tenant has a budget in dollars; '0', written out, says that it is free."`
	USDPerMillionInput  float64  `yaml:"usd_per_million_input" min:"0" max:"100000" with:"usd_per_million_output, the price of generated tokens" doc:"Price of a million prompt tokens in USD, up to 100,000, of a hosted pool: the [target of a route](guides/hosted-target.md), or one of 'routes[].fallbacks'. It needs 'engine: openai' and 'backends' by https (or on loopback). Only tenants with 'allow_external' reach it. Not with 'usd_per_hour', nor for the draft of a route."`
	USDPerMillionCached float64  `yaml:"usd_per_million_cached" min:"0" max:"100000" with:"usd_per_million_input, the price of other prompt tokens" absent:"as 'usd_per_million_input'" doc:"Price of a million prompt tokens that the provider finds in its cache, as its usage tells ('cached_tokens'). Not above 'usd_per_million_input'."`
	USDPerMillionOutput float64  `yaml:"usd_per_million_output" min:"0" max:"100000" with:"usd_per_million_input, the price of prompt tokens" absent:"required with 'usd_per_million_input'" doc:"Price of a million generated tokens in USD. One of both prices must be above 0."`
	PrefillPerSecond    float64  `yaml:"prefill_tokens_per_s" min:"0.01" max:"10000000" absent:"learned" doc:"Prompt tokens per second that one backend computes at its usual batch size, above 0. With 'usd_per_hour' it gives the price of a prompt token, which 'economy.guard' uses. If it is not set, it is learned from traffic."`
	DecodePerSecond     float64  `yaml:"decode_tokens_per_s" min:"0.01" max:"10000000" absent:"learned" doc:"Tokens per second that one backend generates at its usual batch size, over all its requests, above 0. With 'usd_per_hour' it gives the price of an answer token. If it is not set, it is learned from some dozen answers; 'foregate check' cannot know it then."`
	Backends            []string `yaml:"backends,distinct" form:"backend" empty:"give at least one URL" absent:"this or 'discover'" doc:"Base URLs of the backends, without '/v1': '[\"http://a10g-0:8000\"]'."`
	Discover            string   `yaml:"discover" form:"discovery" absent:"this or 'backends'" doc:"Where the backends are found instead of a list: 'dns://HOST:PORT' (every address of the name; resolved every 5 s), or 'srv://_SERVICE._tcp.NAME' (every SRV record with the lowest priority number; resolved every 5 s)."`
	Engine              string   `yaml:"engine" default:"auto" form:"engine" doc:"The kind of the pool's engines: 'auto', or one of [these](guides/engines.md#kinds-of-engines), such as 'vllm'. 'openai' is any other server with OpenAI's API, such as Ollama; beside requests it gets the probe's questions, no '/metrics' and no '/health'. It decides where their load is read, how they tokenize, which fields they get and how they score. 'auto' asks each engine once in each of its lives ('/v1/models', then other paths). What contradicts a configured kind is told in 'foregate status', the log and 'foregate_backend_engine_misfit'; the configured kind stays in force."`
	Scheduler           string   `yaml:"scheduler" default:"fcfs" choice:"fcfs,priority" hint:"as the backends' --scheduling-policy is" doc:"'priority' if the backends run with '--scheduling-policy priority': requests then carry vLLM's 'priority', taken from their priority class. Engines with another scheduling policy refuse such requests."`
	Auth                PoolAuth `yaml:"auth"`
	TLS                 PoolTLS  `yaml:"tls"`

	Free bool // usd_per_hour is written, as 0
}

// PoolAuth are the files of what the gateway shows to a pool's backends with each request, probe and scrape.
type PoolAuth struct {
	APIKeyFile  string `yaml:"api_key_file" form:"file" doc:"Path of a file with one line, the API key that the backends want. It is sent as 'Authorization: Bearer KEY' with every request, passthrough, probe and scrape. A client's own key never reaches a backend. Read again when it changes: the next request has the new key."`
	HeadersFile string `yaml:"headers_file" form:"file" doc:"Path of a file with HTTP headers that the backends want, one 'NAME: VALUE' per line, at most 16, sent like the key. Headers of the connection ('Host', 'Connection', 'Content-Length' …) and those that the gateway sets itself are refused. Clients cannot replace them. Read again when it changes."`
}

// PoolTLS is how the backends of a pool are reached by https. Their certificates are always verified.
type PoolTLS struct {
	On bool // the pool has tls: all its backends are https

	CAFile     string `yaml:"ca_file" form:"file" absent:"the system's authorities" doc:"PEM file of the certificate authorities that the backends' certificates may come from. With 'tls', even 'tls: {}', all backends of the pool must be 'https://', and 'dns://' and 'srv://' find https backends. Certificates are always verified; no setting turns that off. Read again when it changes: it holds for new connections, and connections that are older serve no new request."`
	CertFile   string `yaml:"cert_file" form:"file" with:"key_file, the certificate's private key" doc:"PEM file of the client certificate that the gateway shows to the backends, with 'key_file'. The files of 'tls' are read again when one changes, and are put into force together. Before it expires there are warnings, and 'foregate_certificate_not_after_timestamp_seconds'."`
	KeyFile    string `yaml:"key_file" form:"file" with:"cert_file, the certificate that the key belongs to" doc:"PEM file of the private key of 'cert_file'."`
	ServerName string `yaml:"server_name" form:"host" absent:"the host of each URL" doc:"Name that the backends' certificates must contain. 'dns://' finds addresses, so it needs this unless the certificates contain them."`
}

// SchedulerPriority is the scheduler of backends that obey priorities.
const SchedulerPriority = "priority"

// Route is a model name that clients ask for.
type Route struct {
	Model         string           `yaml:"model" form:"route" need:"give the model name that clients ask for" doc:"Model name that clients request: 1–128 of 'A-Z a-z 0-9 . _ : / -'."`
	Draft         string           `yaml:"draft" doc:"Name of the draft pool. Without it the target answers every request."`
	Target        string           `yaml:"target" absent:"this or 'targets'" doc:"Name of the target pool: it answers what is not served from a draft."` // with Targets the first of them
	Targets       []WeightedTarget `yaml:"targets,distinct" min:"2" max:"4"`                                                                             // none: Target alone
	SameTokenizer bool             `yaml:"same_tokenizer" doc:"'true' if draft and target have the same tokenizer and chat template. The target can then continue from the draft's token ids."`
	Fallbacks     []Fallback       `yaml:"fallbacks,distinct" min:"0" max:"4"`
	AllowFields   []string         `yaml:"allow_fields,distinct" form:"request field" doc:"What clients of this route may send beyond the default: names of refused [request fields](#request-fields), media types of content parts, and chat-template arguments as 'chat_template_kwargs.NAME', such as '[image_url, documents, chat_template_kwargs.custom_instructions]'."`
}

// WeightedTarget is one of several target pools of a route.
type WeightedTarget struct {
	Pool   string  `yaml:"pool" absent:"this or 'target'" doc:"One of 2–4 target pools, the one in force first. Each conversation (tenant, system prompt and first message) keeps one of them; a larger weight moves conversations only to that pool."`
	Weight float64 `yaml:"weight" min:"0.001" max:"1000000" need:"give its weight beside the others, such as 95 and 5" absent:"required with 'pool'" doc:"Its weight beside the others, such as 95 and 5."`
}

// Fallback is a hosted last resort of a route.
type Fallback struct {
	Pool          string   `yaml:"pool" absent:"required" doc:"Pool of hosted servers that answers when the route's own pools do not, see [fallbacks](guides/fallbacks.md): 'engine: openai', 'backends' by https (or on loopback), prices of tokens, which no route has as its 'draft'. At most 4 fallbacks, tried in this order. Only for tenants with 'allow_external'."`
	When          []string `yaml:"when,distinct" default:"unavailable" choice:"unavailable,shed" empty:"want unavailable, shed or both" doc:"When a request may go there: 'unavailable' (no backend of the route's pools can answer, or none did before the first byte), 'shed' (the request was refused admission)."`
	MaxUSDPerHour float64  `yaml:"max_usd_per_hour" min:"0.000001" max:"1000000" need:"give the dollars that all replicas together may spend on it in an hour" doc:"US dollars that all replicas together may spend on this fallback of this route in an hour of the UTC calendar, up to 1,000,000. A request reserves the most that it may cost before it leaves. While Redis is away each replica continues with its share."`
}

// WhenUnavailable is why a request may leave for a [Fallback]: the route's own pools cannot answer.
const WhenUnavailable = "unavailable"

// DefaultConnections is the default of [Limits.Connections].
const DefaultConnections = 20000

// Limits bound one request, and all requests together.
type Limits struct {
	BodyBytes     int64 `yaml:"body_bytes" default:"4MiB" min:"1KiB" max:"1GiB" doc:"Largest request body, and never more than an eighth of the process's memory ('GOMEMLIMIT', or nine tenths of the control group's limit, or 1 GiB if neither is known)."`
	ResponseBytes int64 `yaml:"response_bytes" default:"16MiB" min:"1KiB" max:"1GiB" doc:"Largest answer that is not streamed."`
	InFlight      int   `yaml:"in_flight" default:"4096" min:"1" max:"1000000" doc:"Requests in flight, also those whose body is being received. Requests beyond it get 503. One tenant may use two thirds of what others leave, and gets 429 beyond that."`
	HeaderBytes   int64 `yaml:"header_bytes" default:"16KiB" min:"1KiB" max:"1MiB" doc:"Largest size of a request's headers."`
	Connections   int   `yaml:"connections" default:"20000" min:"16" max:"1000000" doc:"Connections open on the public listener. No more than half of the files that may be open ('ulimit -n'), because every connection may need one to a backend, and than half of 'GOMEMLIMIT' holds at 20 KiB each. Further ones wait until one is closed. Idle ones are closed after 620 s."`
}

// Drain configures the shutdown.
type Drain struct {
	Delay time.Duration `yaml:"delay" default:"5s" min:"0s" max:"10m" doc:"How long the gateway still accepts requests after SIGTERM while '/readyz' fails, so that load balancers notice."`
	Grace time.Duration `yaml:"grace" default:"25s" min:"0s" max:"1h" doc:"How long requests in flight may continue after 'drain.delay'."`
}

// Tracing configures where traces are sent, and for which share of the requests.
type Tracing struct {
	OTLP        string  `yaml:"otlp" form:"collector" need:"give the collector's URL, such as http://collector:4318, or remove tracing" absent:"none" doc:"Base URL of an OpenTelemetry collector that accepts OTLP over HTTP, such as 'http://collector:4318'; traces go to its '/v1/traces'. Without it nothing is traced, and a client's 'traceparent' is forwarded."`
	Sample      float64 `yaml:"sample" default:"0.1" min:"0" max:"1" doc:"Share of requests without 'traceparent' that are traced. A request with 'traceparent' decides itself."`
	HeadersFile string  `yaml:"headers_file" form:"file" doc:"Path of a file with HTTP headers for the collector, one 'NAME: VALUE' per line, read at the start."`
}

// Unpriced are the pools of the routes without a price, as "pools.NAME", in the order of the routes. A pool whose
// usd_per_hour is written as 0 is not among them: it is meant to be free.
func (f *File) Unpriced() []string {
	var out []string
	for _, rt := range f.Routes {
		for _, name := range append([]string{rt.Draft}, rt.TargetPools()...) {
			p, known := f.Pools[name]
			if at := "pools." + name; known && p.USDPerHour == 0 && !p.Free && !p.PaidByToken() && !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	return out
}

// PaidByToken reports whether the pool has prices of tokens: then it is hosted.
func (p Pool) PaidByToken() bool { return p.USDPerMillionInput > 0 || p.USDPerMillionOutput > 0 }

// TargetPools returns the names of the route's target pools, the one in force first.
func (r Route) TargetPools() []string {
	if len(r.Targets) == 0 {
		return []string{r.Target}
	}
	names := make([]string, 0, len(r.Targets))
	for _, w := range r.Targets {
		names = append(names, w.Pool)
	}
	return names
}

// Variants returns the route once for each of its target pools, each with that one as its only target.
func (r Route) Variants() []Route {
	var out []Route
	for _, name := range r.TargetPools() {
		v := r
		v.Target, v.Targets = name, nil
		out = append(out, v)
	}
	return out
}

// ProbedPools returns the names of the pools whose engines' capabilities the route needs, sorted: of a route that drafts,
// or that has several targets. It is empty for a route with one target and nothing else.
func (r Route) ProbedPools() []string {
	var names []string
	if r.Draft != "" {
		names = append(names, r.Draft)
	}
	if all := r.TargetPools(); r.Draft != "" || len(all) > 1 {
		names = append(names, all...)
	}
	slices.Sort(names)
	return names
}
