package openapi

import (
	_ "embed" // of the schemas
	"net/http"
)

//go:embed admin.schemas.json
var adminSchemas []byte

// adminInfo introduces the document.
var adminInfo = object{
	"title": "Foregate, admin listener", "version": "1",
	"description": "For operators and their tools. Answers may get more members; none changes its meaning. " +
		"A path of a part that a configuration does not have (a cache, the console, a settings editor) is answered as a path that is not here: " +
		"as the response Refused404 says, or Refused405 for another method.",
}

// Parameters of several operations.
var (
	routeParameter   = parameter{name: "route", meaning: "One route; all without it."}
	backendParameter = parameter{name: "backend", required: true, meaning: "Its id, host:port or base URL."}
	poolParameter    = parameter{name: "pool", meaning: "Its pool, if several pools have a backend of this name."}
	forParameter     = parameter{name: "for", meaning: "How long, such as 10m: 1s to 720h. Without it a drain lasts until it is ended."}
)

// Statuses of refusals of several kinds of operation, besides those of all.
var (
	actionRefusals  = []int{400, 404, 408, 409, 413, 500}
	bodyRefusals    = []int{400, 408, 413, 500}
	settingRefusals = []int{400, 408, 413, 422, 500, 503}
	routeRefusals   = []int{400, 404}
	riskRefusals    = []int{400, 404, 503}
)

// adminOperations are all operations of the admin listener.
var adminOperations = []operation{
	{
		method: "GET", path: "/admin/status", tag: "state",
		summary: "Tell the state of this replica.",
		answers: ok("The state.", view("Status")),
	},
	{
		method: "GET", path: "/admin/backends", tag: "backends",
		summary: "List the backends by pool.",
		answers: ok("The pools.", members(object{"pools": list("PoolView")})),
	},
	{
		method: "POST", path: "/admin/drain", tag: "backends",
		summary: "Stop new work on a backend, at every replica.",
		about:   "Running work continues. A body is ignored.",
		parameters: []parameter{
			backendParameter,
			poolParameter,
			forParameter,
			{name: "why", meaning: "The reason, for others: at most 256 bytes in one line."},
		},
		answers:  ok("It is drained.", view("ActionResult")),
		refusals: actionRefusals,
	},
	{
		method: "POST", path: "/admin/undrain", tag: "backends",
		summary:    "End a drain.",
		about:      "A body is ignored.",
		parameters: []parameter{backendParameter, poolParameter},
		answers:    ok("It is not drained.", view("ActionResult")),
		refusals:   actionRefusals,
	},
	{
		method: "POST", path: "/admin/spot", tag: "backends",
		summary: "Drain a backend whose spot machine ends.",
		about:   "For webhooks of clouds. Parameters take precedence over the body. A body of another form or content type is ignored.",
		parameters: []parameter{
			{name: "backend", meaning: "As for a drain; required here or in the body."},
			poolParameter,
			forParameter,
		},
		body: object{"properties": object{
			"backend": text(), "pool": text(),
			"deadline_seconds": object{
				"type": "number", "minimum": 0, "maximum": 86400, "description": "Seconds until the machine ends; ten minutes later the drain ends.",
			},
		}},
		optional: true,
		answers:  ok("It is drained.", view("ActionResult")),
		refusals: actionRefusals,
	},
	{
		method: "GET", path: "/admin/settings", tag: "settings",
		summary:    "List the live settings in force.",
		parameters: []parameter{routeParameter},
		answers:    ok("The settings.", members(object{"route": text(), "settings": list("SettingView")})),
		refusals:   routeRefusals,
	},
	{
		method: "POST", path: "/admin/settings", tag: "settings",
		summary: "Set and unset live settings, all or none.",
		about:   "Needs an operator's token even on loopback.",
		body: closed(object{
			"set":   object{"type": "object", "additionalProperties": text(), "description": "Values by name or name@route."},
			"unset": texts, "why": why, "dry_run": dryRun,
		}),
		answers:  ok("What was changed, or would be.", view("SettingsEditResult")),
		refusals: settingRefusals,
	},
	{
		method: "POST", path: "/admin/settings/rollback", tag: "settings",
		summary:  "Restore the settings after a version.",
		about:    "Needs an operator's token even on loopback.",
		body:     closed(object{"version": whole(0), "why": why, "dry_run": dryRun}, "version"),
		answers:  ok("What was changed, or would be.", view("SettingsEditResult")),
		refusals: settingRefusals,
	},
	{
		method: "GET", path: "/admin/settings/log", tag: "settings",
		summary: "List the last changes of settings, the newest first.",
		parameters: []parameter{
			{name: "n", meaning: "How many; 50 without it.", schema: object{"type": "integer", "minimum": 1, "maximum": 500}},
		},
		answers:  ok("The changes.", members(object{"entries": list("SettingsLogEntry")})),
		refusals: []int{400, 403, 503},
	},
	{
		method: "POST", path: "/admin/reload", tag: "configuration",
		summary: "Read the configuration's files again.",
		about: "What can change while the replica runs is in force afterwards; the answer names what needs a restart. " +
			"A file with mistakes changes nothing. A body is ignored.",
		parameters: []parameter{{name: "dry_run", meaning: "1: only tell what would change.", schema: text("0", "1")}},
		answers: append(ok("What is new in force, or would be.", view("ReloadResult")), answer{
			status: 422, about: "reload_refused: files have mistakes.", content: map[string]object{"application/json": reloadRefusal},
		}),
		refusals: []int{400, 409, 503},
	},
	{
		method: "GET", path: "/admin/cache", tag: "cache",
		summary: "Tell the state of the response cache on this replica.",
		answers: ok("The state.", view("CacheView")),
	},
	{
		method: "POST", path: "/admin/cache/purge", tag: "cache",
		summary: "Purge cached answers, at every replica.",
		about:   "Of a tenant, of a route, or all. A body is ignored.",
		parameters: []parameter{
			{name: "tenant", meaning: "One tenant."},
			{name: "route", meaning: "One route. Not together with tenant."},
		},
		answers:  ok("What was purged.", view("PurgeResult")),
		refusals: []int{400, 404, 409, 500},
	},
	{
		method: "GET", path: "/admin/tenants", tag: "tenants",
		summary: "List the tenants with their rights and their use of this replica.",
		answers: ok("The tenants.",
			members(object{"tenants": list("TenantView"), "omitted": whole(0)})),
	},
	{
		method: "GET", path: "/admin/usage", tag: "tenants",
		summary: "Tell the usage of all replicas by tenant, route and day.",
		parameters: []parameter{
			{name: "from", meaning: "The first day (UTC); the first of the month of the last day without it.", schema: day},
			{name: "to", meaning: "The last day (UTC); today without it.", schema: day},
			{name: "by", meaning: "What rows are for: one or more of tenant, route and day, such as tenant,day; tenant without it."},
			{name: "format", meaning: "Without it JSON, or CSV if the header Accept names text/csv and not JSON.", schema: text("json", "csv")},
		},
		answers: []answer{{status: 200, about: "The usage.", content: map[string]object{
			"application/json": view("UsageReport"), "text/csv": text(),
		}}},
		refusals: []int{400, 503},
	},
	{
		method: "GET", path: "/admin/receipts", tag: "receipts",
		summary: "List receipts of this replica's last requests, the newest last.",
		parameters: []parameter{
			{name: "n", meaning: "How many; 100 without it.", schema: object{"type": "integer", "minimum": 1, "maximum": 1000}},
			routeParameter,
			{name: "acceptance", meaning: "How drafts were judged.", schema: text("accepted", "rejected", "bypassed")},
			{name: "since", meaning: "A time (RFC 3339), or how long ago, such as 5m."},
		},
		answers:  []answer{page(200, "A Receipt per line.", "application/x-ndjson")},
		refusals: routeRefusals,
	},
	{
		method: "GET", path: "/admin/receipts/{id}", tag: "receipts",
		summary: "Get the receipt of a request.",
		parameters: []parameter{
			{name: "id", in: "path", required: true, meaning: "The gateway's request id, or the X-Request-ID that the client sent."},
		},
		answers:  ok("The receipt.", view("Receipt")),
		refusals: routeRefusals,
	},
	{
		method: "GET", path: "/admin/risk", tag: "risk",
		summary:    "Tell what audits have shown of each kind of request.",
		parameters: []parameter{routeParameter},
		answers:    ok("The evidence, and candidates for scores.", members(object{"risk": list("RiskView"), "refits": list("RefitView")})),
		refusals:   riskRefusals,
	},
	{
		method: "GET", path: "/admin/risk/frontier", tag: "risk",
		summary:    "Tell what each maximum wrong rate would give.",
		parameters: []parameter{routeParameter},
		answers:    ok("The frontiers.", view("RiskFrontiers")),
		refusals:   riskRefusals,
	},
	{
		method: "GET", path: "/admin/session", tag: "session", kind: open,
		summary: "Tell who is signed in.",
		answers: ok("The session, or that there is none.", view("SessionView")),
	},
	{
		method: "POST", path: "/admin/session", tag: "session", kind: open,
		summary:  "Sign in with an operator's token.",
		about:    "Sets the session's cookie.",
		body:     members(object{"token": text()}),
		answers:  ok("The session.", view("SessionView")),
		refusals: bodyRefusals,
	},
	{
		method: "DELETE", path: "/admin/session", tag: "session", kind: open,
		summary: "Sign out.",
		answers: ok("Whether the other replicas know it.", view("SignOutResult")),
	},
	self(http.MethodGet, "/admin/openapi.json", plain),
	self(http.MethodHead, "/admin/openapi.json", plain),
	{
		method: "GET", path: "/metrics", tag: "metrics",
		summary: "Get the metrics of this replica.",
		about:   "In the formats of Prometheus.",
		answers: []answer{
			{status: 200, about: "The metrics.", content: map[string]object{"text/plain": text(), "application/openmetrics-text": text()}},
		},
	},
	liveness(http.MethodGet),
	liveness(http.MethodHead),
	readiness(http.MethodGet),
	readiness(http.MethodHead),
	{
		method: "GET", path: "/", tag: "console", kind: open,
		summary: "Go to the console.",
		answers: []answer{{status: 302, about: "It is at /console/."}},
	},
	{
		method: "GET", path: "/console/{file}", tag: "console", kind: open,
		summary:    "Get a file of the console.",
		parameters: []parameter{{name: "file", in: "path", required: true, meaning: "Its path."}},
		answers:    anything("The file.", "There is no such file."),
	},
	{
		method: "GET", path: "/console/live", tag: "console",
		summary: "Follow what the console's charts show.",
		answers: []answer{
			page(200, "Events: history once, then a sample every few seconds.", "text/event-stream"),
			page(503, "Too many pages are open.", "text/plain"),
		},
	},
	{
		method: "GET", path: "/debug/pprof/{name}", tag: "debug",
		summary: "Get a profile of the process.",
		about:   "As Go's package net/http/pprof has them.",
		parameters: []parameter{
			{name: "name", in: "path", required: true, meaning: "Such as heap or goroutine; nothing for the list."},
			{name: "debug", meaning: "1 or 2: as text.", schema: whole(0)},
			{name: "seconds", meaning: "How long, in seconds.", schema: whole(1)},
		},
		answers: profile,
	},
	{
		method: "GET", path: "/debug/pprof/cmdline", tag: "debug",
		summary: "Get the command line.",
		answers: profile,
	},
	{
		method: "GET", path: "/debug/pprof/profile", tag: "debug",
		summary:    "Get a CPU profile.",
		parameters: []parameter{{name: "seconds", meaning: "How long; 30 without it.", schema: whole(1)}},
		answers:    profile,
	},
	{
		method: "GET", path: "/debug/pprof/symbol", tag: "debug",
		summary: "Look up program counters.",
		answers: profile,
	},
	{
		method: "GET", path: "/debug/pprof/trace", tag: "debug",
		summary:    "Get an execution trace.",
		parameters: []parameter{{name: "seconds", meaning: "How long; 1 without it.", schema: whole(1)}},
		answers:    profile,
	},
}

// Schemas of several bodies and parameters.
var (
	day    = object{"type": "string", "format": "date"}
	why    = object{"type": "string", "maxLength": 256, "description": "The reason, for the history: one line of at most 256 bytes."}
	dryRun = object{"type": "boolean", "description": "Only tell what would change."}
)

// reloadRefusal is a ReloadResult with an error.
var reloadRefusal = members(object{
	"error": view("ErrorBody"), "dry_run": object{"type": "boolean"}, "problems": texts, "changes": texts, "restart_required": texts,
})

// anything is an answer of any media type, or 404 and a text.
func anything(about, missing string) []answer {
	return []answer{{status: 200, about: about, content: map[string]object{"*/*": nil}}, page(404, missing, "text/plain")}
}

// profile is an answer of net/http/pprof.
var profile = anything("The profile.", "There is no such profile.")

// closed is an object that has no other members.
func closed(properties object, required ...string) object {
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// Admin returns the document of the admin listener.
func Admin(t Tables) ([]byte, error) {
	schemas, err := parseSchemas("admin.schemas.json", adminSchemas)
	if err != nil {
		return nil, err
	}
	d := &document{
		tables: t, at: AtAdmin, info: adminInfo, schemas: schemas,
		headers: object{
			"ETag":             object{"description": "Of this document.", "schema": text()},
			"Retry-After":      object{"description": "When to retry, in seconds.", "schema": whole(0)},
			"X-Should-Retry":   object{"description": "A retry cannot help.", "schema": text("false")},
			"WWW-Authenticate": object{"description": "How to show a token, and which scope is missing.", "schema": text()},
		},
		parameters: object{}, security: adminSecurity,
		kinds:    map[kind]common{plain: {refusals: []int{401, 403}}, open: {refusals: []int{401, 403}}},
		refusing: []string{"Retry-After", "X-Should-Retry", "WWW-Authenticate"},
	}
	d.requirement = func(o operation) []object {
		scope := t.Scope(o.path)
		if scope == "" {
			return []object{}
		}
		return []object{{"token": []string{scope}}, {"session": []string{}}, {}}
	}
	return d.encode(adminOperations)
}

// adminSecurity are the ways in which an operator signs in.
var adminSecurity = object{
	"token": object{
		"type": "http", "scheme": "bearer",
		"description": "An operator's token (admin_tokens_file). The scope that a path requires is beside it; operate includes all. " +
			"Without configured tokens, and for reads on loopback, none is needed.",
	},
	"session": object{
		"type": "apiKey", "in": "cookie", "name": "foregate_session",
		"description": "The console's session. Requests that change something also carry X-Csrf-Token, as GET /admin/session tells it.",
	},
}
