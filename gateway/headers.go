package gateway

// Header is one header of the public listener.
type Header struct {
	Name    string // two headers that differ in the last word: "X-RateLimit-Limit-Requests, -Tokens"
	Values  string // in Markdown
	Meaning string
}

// RequestHeaders are the request headers that the gateway interprets.
var RequestHeaders = []Header{
	{Name: "Authorization", Values: "`Bearer KEY`", Meaning: "The caller's key, which identifies tenant and highest priority (identity mode `keys`), or a JSON Web Token that names them (mode `jwt`)."},
	{Name: "X-Api-Key", Values: "`KEY`", Meaning: "The same as `Authorization: Bearer KEY`, for clients that send their key here (Anthropic's). Only one of both may be given."},
	{Name: "X-Tenant-ID", Values: "`[A-Za-z0-9._:-]{1,64}`", Meaning: "The tenant, in identity mode `trusted_headers`. In the other modes it must equal the authenticated tenant."},
	{Name: "X-Priority", Values: "`high`, `normal`, `low`", Meaning: "The request's priority; `normal` without it. It can lower the tenant's highest priority, never raise it."},
	{Name: "X-RAG-Hash", Values: "`[A-Za-z0-9._:-]{1,128}`", Meaning: "Digest of the retrieved context. Cached answers and prefixes are separated by it. Without it, the digest of the body's `documents` is used, if the route allows that field."},
	{Name: "Cache-Control", Values: "`no-store`, `no-cache`, `max-age=SECONDS`, `only-if-cached`", Meaning: "As in RFC 9111. `no-store`: read nothing from the cache and store nothing. `no-cache`: generate a fresh answer and store it; use it to get a new sample at temperature above 0. `max-age`: accept a cached answer up to that age (an invalid number counts as 0). `only-if-cached`: a cached answer, or 504."},
	{Name: "X-Tier", Values: "`auto`, `draft`, `target`", Meaning: "Who answers: `auto` the cascade, `draft` the draft pool without acceptance checks, `target` the target pool."},
	{Name: "X-Acceptance-Mode", Values: "`default`, `exact`, `target`", Meaning: "How strictly a draft is judged; never less strictly than the route's mode. `default`: the route's mode. `exact`: only what the target would have generated itself (at temperature above 0 the target answers), never a cached or shared answer. `target`: no draft."},
	{Name: "X-Request-ID", Values: "`[A-Za-z0-9._:-]{1,64}`", Meaning: "Returned with the answer, and recorded as `client_request_id` in the log, the receipt and the trace. Engines get the gateway's own request ids, see the response header."},
	{Name: "X-Stainless-Retry-Count", Values: "a number", Meaning: "Number of earlier attempts, set by the SDKs. It distinguishes first attempts from retries: a tenant's retry budget is a share of its first attempts."},
	{Name: "traceparent", Values: "W3C trace context, version 00", Meaning: "Forwarded to the engines; a malformed value is dropped. With `tracing` the gateway adds its own spans: engines get the id of their call's span, and `tracestate` is forwarded."},
}

// ResponseHeaders are the headers that the gateway sets.
var ResponseHeaders = []Header{
	{Name: "X-Request-ID", Values: "as above", Meaning: "On every response: the client's id, or the gateway's own request id, which is `request_id` in the log and `id` in the receipt. Engines get the gateway's id plus a suffix for every attempt (`attempts[].call` in the receipt), so equal ids of different clients never meet in an engine."},
	{Name: "Request-Id", Values: "as above", Meaning: "With `/v1/messages`: the same id, where Anthropic's clients look for it."},
	{Name: "X-Content-Type-Options", Values: "`nosniff`", Meaning: "On every response. A forwarded answer is JSON or an event stream; any other content type of a backend becomes 502."},
	{Name: "X-Cache", Values: "`HIT`, `COALESCED`, `MISS`, `BYPASS`", Meaning: "`HIT`: the answer comes from the cache. `COALESCED`: it was generated for an identical concurrent request. `MISS`: it was generated for this request. `BYPASS`: the cache was not used."},
	{Name: "Age", Values: "whole seconds", Meaning: "With a cached answer: seconds since it was generated."},
	{Name: "X-Tier", Values: "`draft`, `target`, `mixed`, `fallback`", Meaning: "Which pool generated the answer; `fallback` is a hosted one that is not the operator's own; for a stream, as known at its first byte. Not set on a stream that shares another request's answer."},
	{Name: "X-Acceptance", Values: "`accepted`, `rejected` or `bypassed`, then `;reason=…;score=…`", Meaning: "How the draft was judged (score in nats), or why none was judged. `accepted;reason=late_…`: a fault was found after the client already had the draft. In modes other than `confidence` also `;mode=…`. In `risk` and `shadow` also `;policy=…`: the versions of grid, alarm and operating point. `;phase=warmup`: the draft was served before the traffic class had a certificate, so the guarantee does not cover it. In `verify` also `;tie=…` (tolerance in nats) or `;exactness=approximate`."},
	{Name: "Server-Timing", Values: "`cache`, `draft`, `verify`, `target`, `total`; ms", Meaning: "Where the time before the first byte went, by phase. A phase counts with its whole duration, up to the first byte. A non-streamed answer has its first byte when it is complete."},
	{Name: "Retry-After", Values: "whole seconds", Meaning: "With 429 and 5xx, where a retry may help: when to retry, with jitter."},
	{Name: "X-Should-Retry", Values: "`true`, `false`", Meaning: "With every 429 and 5xx: whether a retry may help. The SDKs obey it. 429: `true` if the client that waits as long as `Retry-After` says has a place of its own, at most a minute from now. 5xx: `Retry-After` is the client's turn, and `false` is also said when that is more than 50 s away: a tenant's retries come no faster than a tenth of its recent first attempts, or one in 14 s."},
	{Name: "X-RateLimit-Limit-Requests, -Tokens", Values: "a number", Meaning: "The tenant's limit per minute, if it has one."},
	{Name: "X-RateLimit-Remaining-Requests, -Tokens", Values: "a number", Meaning: "Requests that may be sent now; tokens that one request may ask for now."},
	{Name: "X-RateLimit-Reset-Requests, -Tokens", Values: "`120ms`, `6m0s`", Meaning: "Time until the full burst is available again."},
	{Name: "X-Shed-Reason", Values: "`kv_pressure;pool=…;usage=…;threshold=…`", Meaning: "With a 503 from shedding: the reason (`kv_pressure`, `kv_growth`, `backend_queue`, `backend_delay`, `gateway_queue` or `provider_limit`), the pool, and the value that exceeded the threshold."},
}
