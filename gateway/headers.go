package gateway

// HeaderDoc describes one header of the public surface for the reference.
type HeaderDoc struct{ Name, Values, Meaning string }

// RequestHeaders are the headers that the gateway obeys.
var RequestHeaders = []HeaderDoc{
	{"Authorization", "`Bearer KEY`", "The caller's key, which maps to a tenant and its highest priority (identity mode `keys`), or a JSON Web Token that names them (mode `jwt`)."},
	{"X-Identity", "`v1;t=TENANT;p=PRIORITY;exp=UNIX;kid=KEYID;sig=SIGNATURE`", "Tenant and class as a load balancer signed them for this method and path (identity mode `signed`)."},
	{"X-Tenant-ID", "`[A-Za-z0-9._:-]{1,64}`", "The tenant, where headers are trusted; with keys, signatures and tokens it may only repeat theirs."},
	{"X-Priority", "`high`, `normal`, `low`", "The request's class; `normal` when absent. It can lower the tenant's highest class, never raise it."},
	{"X-RAG-Hash", "`[A-Za-z0-9._:-]{1,128}`", "Digest of the retrieved context: answers and prefixes are kept apart by it. Without it, that of the body's `documents`, where these are allowed."},
	{"Cache-Control", "`no-store`, `no-cache`, `max-age=SECONDS`, `only-if-cached`", "As RFC 9111 has it: nothing kept is given and nothing is kept; a fresh answer, which is kept; a kept one no older than that; a kept one or 504. A `max-age` that is no number is 0. An answer above temperature 0 is kept and given again as any other: `no-cache` asks for a fresh sample."},
	{"X-Tier", "`auto`, `draft`, `target`", "Who answers: the cascade, the draft pool unjudged, or the target pool."},
	{"X-Acceptance-Mode", "`default`, `exact`, `target`", "How strictly a draft is judged, never less than the route does: as the route has it; only what the target would have written itself (temperature 0, else the target answers, and the answer is never a kept or shared one); no draft."},
	{"X-Request-ID", "`[A-Za-z0-9._:-]{1,64}`", "Comes back with the answer, and is `client_request_id` in the log, the receipt and the trace. Engines are told ids of the gateway's own: see the answer's header."},
	{"X-Stainless-Retry-Count", "a number", "The SDKs' own count of tries before this one. They tell first tries from retries: a tenant's budget of retries is a share of its first tries."},
	{"traceparent", "W3C trace context, version 00", "Sent on upstream; anything malformed is dropped. With `tracing` the gateway is a part of the trace: backends are told the id of their call, and `tracestate` is sent on, too."},
}

// ResponseHeaders are the headers that the gateway sets.
var ResponseHeaders = []HeaderDoc{
	{"X-Request-ID", "as above", "On every response: the client's, else the gateway's own id of the request, which is `request_id` in the log and `id` in the receipt. Engines know each try of the request by its own id and a suffix (`tries[].call` in the receipt), so that equal ids of clients never meet in an engine."},
	{"X-Content-Type-Options", "`nosniff`", "On every response. What passes through is JSON or a stream of events; any other type of a backend is its fault, and 502."},
	{"X-Cache", "`HIT`, `COALESCED`, `MISS`, `BYPASS`", "Whether the answer was kept; was made for an identical request that was under way; was made for this one; or the cache had no part in it."},
	{"Age", "whole seconds", "With a kept answer: since it was made."},
	{"X-Tier", "`draft`, `target`, `mixed`", "What the answer came from; for a stream, what is known at its first byte. A stream that shares another's answer does not tell."},
	{"X-Acceptance", "`accepted`, `rejected` or `bypassed`, then `;reason=…;score=…`", "What the acceptance logic said of the draft (score in nats), or why it was not asked (`accepted;reason=late_…`: the draft is the answer, because the client had it when the fault was seen); of a draft that was judged in another mode than `confidence` also `;mode=…`; in `risk` and `shadow`, judged or not, `;policy=…`, the versions of grid, alarm and operating point that it was judged by; in `verify` `;tie=…`, the tolerance in nats, or `;exactness=approximate`."},
	{"Server-Timing", "`cache`, `draft`, `verify`, `target`, `total`; ms", "Where the time until the first byte went: each phase is its whole duration, as far as it came by then. An answer that is not streamed has its first byte when it is whole."},
	{"Retry-After", "whole seconds", "With 429 and 503: when to come back, jittered."},
	{"X-Should-Retry", "`false`", "With a 429 or 5xx that a retry cannot help, or beyond the tenant's budget of retries: of its refusals as many as a tenth of its first tries of the last seconds, one at least, are without it. The SDKs obey it."},
	{"X-RateLimit-Limit-Requests, -Tokens", "a number", "The tenant's limit per minute, where it has one."},
	{"X-RateLimit-Remaining-Requests, -Tokens", "a number", "Requests that may be sent at once; tokens that one request may ask for now."},
	{"X-RateLimit-Reset-Requests, -Tokens", "`120ms`, `6m0s`", "Until nothing is owed any more and a whole burst may be sent."},
	{"X-Shed-Reason", "`kv_pressure;pool=…;usage=…;threshold=…`", "With a 503 by pressure: which pool, and by how much."},
}
