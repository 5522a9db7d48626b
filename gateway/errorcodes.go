package gateway

import "github.com/foregate/foregate/tiers/engine"

// ErrorCode is one code of an error body.
type ErrorCode struct {
	Code     string
	Statuses []int  // HTTP statuses that it occurs with
	Type     string // of the error body; "" is that of its status
	Final    bool   // a retry does not help, although the status is of the 5xx
	At       string // the listener: public or admin; "" is both
	Meaning  string // a sentence
}

// ErrorCodes lists every code of an error body: for the reference. A test compares it with the source.
var ErrorCodes = []ErrorCode{
	// Of a request's form.
	{Code: "bad_request_line", Statuses: []int{400}, At: "public", Meaning: "The request line has a whole URL instead of a path."},
	{Code: "bad_header", Statuses: []int{400}, At: "public", Meaning: "A header has a value that it may not have; param names it."},
	{Code: "bad_body", Statuses: []int{400}, Meaning: "The body could not be read, or is not what the path wants."},
	{Code: "bad_parameter", Statuses: []int{400}, At: "admin", Meaning: "A query parameter is unknown, missing, given twice or has a bad value; param names it."},
	{Code: "invalid_json", Statuses: []int{400}, At: "public", Meaning: "The body is not one JSON object."},
	{Code: "duplicate_key", Statuses: []int{400}, At: "public", Meaning: "A member occurs twice, or a known one in another case."},
	{Code: "too_deep", Statuses: []int{400}, At: "public", Meaning: "The body nests too deep."},
	{Code: "too_many_fields", Statuses: []int{400}, At: "public", Meaning: "An object has too many members."},
	{Code: "missing_required_parameter", Statuses: []int{400}, At: "public", Meaning: "A required field is missing."},
	{Code: "unknown_parameter", Statuses: []int{400}, At: "public", Meaning: "A field belongs to another path."},
	{Code: "unsupported_parameter", Statuses: []int{400}, At: "public", Meaning: "A field is refused here."},
	{Code: "invalid_type", Statuses: []int{400}, At: "public", Meaning: "A field has a value of another type."},
	{Code: "invalid_value", Statuses: []int{400}, At: "public", Meaning: "A field's value is out of its range."},
	{Code: "body_timeout", Statuses: []int{408}, Meaning: "The body did not come in time."},
	{Code: "body_too_large", Statuses: []int{413}, Meaning: "The body is larger than limits.body_bytes, than an action may be, or than can be translated within a tenant's share of the memory for bodies."},
	{Code: "unsupported_encoding", Statuses: []int{415}, At: "public", Meaning: "The body has a Content-Encoding."},
	{Code: "unsupported_media_type", Statuses: []int{415}, At: "public", Meaning: "Content-Type is not application/json in UTF-8."},
	{Code: "too_many_headers", Statuses: []int{431}, At: "public", Meaning: "There are too many header lines."},

	// Of who asks, and for what.
	{Code: "invalid_api_key", Statuses: []int{401}, At: "public", Meaning: "No tenant has this key, signature or token."},
	{Code: "forbidden", Statuses: []int{403}, At: "public", Meaning: "The caller may not act for this tenant."},
	{Code: "cross_site", Statuses: []int{403}, Meaning: "A browser sent this for a page of another site."},
	{Code: "strange_host", Statuses: []int{403}, Meaning: "Without keys or tokens only an IP address, localhost or a private name is answered."},
	{Code: "model_not_allowed", Statuses: []int{403}, At: "public", Meaning: "The tenant may not use this model."},
	{Code: "external_not_allowed", Statuses: []int{403}, At: "public", Meaning: "The model's target is hosted by a provider, and the tenant has no allow_external."},
	{Code: "unknown_url", Statuses: []int{404}, Meaning: "There is nothing at this path."},
	{Code: "method_not_allowed", Statuses: []int{405}, Meaning: "The path does not take this method; the header Allow has those that it takes."},
	{Code: "model_not_found", Statuses: []int{404}, Meaning: "No route has this name."},

	// Of limits and load.
	{Code: "rate_limit_exceeded", Statuses: []int{429}, At: "public", Meaning: "The tenant is at a limit; type names it: requests or tokens."},
	{Code: "insufficient_quota", Statuses: []int{429}, Type: "insufficient_quota", At: "public", Meaning: "The tenant's budget is used up, or has less left than the request may need."},
	{Code: "budget_unavailable", Statuses: []int{503}, At: "public", Meaning: "The tenant's budget cannot be counted now."},
	{Code: "tenant_share", Statuses: []int{429}, Type: "requests", At: "public", Meaning: "The tenant has too many or too large request bodies under way."},
	{Code: "overloaded", Statuses: []int{503}, At: "public", Meaning: "The gateway has too many requests under way."},
	{Code: "upload_overloaded", Statuses: []int{503}, At: "public", Meaning: "The gateway holds as many request bodies as it has memory for."},
	{Code: "shed", Statuses: []int{503}, At: "public", Meaning: "The pools are short of memory, have long queues or are at a provider's limit, and this priority is turned away; X-Shed-Reason says more."},
	{Code: "gateway_draining", Statuses: []int{503}, At: "public", Meaning: "This replica is shutting down; another one answers."},
	{Code: "response_not_found", Statuses: []int{404}, At: "public", Meaning: "There is no such stored response: it was not stored, has expired, was deleted, or is another tenant's."},
	{Code: "previous_response_not_found", Statuses: []int{404}, At: "public", Meaning: "The request goes on from, or refers to, a response that is not stored; the whole conversation as input does without."},
	{Code: "responses_unavailable", Statuses: []int{503}, Type: "server_error", At: "public", Meaning: "The response that the request goes on from cannot be read now; the whole conversation as input does without."},
	{Code: "not_cached", Statuses: []int{504}, Type: "invalid_request_error", Final: true, At: "public", Meaning: "Cache-Control has only-if-cached, and no cached answer will do."},

	// Of backends.
	{Code: "no_backend", Statuses: []int{503}, At: "public", Meaning: "No backend can take the request now."},
	{Code: string(engine.Backpressure), Statuses: []int{502, 503}, At: "public", Meaning: "All backends are busy."},
	{Code: string(engine.Rejected), Statuses: []int{400, 413, 422, 501, 502}, Final: true, At: "public", Meaning: "The engine refused the request and names no code of its own, which would be here, such as content_filter; with 502, for a reason that is not the client's."},
	{Code: string(engine.WrongModel), Statuses: []int{502}, At: "public", Meaning: "The backends serve another model, or not this API; `foregate status` names them."},
	{Code: "context_length_exceeded", Statuses: []int{400}, At: "public", Meaning: "Prompt and answer are longer than the model's context, or the prompt than the KV memory of every backend of the model."},
	{Code: string(engine.Unauthorized), Statuses: []int{502}, Final: true, At: "public", Meaning: "The engine refused the gateway's key or certificate: the pool's settings are at fault."},
	{Code: string(engine.Refused), Statuses: []int{502}, At: "public", Meaning: "Backends refused the connection."},
	{Code: string(engine.Reset), Statuses: []int{502}, At: "public", Meaning: "The connection to the backend broke."},
	{Code: string(engine.Cut), Statuses: []int{502}, At: "public", Meaning: "The answer broke off."},
	{Code: string(engine.ServerError), Statuses: []int{502}, At: "public", Meaning: "Backends answered with errors."},
	{Code: string(engine.BadResponse), Statuses: []int{502}, At: "public", Meaning: "The backend's answer is not what the API promises."},
	{Code: string(engine.TooLarge), Statuses: []int{502}, Final: true, At: "public", Meaning: "The answer is larger than limits.response_bytes. A retry does not help."},
	{Code: string(engine.Aborted), Statuses: []int{502}, At: "public", Meaning: "The engine aborted the request."},
	{Code: string(engine.Exhausted), Statuses: []int{502}, At: "public", Meaning: "The gateway ran out of files, ports or memory."},
	{Code: string(engine.ClientGone), Statuses: []int{502}, At: "public", Meaning: "The client whose request was shared left."},
	{Code: string(engine.Timeout), Statuses: []int{504}, At: "public", Meaning: "No backend answered in time."},
	{Code: string(engine.Stalled), Statuses: []int{504}, Final: true, At: "public", Meaning: "The answer stopped half-way."},
	{Code: string(engine.Expired), Statuses: []int{504}, Final: true, At: "public", Meaning: "The whole time for the request is over."},
	{Code: "internal_error", Statuses: []int{500}, At: "public", Meaning: "The gateway failed; its log says why."},

	// Of the admin listener.
	{Code: "no_token", Statuses: []int{401}, At: "admin", Meaning: "An operator's token is needed."},
	{Code: "bad_token", Statuses: []int{401}, At: "admin", Meaning: "The token is not one of the operators' tokens."},
	{Code: "wrong_scope", Statuses: []int{403}, At: "admin", Meaning: "The token has not the scope of this path; WWW-Authenticate names it."},
	{Code: "read_only", Statuses: []int{403}, At: "admin", Meaning: "No tokens are configured, so pages change nothing, and nobody changes settings."},
	{Code: "settings_read_only", Statuses: []int{403}, At: "admin", Meaning: "The Redis user of this replica can only read settings."},
	{Code: "unknown_backend", Statuses: []int{404}, At: "admin", Meaning: "No pool has this backend."},
	{Code: "unknown_receipt", Statuses: []int{404}, At: "admin", Meaning: "This replica has no receipt of this request, or no longer."},
	{Code: "ambiguous_backend", Statuses: []int{409}, At: "admin", Meaning: "Several backends match; name the pool and the id."},
	{Code: "settings_refused", Statuses: []int{422}, At: "admin", Meaning: "Settings are unknown or have bad values; problems has one line for each."},
	{Code: "no_config_file", Statuses: []int{409}, At: "admin", Meaning: "The replica was not started with a configuration file, so there is nothing to reload."},
	{Code: "reload_refused", Statuses: []int{422}, At: "admin", Meaning: "A file has mistakes and is not in force; problems has one line for each."},
	{Code: "reload_late", Statuses: []int{503}, Type: "server_error", At: "admin", Meaning: "The files were not read in time."},
	{Code: "action_failed", Statuses: []int{500}, At: "admin", Meaning: "The action failed; the gateway's log says why."},
	{Code: "no_settings", Statuses: []int{503}, Type: "server_error", At: "admin", Meaning: "Redis does not answer, so settings cannot be read or changed."},
	{Code: "usage_away", Statuses: []int{503}, Type: "server_error", At: "admin", Meaning: "Redis does not answer, so usage cannot be read."},
	{Code: "too_many_rows", Statuses: []int{400}, At: "admin", Meaning: "The usage has too many rows; ask for fewer days or groups."},
	{Code: "evidence_away", Statuses: []int{503}, Type: "server_error", At: "admin", Meaning: "Redis does not answer, so what audits have shown cannot be read."},
}
