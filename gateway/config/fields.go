package config

// FieldDoc describes one field of the file for the reference.
type FieldDoc struct{ Name, Default, Meaning string }

// required marks a field without a default.
const required = "required"

// Fields are all fields of the file, in the order in which one is written. A
// name in capitals stands for one of the operator's own.
var Fields = []FieldDoc{
	{"listen", "`:8080`", "Public listener, `HOST:PORT`. Beyond loopback only with `identity` or tenants' keys."},
	{"admin", "`127.0.0.1:9090`", "Listener of `/metrics`, `/livez`, `/readyz`, pprof and the operators' orders (`/admin/backends`, `/admin/drain`, `/admin/undrain`, `/admin/spot`, `/admin/cache/purge`). Beyond loopback only with `admin_tokens_file`."},
	{"admin_tokens_file", "none", "Path of the file with the operators' tokens, the same on all replicas: lines `NAME SCOPES SECRET`, 64 at most. The secret is 32 to 4096 printable characters (`openssl rand -hex 32`); the name stands in the log of orders and in the history of settings. " +
		"Scopes are a comma list of `metrics` (`/metrics`), `drain` (`/admin/backends`, `/admin/drain`, `/admin/undrain`, `/admin/spot`) and `operate` (everything, signing in at the console too). " +
		"With it, whoever changes something at the admin listener must show a token (`Authorization: Bearer …`, or by signing in), and where that is not on loopback whoever looks, too; `/livez` and `/readyz` are for everybody. " +
		"Read again when it changes: tokens that are gone are refused within 4 s, with the sessions that were begun with them. Without it the console only shows."},
	{"redis.url", "`none`", "Where live settings are read from and replicas share what they know: `redis://[USER:PASSWORD@]HOST:6379/0`, `rediss://…` (TLS), `unix:///PATH`, " +
		"`redis+sentinel://HOST:26379,HOST:26379/MASTER`, `redis+cluster://HOST:6379,HOST:6379` (both with `rediss+…`, too), " +
		"`embedded` (inside this process, one replica only) or `none`. In a password, write `?`, `#`, `%` and `/` as `%3F`, `%23`, `%25` and `%2F`."},
	{"redis.cache_url", "`redis.url`", "Another Redis for cached answers, in the same forms, so that a flood of them cannot push out what replicas tell each other."},
	{"redis.settings_url", "`redis.url`", "The same Redis by a user who may write live settings (`operator` in deploy/redis/users.acl), for those who change them at the admin listener; replicas themselves need no more than to read them."},
	{"redis.replicas", "`1`", "How many replicas there are, 1 … 1000, for one that has not heard it from Redis: limits of the whole fleet are divided by it while Redis is away."},
	{"redis.ca_file", "the system's", "PEM file of the authorities that the certificates of Redis and Sentinels are checked against; with TLS URLs only, as are the next three."},
	{"redis.cert_file", "none", "PEM file of the certificate that is shown to Redis, with `redis.key_file`."},
	{"redis.key_file", "none", "PEM file of that certificate's private key."},
	{"redis.server_name", "the host that is dialed", "Name that the servers' certificates must have, where Sentinels or the cluster tell addresses that are not in them."},
	{"redis.sentinel_username", "none", "User at the Sentinels; the user and password in the URL are those at the servers behind them."},
	{"redis.password_file", "none", "Path of a file with the password of the users in `redis.url` and `redis.cache_url`, in place of one in the URLs (`redis://USER@HOST:6379/0`): one line of printable characters. Read again when it changes: connections that are made from then on show the new password, others stay."},
	{"redis.settings_password_file", "none", "The same for the user in `redis.settings_url`."},
	{"redis.sentinel_password_file", "none", "Path of a file with the password at the Sentinels. It is read at the start; that it has changed is told, and another password wants a restart."},
	{"cache.seal_keys_file", "none", "Path of the file with the secrets that answers in Redis are sealed with, the same on all replicas: lines `ID SECRET`, an id of 1–64 of `A-Z a-z 0-9 . _ : -`, which every sealed value tells, and a secret of 32 to 4096 printable characters (`openssl rand -hex 32`). " +
		"The first seals, all of them open; what none opens is a miss. Read again when it changes. To replace a secret, add the new one behind it on all replicas, then put it first on all, then remove the old one after `cache.ttl`. The first also makes each tenant's `cache_salt` (`cache.isolate_prefixes`): when another comes first, engines compute each prompt's prefix once more. " +
		"Without the file, who can write to Redis and knows a request can forge its answer, so `foregate check`, the log and the console warn where Redis is not embedded."},
	{"cache.local_bytes", "`32MiB`", "Most bytes of the copies of answers in each replica's own memory, up to 16GiB; 0 is none."},
	{"identity.mode", "none, or `keys` when a tenant has keys or there is a `tenants_file`", "Whom to believe about tenant and priority: `keys` (bearer keys of the tenants), `signed` (`X-Identity` as a load balancer signs it for each request), " +
		"`jwt` (bearer tokens of an issuer) or `trusted_headers` (`X-Tenant-ID` and `X-Priority` as the proxies listed set them). " +
		"Without any, only on a loopback listener, anybody may claim anything, but for web pages of other sites: requests are taken at an IP address, `localhost`, or a name under `.localhost` or `.internal`. All but `keys` may name tenants that are not listed: see `identity.unlisted_tenants`."},
	{"identity.trusted_proxies", "none", "CIDRs of the proxies whose headers are believed, such as `[10.0.0.0/16]`; with mode `trusted_headers` only, and required there."},
	{"identity.signing_keys_file", "required with `signed`", "Path of the file with the secrets that `X-Identity` may be signed with: lines `ID SECRET`, where ID is what `X-Identity` says as `kid=` (1–64 of `A-Z a-z 0-9 . _ : -`) and SECRET is 32 to 4096 printable characters (`openssl rand -hex 32`). " +
		"All of them count: give two or more while one replaces another. Read again when it changes, see *Files that are read again*."},
	{"identity.unlisted_tenants", "`refuse`; without a mode `default`, unlimited", "What becomes of tenants that a signature, a token or a trusted header names and `tenants` does not list: `refuse` (403) or `default` (each is served as `identity.default_tenant`). Not with `keys`."},
	{"identity.default_tenant.max_priority", "`normal`", "Highest class that requests of an unlisted tenant may have; this and the next three with `unlisted_tenants: default` only."},
	{"identity.default_tenant.rpm", "`0`", "Requests per minute of each unlisted tenant, as `tenants[].rpm`."},
	{"identity.default_tenant.tpm", "`0`", "Tokens per minute of each unlisted tenant, as `tenants[].tpm`."},
	{"identity.default_tenant.concurrent", "`0`", "Requests under way at once of each unlisted tenant, as `tenants[].concurrent`."},
	{"identity.jwt.issuer", "required with `jwt`", "The `iss` of every token."},
	{"identity.jwt.audience", "required with `jwt`", "The `aud` that names this gateway; a token's `aud` must hold it."},
	{"identity.jwt.jwks_file", "required with `jwt`", "Path of the issuer's public keys (a JSON Web Key Set, as its `jwks_uri` serves it). " +
		"Read again when it changes, see *Files that are read again*."},
	{"identity.jwt.algorithms", "`[RS256, ES256, EdDSA]`", "What tokens may be signed with: these or `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES384`, `ES512`."},
	{"identity.jwt.tenant_claim", "`tenant`", "The claim that names the tenant; a token without it is refused. `sub` only where the issuer lets nobody choose it."},
	{"identity.jwt.priority_claim", "`priority`", "The claim that names the highest priority; a token without it has `normal`."},
	{"pools.NAME.model", required, "The model's name as the backends know it."},
	{"pools.NAME.revision", "none", "Which weights the backends serve under that name, such as a commit or a date: 1–64 of `A-Z a-z 0-9 . _ : @ / -`. It is part of the cache's key, so that a change of it makes answers of the former ones unreachable."},
	{"pools.NAME.usd_per_hour", "`0`", "Price of one backend."},
	{"pools.NAME.prefill_tokens_per_s", "learned", "Prompt tokens that one backend computes in a second at its operating batch, above 0. With `usd_per_hour` it is the price of a prompt token, by which requests are kept from the draft where a draft would cost more than it saves."},
	{"pools.NAME.decode_tokens_per_s", "learned", "Tokens that one backend generates in a second, all its requests together, at its operating batch, above 0: likewise the price of a token of an answer. What is learned instead is known after some dozen answers, and is not known to `foregate check`."},
	{"pools.NAME.backends", "this or `discover`", "Base URLs of the backends, without `/v1`: `[\"http://a10g-0:8000\"]`."},
	{"pools.NAME.discover", "this or `backends`", "Where the backends are found instead: `dns://HOST:PORT` (every address of the name; asked every 5 s), " +
		"`srv://_SERVICE._tcp.NAME` (every SRV record of the lowest priority number, target and port; asked every 5 s), or `file:///PATH` " +
		"(a base URL per line with `#` comments, or the JSON of Prometheus' `file_sd`; looked at every 500 ms; a path without the leading `/` is relative to the working directory)."},
	{"pools.NAME.scheduler", "`fcfs`", "`priority` where the backends run with `--scheduling-policy priority`: requests are then sent with vLLM's `priority`, by their class. Others refuse it."},
	{"pools.NAME.kv_events", "`0`", "Port on which each backend publishes its KV cache events over ZMQ (vLLM's `--kv-events-config`), 1 … 65535; 0 is none."},
	{"routes[].model", required, "The model name that clients ask for: 1–128 of `A-Z a-z 0-9 . _ : / -`."},
	{"routes[].draft", "none", "The pool that drafts. Without one every request goes to the target."},
	{"routes[].target", required, "The pool that answers what the draft cannot."},
	{"routes[].same_tokenizer", "`false`", "Draft and target share tokenizer and chat template, so that the target can go on from the draft's token ids."},
	{"routes[].allow_fields", "none", "What this route's clients may send beyond what all may: names of refused [request fields](#request-fields), types of content parts with media, " +
		"and arguments of the chat template as `chat_template_kwargs.NAME`, such as `[image_url, documents, chat_template_kwargs.custom_instructions]`."},
	{"tenants[].id", required, "The tenant's name: 1–64 of `A-Z a-z 0-9 . _ : -`."},
	{"tenants[].keys_sha256", "none", "SHA-256 of each of its bearer keys, in hex: `printf %s \"$KEY\" \\| sha256sum`."},
	{"tenants[].max_priority", "`normal`", "Highest class that its requests may have: `low`, `normal` or `high`."},
	{"tenants[].rpm", "`0`", "Requests per minute, over all replicas (each admits its share while Redis is away); 0 is unlimited. A burst is 1.2 seconds' worth, with limits under 200 up to four. Of these requests a fifth may have priority `high`."},
	{"tenants[].tpm", "`0`", "Tokens of prompts and answers per minute, over all replicas; 0 is unlimited. A request is let in by what it may need (`max_tokens`, or 512), and charged what it used; where nobody can say, as when its client hangs up before the first byte, what it may need. A burst is 3 seconds' worth and the request that goes beyond it."},
	{"tenants[].concurrent", "`0`", "Requests under way at once; 0 is unlimited. Each replica lets in this divided by the number of replicas, rounded up, at least one. What the cache answers does not count, " +
		"but a body of more than 64 KiB, or of a length that is not told, counts from before its first byte until its request is over."},
	{"tenants[].allow_low_score_under_pressure", "`false`", "It may get a draft below the threshold while the target is short of memory for its class (`speculation.allow_low_score_under_pressure`); such answers say `reason=target_pressure`."},
	{"tenants[].per_tenant_evidence", "`false`", "Modes `risk` and `shadow`: what is promised of drafts is promised for this tenant's requests alone, on evidence of their own; worth it from about 20,000 requests a day."},
	{"tenants_file", "none", "Path of a YAML file with `tenants:` alone, as they may stand here, instead of them; the mode is then `keys` where none is given. Read again when it changes, see *Files that are read again*: who is added is served, a removed key is refused, and limits hold for new requests; requests under way go on."},
	{"passthrough", "`/v1/embeddings`, `/v1/responses`, `/tokenize`, `/detokenize`, `/v1/rerank`, `/v1/score`",
		"Exact paths that are handed to the route's target pool as they are. Their tokens count against `tpm` like any: by what the request may need, then by what the answer says. Requests on whose prompt an engine computes get the tenant's `cache_salt`; vLLM obeys it at `/v1/responses`, and where its pooling requests know the field. Its `/v1/messages` has no such field, so tenants share an engine's prefix cache there and one can time what another asked: list it only where that is no secret. Paths that control or reveal an engine are refused."},
	{"limits.body_bytes", "`4MiB`", "Largest request body, 1KiB … 1GiB; never more than an eighth of the memory that the process may have (`GOMEMLIMIT`, else nine tenths of its control group's, else 1 GiB is assumed)."},
	{"limits.response_bytes", "`16MiB`", "Largest answer that is not streamed, 1KiB … 1GiB."},
	{"limits.in_flight", "`4096`", "Requests under way at once, 1 … 1000000, and as many bodies that are still coming beside them; of the connections that `ulimit -n` allows, the former take three quarters at most and the latter one. More are answered with 503. " +
		"One tenant gets two thirds of what others leave, and 429 beyond that."},
	{"limits.header_bytes", "`16KiB`", "Most bytes of a request's headers, 1KiB … 1MiB."},
	{"limits.connections", "the least of 16384, half of the files that may be open (`ulimit -n`) less 128, and what a quarter of `GOMEMLIMIT` holds at 20 KiB each", "Client connections that may be open on the public listener, 16 … 1000000, but no more than that half of the files, because each may need one to a backend. When all are taken, a new one takes the place of the one that is idle longest, of clients that have shown no identity first, as long as a quarter is idle of these. Up to half of them an idle connection lives for 75 s; the more are taken the shorter, 5 s from three quarters on, where answers end their connections, too. One on which an answer is under way is never closed."},
	{"limits.connections_per_address", "half of the connections", "Of those, how many one address may have (an IPv6 network of 64 bits counts as one), 1 … 1000000: a further one takes the place of the address's own that is idle longest, and is reset where none is idle. `limits.connections` here is no bound."},
	{"limits.balancers", "none", "Networks (CIDRs) of load balancers and sidecars, whose connections carry many clients: they have no bound of their own, live for 75 s, are closed only where no other is idle, and do not end with a 401; failed authentication there counts against its key alone. `identity.trusted_proxies` are such, too."},
	{"drain.delay", "`5s`", "How long the gateway still accepts after SIGTERM, not ready, so that load balancers notice; up to 10m."},
	{"drain.grace", "`25s`", "How long running requests may go on after that; up to 1h."},
	{"tracing.otlp", "none", "Base URL of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://collector:4318`: traces are sent to its `/v1/traces`. Without it nothing is traced, and a client's `traceparent` is only passed on."},
	{"tracing.sample", "`0.1`", "Share of the requests that are traced, 0 … 1, of those that come without a `traceparent`; one that has a `traceparent` says itself whether it is."},
	{"tracing.headers_file", "none", "Path of a file with the headers that the collector wants, `NAME: VALUE` in each line, read at the start."},
}
