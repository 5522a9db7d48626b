package config

// FieldDoc describes one field of the file for the reference.
type FieldDoc struct{ Name, Default, Meaning string }

// required marks a field without a default.
const required = "required"

// Fields lists all fields of the file, in the usual order. A name in capitals is chosen by the operator.
var Fields = []FieldDoc{
	{"listen", "`:8080`", "Public listener, `HOST:PORT`. An address that is not loopback needs `identity` or tenants with keys."},
	{"admin", "`127.0.0.1:9090`", "Admin listener, `HOST:PORT`: console, `/metrics`, `/livez`, `/readyz`, pprof and operator actions (`/admin/backends`, `/admin/drain`, `/admin/undrain`, `/admin/spot`, `/admin/cache/purge`). An address that is not loopback needs `admin_tokens_file`."},
	{"admin_tokens_file", "none", "Path of the file with the operators' tokens, the same on all replicas: at most 64 lines `NAME SCOPES SECRET`. The secret is 32 to 4096 printable characters (`openssl rand -hex 32`); the name appears in the log of operator actions and in the settings history. " +
		"SCOPES is a comma-separated list of `metrics` (`/metrics`, `/admin/usage`), `drain` (`/admin/backends`, `/admin/drain`, `/admin/undrain`, `/admin/spot`) and `operate` (everything, and signing in at the console). " +
		"With it, every change at the admin listener needs a token (`Authorization: Bearer …`, or a console session), and on an address that is not loopback every read too; `/livez` and `/readyz` never do. " +
		"Read again when it changes: removed tokens and their sessions are refused within 4 s. Without the file the console is read-only."},
	{"tls.cert_file", "none: plain HTTP", "Path of a PEM file with the public listener's certificate, followed by its intermediate certificates. With it the listener speaks TLS 1.2 or newer, HTTP/1.1 and HTTP/2, and nothing else. " +
		"The files of `tls` are read again when they change, see *Files that are read again*: new connections get the new certificate, open connections stay. A certificate that does not fit `tls.key_file`, has expired or is not valid yet is refused. From 14 days before the certificate expires, the log, `/admin/status` and the console warn."},
	{"tls.key_file", "required with `tls`", "Path of a PEM file with the private key of `tls.cert_file`, without a password."},
	{"tls.client_ca_file", "none", "Path of a PEM file with the certificate authorities of the clients. With it every client must present a certificate that one of them has signed, besides what `identity` needs; `/livez` and `/readyz` are no exception. Revoked certificates are not recognized."},
	{"admin_tls.cert_file", "none: plain HTTP", "Path of a PEM file with the admin listener's certificate, as `tls.cert_file`. The commands of `foregate` then need `--admin https://HOST:PORT` and `--ca-file`."},
	{"admin_tls.key_file", "required with `admin_tls`", "Path of a PEM file with the private key of `admin_tls.cert_file`, without a password."},
	{"admin_tls.client_ca_file", "none", "Path of a PEM file with the certificate authorities of the admin listener's clients, as `tls.client_ca_file`; scrapes and probes are clients, too. Changes and reads need operators' tokens as before."},
	{"redis.url", "`none`", "Where live settings are read from and replicas share what they know: `redis://[USER:PASSWORD@]HOST:6379/0`, `rediss://…` (TLS), `unix:///PATH`, " +
		"`redis+sentinel://HOST:26379,HOST:26379/MASTER`, `redis+cluster://HOST:6379,HOST:6379` (both with `rediss+…`, too), " +
		"`embedded` (inside this process, one replica only) or `none`. In a password, write `?`, `#`, `%` and `/` as `%3F`, `%23`, `%25` and `%2F`."},
	{"redis.cache_url", "`redis.url`", "A separate Redis for cached answers, in the same forms as `redis.url`, so that a full cache cannot evict the replicas' shared state."},
	{"redis.settings_url", "`redis.url`", "The Redis of `redis.url` with a user who may write live settings (`operator` in deploy/redis/users.acl). Needed to change settings at the admin listener; replicas themselves only read them."},
	{"redis.replicas", "`1`", "Number of replicas, 1 … 1000, used until Redis reports it: while Redis is down, every tenant limit is divided by it."},
	{"redis.ca_file", "the system's", "PEM file of the certificate authorities that sign the certificates of Redis and the Sentinels. Only with TLS URLs."},
	{"redis.cert_file", "none", "PEM file of the client certificate that is presented to Redis, with `redis.key_file`. Only with TLS URLs."},
	{"redis.key_file", "none", "PEM file of the private key of `redis.cert_file`. Only with TLS URLs."},
	{"redis.server_name", "the host that is dialed", "Name that the servers' certificates must contain, if Sentinels or the cluster announce addresses that the certificates do not contain. Only with TLS URLs."},
	{"redis.sentinel_username", "none", "User at the Sentinels. User and password in the URL are those of the Redis servers."},
	{"redis.password_file", "none", "Path of a file with the password of the users in `redis.url` and `redis.cache_url`, one line of printable characters, instead of a password in the URLs (`redis://USER@HOST:6379/0`). Read again when it changes: new connections use the new password, open connections stay."},
	{"redis.settings_password_file", "none", "Path of a file with the password of the user in `redis.settings_url`, one line of printable characters, instead of a password in the URL. Read again when it changes: new connections use the new password, open connections stay."},
	{"redis.sentinel_password_file", "none", "Path of a file with the password at the Sentinels. It is read at the start only; a change is logged, and a new password needs a restart."},
	{"cache.seal_keys_file", "none", "Path of the file with the secrets that encrypt cached answers in Redis, the same on all replicas: lines `ID SECRET`. The id is 1–64 of `A-Z a-z 0-9 . _ : -` and is stored with every value; the secret is 32 to 4096 printable characters (`openssl rand -hex 32`). " +
		"The first secret encrypts, all of them decrypt; a value that none decrypts is a miss. Read again when it changes. To replace a secret: add the new one as the last on all replicas, then move it to the first place on all, then remove the old one after `cache.ttl`. The first secret also gives each tenant's `cache_salt` (`cache.isolate_prefixes`): when it changes, engines compute every prefix once more. " +
		"Without the file, anybody who can write to Redis and knows a request can forge its answer; `foregate check`, the log and the console warn unless Redis is embedded."},
	{"cache.local_bytes", "`32MiB`", "Largest memory for cached answers in each replica, up to 16GiB; 0 turns the local copies off."},
	{"identity.mode", "none, or `keys` when a tenant has keys or there is a `tenants_file`", "How the gateway learns tenant and priority: `keys` (bearer keys of the tenants), " +
		"`jwt` (bearer tokens of an issuer) or `trusted_headers` (`X-Tenant-ID` and `X-Priority`, set by the listed proxies). " +
		"Without a mode, which only a loopback listener allows, clients may claim any tenant, and browsers must use an IP address, `localhost`, or a name under `.localhost` or `.internal`. For tenants that are not listed see `identity.unlisted_tenants`."},
	{"identity.trusted_proxies", "none", "CIDRs of the proxies whose identity headers are trusted, such as `[10.0.0.0/16]`. Required with mode `trusted_headers`, not allowed with others."},
	{"identity.unlisted_tenants", "`refuse`; without a mode `default`, unlimited", "What happens to a tenant that a token or trusted header names but `tenants` does not list: `refuse` (403), or `default` (served with the limits of `identity.default_tenant`). Not with mode `keys`."},
	{"identity.default_tenant.max_priority", "`normal`", "Highest priority of requests of an unlisted tenant. Only with `unlisted_tenants: default`."},
	{"identity.default_tenant.rpm", "`0`", "Requests per minute of each unlisted tenant, as `tenants[].rpm`. Only with `unlisted_tenants: default`."},
	{"identity.default_tenant.tpm", "`0`", "Tokens per minute of each unlisted tenant, as `tenants[].tpm`. Only with `unlisted_tenants: default`."},
	{"identity.default_tenant.concurrent", "`0`", "Concurrent requests of each unlisted tenant, as `tenants[].concurrent`. Only with `unlisted_tenants: default`."},
	{"identity.default_tenant.allow_external", "`false`", "Whether requests of unlisted tenants may be answered by fallbacks, as `tenants[].allow_external`. Only with `unlisted_tenants: default`."},
	{"identity.default_tenant.models", "all", "Models that each unlisted tenant may use, as `tenants[].models`. Only with `unlisted_tenants: default`."},
	{"identity.default_tenant.budgets[].usd", "this or `tokens`", "Dollars that each unlisted tenant may spend, as `tenants[].budgets[].usd`. Only with `unlisted_tenants: default`, as all of its budgets."},
	{"identity.default_tenant.budgets[].tokens", "this or `usd`", "Tokens that each unlisted tenant may use, as `tenants[].budgets[].tokens`."},
	{"identity.default_tenant.budgets[].per", required, "As `tenants[].budgets[].per`."},
	{"identity.default_tenant.budgets[].on_redis_loss", "`share`", "As `tenants[].budgets[].on_redis_loss`."},
	{"identity.jwt.issuer", "required with `jwt`", "Required value of every token's `iss`."},
	{"identity.jwt.audience", "required with `jwt`", "The audience that names this gateway; a token's `aud` must contain it."},
	{"identity.jwt.jwks_file", "required with `jwt`", "Path of the issuer's public keys (a JSON Web Key Set, as its `jwks_uri` serves it). " +
		"Read again when it changes, see *Files that are read again*."},
	{"identity.jwt.algorithms", "`[RS256, ES256, EdDSA]`", "Allowed signature algorithms: these, or `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES384`, `ES512`."},
	{"identity.jwt.tenant_claim", "`tenant`", "Claim that names the tenant. A token without it is refused. Use `sub` only if users cannot choose it at the issuer."},
	{"identity.jwt.priority_claim", "`priority`", "Claim that names the highest priority. Without it a token has `normal`."},
	{"pools.NAME.model", required, "Model name that the backends know (`model` in upstream requests)."},
	{"pools.NAME.revision", "none", "Version of the weights behind that name, such as a commit or a date: 1–64 of `A-Z a-z 0-9 . _ : @ / -`. It is part of the cache key, so a change invalidates the cached answers of the old weights. Evidence of audits of the old weights does not count any more."},
	{"pools.NAME.usd_per_hour", "`0`", "Price of one backend in USD per hour. 0 turns cost estimates off."},
	{"pools.NAME.usd_per_million_input", "none", "Price of a million prompt tokens in USD, up to 100,000, of a hosted pool that is used in `routes[].fallbacks`. Not with `usd_per_hour`, nor for the draft or target of a route."},
	{"pools.NAME.usd_per_million_output", "required with `usd_per_million_input`", "Price of a million generated tokens in USD. One of both prices must be above 0."},
	{"pools.NAME.prefill_tokens_per_s", "learned", "Prompt tokens per second that one backend computes at its usual batch size, above 0. With `usd_per_hour` it gives the price of a prompt token, which `economy.guard` uses. If it is not set, it is learned from traffic."},
	{"pools.NAME.decode_tokens_per_s", "learned", "Tokens per second that one backend generates at its usual batch size, over all its requests, above 0. With `usd_per_hour` it gives the price of an answer token. If it is not set, it is learned from some dozen answers; `foregate check` cannot know it then."},
	{"pools.NAME.backends", "this or `discover`", "Base URLs of the backends, without `/v1`: `[\"http://a10g-0:8000\"]`."},
	{"pools.NAME.discover", "this or `backends`", "Where the backends are found instead of a list: `dns://HOST:PORT` (every address of the name; resolved every 5 s), " +
		"`srv://_SERVICE._tcp.NAME` (every SRV record with the lowest priority number; resolved every 5 s), or `file:///PATH` " +
		"(one base URL per line with `#` comments, or Prometheus `file_sd` JSON; read every 500 ms; a path without leading `/` is relative to the working directory)."},
	{"pools.NAME.engine", "`auto`", "The kind of the pool's engines: `vllm`, `sglang`, `llamacpp` (llama-server) or `openai` (any other server with OpenAI's API, such as Ollama; beside requests it gets the probe's questions, no `/metrics` and no `/health`). It decides where their load is read, how they tokenize, which fields they get and how they score. `auto` asks each engine once in each of its lives (`/v1/models`, then other paths). What contradicts a configured kind is told in `foregate status`, the log and `foregate_backend_engine_misfit`; the configured kind stays in force."},
	{"pools.NAME.scheduler", "`fcfs`", "`priority` if the backends run with `--scheduling-policy priority`: requests then carry vLLM's `priority`, taken from their priority class. Engines with another scheduling policy refuse such requests."},
	{"pools.NAME.auth.api_key_file", "none", "Path of a file with one line, the API key that the backends want. It is sent as `Authorization: Bearer KEY` with every request, passthrough, probe and scrape. A client's own key never reaches a backend. Read again when it changes: the next request has the new key."},
	{"pools.NAME.auth.headers_file", "none", "Path of a file with HTTP headers that the backends want, one `NAME: VALUE` per line, at most 16, sent like the key. Headers of the connection (`Host`, `Connection`, `Content-Length` …) and those that the gateway sets itself are refused. Clients cannot replace them. Read again when it changes."},
	{"pools.NAME.tls.ca_file", "the system's authorities", "PEM file of the certificate authorities that the backends' certificates may come from. With `tls`, even `tls: {}`, all backends of the pool must be `https://`, and `dns://` and `srv://` find https backends. Certificates are always verified; no setting turns that off. Read again when it changes: it holds for new connections, and connections that are older serve no new request."},
	{"pools.NAME.tls.cert_file", "none", "PEM file of the client certificate that the gateway shows to the backends, with `key_file`. The files of `tls` are read again when one changes, and are put into force together. Before it expires there are warnings, and `foregate_certificate_not_after_timestamp_seconds`."},
	{"pools.NAME.tls.key_file", "none", "PEM file of the private key of `cert_file`."},
	{"pools.NAME.tls.server_name", "the host of each URL", "Name that the backends' certificates must contain. `dns://` finds addresses, so it needs this unless the certificates contain them."},
	{"routes[].model", required, "Model name that clients request: 1–128 of `A-Z a-z 0-9 . _ : / -`."},
	{"routes[].draft", "none", "Name of the draft pool. Without it the target answers every request."},
	{"routes[].target", "this or `targets`", "Name of the target pool: it answers what is not served from a draft."},
	{"routes[].targets[].pool", "this or `target`", "One of 2–4 target pools, the one in force first. Each conversation (tenant, system prompt and first message) keeps one of them; a larger weight moves conversations only to that pool."},
	{"routes[].targets[].weight", "required with `pool`", "Its weight beside the others, 0.001 … 1000000, such as 95 and 5."},
	{"routes[].same_tokenizer", "`false`", "`true` if draft and target have the same tokenizer and chat template. The target can then continue from the draft's token ids."},
	{"routes[].fallbacks[].pool", required, "Pool of hosted servers that answers when the route's own pools do not, see [fallbacks](guides/fallbacks.md): `engine: openai`, `backends` by https (or on loopback), prices of tokens, and no other use as `draft` or `target`. At most 4 fallbacks, tried in this order. Only for tenants with `allow_external`."},
	{"routes[].fallbacks[].when", "`[unavailable]`", "When a request may go there: `unavailable` (no backend of the route's pools can answer, or none did before the first byte), `shed` (the request was refused admission)."},
	{"routes[].fallbacks[].max_usd_per_hour", required, "US dollars that all replicas together may spend on this fallback of this route in an hour of the UTC calendar, up to 1,000,000. A request reserves the most that it may cost before it leaves. While Redis is away each replica continues with its share."},
	{"routes[].allow_fields", "none", "What clients of this route may send beyond the default: names of refused [request fields](#request-fields), media types of content parts, " +
		"and chat-template arguments as `chat_template_kwargs.NAME`, such as `[image_url, documents, chat_template_kwargs.custom_instructions]`."},
	{"tenants[].id", required, "The tenant's name: 1–64 of `A-Z a-z 0-9 . _ : -`."},
	{"tenants[].keys_sha256", "none", "SHA-256 of each of its bearer keys, in hex: `printf %s \"$KEY\" \\| sha256sum`."},
	{"tenants[].max_priority", "`normal`", "Highest priority of its requests: `low`, `normal` or `high`."},
	{"tenants[].rpm", "`0`", "Requests per minute over all replicas; 0 means no limit. Bursts are 1.2 seconds' worth, and up to four requests with limits below 200. At most `limit.high_priority_share` of them may have priority `high`. While Redis is down every replica admits its share."},
	{"tenants[].tpm", "`0`", "Prompt and answer tokens per minute over all replicas; 0 means no limit. A request is admitted by what it may need (`max_tokens`, or 512), and charged what it has used. If that is unknown, for example if its client disconnects before the first byte, it is charged what it may need. Bursts are 3 seconds' worth plus one request."},
	{"tenants[].concurrent", "`0`", "Concurrent requests; 0 means no limit. Every replica admits this number divided by the number of replicas, rounded up. Answers from the cache do not count, " +
		"but a body over 64 KiB, or of unknown length, counts from before its first byte until its request ends."},
	{"tenants[].allow_external", "`false`", "Whether the tenant's requests may be answered by `routes[].fallbacks`, and so leave the operator's own servers. Requests of other tenants never do."},
	{"tenants[].trace_content", "`false`", "Whether the messages and answers of the tenant's requests go to the trace collector, as `gen_ai.input.messages` and `gen_ai.output.messages`. Then all of its requests are traced, whatever `tracing.sample` and `traceparent` say. Without `tracing` it has no effect. " +
		"Guide: docs/guides/tenants-and-identity.md."},
	{"tenants[].models", "all", "Models that the tenant may use: names of routes, or the beginning of names with one `*` at the end, such as `[llama-3, \"code-*\"]`. " +
		"Every other name is refused with 403 `model_not_allowed`, whether a route has it or not, and `/v1/models` does not list it."},
	{"tenants[].budgets[].usd", "this or `tokens`", "Dollars that the tenant may spend in a window, over all replicas, 0.000001 … 1000000. What a request may cost is reserved before it (prompt and `max_tokens`, or 512, at the token prices of its target and its draft), and what its receipt says is charged after it. " +
		"The pools of its routes need `usd_per_hour`, or nothing is charged. Beyond it: 429 `insufficient_quota`. Answers from the cache are free."},
	{"tenants[].budgets[].tokens", "this or `usd`", "Tokens of prompts and answers that the tenant may use in a window, over all replicas, 1 … 1e15. They are counted as for `tpm`."},
	{"tenants[].budgets[].per", required, "Window of the budget: `hour`, `day` or `month` of the UTC calendar. A request counts in the window in which it began. A tenant has at most one budget for each unit and period; all of them hold."},
	{"tenants[].budgets[].on_redis_loss", "`share`", "What happens while Redis is away: `share` continues, every replica with its part of what was left; `deny` refuses the tenant's requests with 503 `budget_unavailable`."},
	{"tenants[].per_tenant_evidence", "`false`", "Modes `risk` and `shadow`: certify thresholds from this tenant's own requests, so that `risk.max_wrong_rate` holds for this tenant alone. Useful from about 20,000 requests per day."},
	{"tenants_file", "none", "Path of a YAML file with `tenants:` alone, instead of `tenants` here; `identity.mode` is then `keys` by default. Read again when it changes, see *Files that are read again*: added tenants are served, removed keys are refused, new limits hold for new requests, and requests in flight continue."},
	{"passthrough", "`/v1/embeddings`, `/tokenize`, `/detokenize`, `/v1/rerank`, `/v1/score`", "Exact paths that are forwarded to the route's target pool unchanged. Their tokens count against `tpm`: first what the request may need, then what the answer reports. Requests whose prompt an engine computes get the tenant's `cache_salt`; vLLM obeys it at `/v1/responses`, and for pooling requests that know the field. The cascade answers `/v1/responses` and `/v1/messages` itself; listed here, requests that only an engine can serve (stored responses, tools that a server runs) are forwarded instead of refused. `/v1/messages` has no `cache_salt`: tenants whose requests are forwarded there share an engine's prefix cache, and one can measure by timing what another asked. Paths that control or reveal an engine are refused."},
	{"limits.body_bytes", "`4MiB`", "Largest request body, 1KiB … 1GiB, and never more than an eighth of the process's memory (`GOMEMLIMIT`, or nine tenths of the control group's limit, or 1 GiB if neither is known)."},
	{"limits.response_bytes", "`16MiB`", "Largest answer that is not streamed, 1KiB … 1GiB."},
	{"limits.in_flight", "`4096`", "Requests in flight, 1 … 1000000, also those whose body is being received. Requests beyond it get 503. " +
		"One tenant may use two thirds of what others leave, and gets 429 beyond that."},
	{"limits.header_bytes", "`16KiB`", "Largest size of a request's headers, 1KiB … 1MiB."},
	{"limits.connections", "`20000`", "Connections open on the public listener, 16 … 1000000. No more than half of the files that may be open (`ulimit -n`), because every connection may need one to a backend, and than half of `GOMEMLIMIT` holds at 20 KiB each. Further ones wait until one is closed. Idle ones are closed after 75 s."},
	{"drain.delay", "`5s`", "How long the gateway still accepts requests after SIGTERM while `/readyz` fails, so that load balancers notice; up to 10m."},
	{"drain.grace", "`25s`", "How long requests in flight may continue after `drain.delay`; up to 1h."},
	{"tracing.otlp", "none", "Base URL of an OpenTelemetry collector that accepts OTLP over HTTP, such as `http://collector:4318`; traces go to its `/v1/traces`. Without it nothing is traced, and a client's `traceparent` is forwarded."},
	{"tracing.sample", "`0.1`", "Share of requests without `traceparent` that are traced, 0 … 1. A request with `traceparent` decides itself."},
	{"tracing.headers_file", "none", "Path of a file with HTTP headers for the collector, one `NAME: VALUE` per line, read at the start."},
}
