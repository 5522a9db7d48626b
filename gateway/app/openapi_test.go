package app_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// documentedGateway is a replica with every part that has paths of its own, and its configuration file.
func documentedGateway(t *testing.T, store *miniredis.Miniredis) (p *apptest.Replica, file string) {
	t.Helper()
	draft := vllmsim.Start(t, vllmsim.Options{Model: simDraft, Seed: simSeed, TimeScale: simScale})
	target := vllmsim.Start(t, vllmsim.Options{Model: simTarget, Seed: simSeed, TimeScale: simScale})
	tokens := apptest.File(t, "secret", "ann operate "+annsToken+"\nprom metrics "+promsToken+"\n")
	file = apptest.File(t, "secret", conf(`admin_tokens_file: %s
redis: {url: "redis://%s"}
passthrough: [/v1/embeddings, /tokenize]
pools:
  draft: {model: %s, backends: [%q]}
  target: {model: %s, backends: [%q], usd_per_hour: 2}
  others: {model: %s, backends: [%q]}
routes: [{model: llama-3, draft: draft, target: target}]
tenants:
  - {id: acme, keys_sha256: ["%x"], max_priority: high, rpm: 600, tpm: 1000000}
  - {id: globex, keys_sha256: ["%x"], rpm: 1}
  - {id: initech, keys_sha256: ["%x"], models: ["code-*"]}
  - {id: umbrella, keys_sha256: ["%x"], budgets: [{tokens: 10, per: day}]}
`, tokens, store.Addr(), simDraft, draft.URL(), simTarget, target.URL(), simDraft, draft.URL(), sha256.Sum256([]byte(keyHigh)), sha256.Sum256([]byte(keyLimited)),
		sha256.Sum256([]byte("key-of-initech")), sha256.Sum256([]byte("key-of-umbrella"))))
	p = apptest.ServeFile(t, file)
	p.Ready(t)
	return p, file
}

const (
	annsToken  = "the-token-of-ann-who-reads-documents"
	promsToken = "the-token-of-prometheus-for-metrics"
)

var (
	asAcme   = []string{"Authorization", "Bearer " + keyHigh}
	asGlobex = []string{"Authorization", "Bearer " + keyLimited}
	asAnn    = []string{"Authorization", "Bearer " + annsToken}
	asProm   = []string{"Authorization", "Bearer " + promsToken}
)

// as adds headers to a caller's.
func as(caller []string, more ...string) []string {
	return append(append([]string{}, caller...), more...)
}

// publicCalls reach every operation of the public listener, and its refusals that the error table does not have.
var publicCalls = []call{
	{method: "POST", path: chat, body: chatBody("llama-3"), headers: asAcme, status: 200},
	{method: "POST", path: chat, body: chatBody("llama-3"), status: 200, headers: as(asAcme,
		"X-Priority", "low", "X-Tenant-ID", "acme", "X-RAG-Hash", "a1", "X-Request-ID", "mine-1", "X-Tier", "auto", "X-Acceptance-Mode", "default",
		"Cache-Control", "no-cache", "X-Stainless-Retry-Count", "0", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")},
	{method: "POST", path: chat, body: chatBody("llama-3", `"stream":true`, `"stream_options":{"include_usage":true}`, `"max_tokens":20`), headers: asAcme, status: 200},
	{method: "POST", path: chat, body: chatBody("llama-3", `"max_completion_tokens":20`, `"temperature":0`, `"n":null`, `"stop":["x"]`, `"seed":1`,
		`"priority":7`, `"cache_salt":"x"`, `"echo":false`, `"extra_args":{}`, `"metadata":{"a":"b"}`,
		`"tools":[{"type":"function","function":{"name":"f"}}]`, `"chat_template_kwargs":{"enable_thinking":false}`), headers: as(asAcme, "X-Tier", "target"), status: 200},
	{method: "POST", path: "/v1/completions", body: `{"model":"llama-3","prompt":"hi","max_tokens":20}`, headers: asAcme, status: 200},
	{method: "POST", path: "/v1/completions", body: `{"model":"llama-3","prompt":[1,2,3],"logprobs":1,"max_tokens":20}`, headers: as(asAcme, "X-Tier", "target"), status: 200},
	{method: "POST", path: "/v1/completions", body: `{"model":"llama-3","prompt":"hi","stream":true,"max_tokens":20}`, headers: asAcme, status: 200},
	{method: "POST", path: "/v1/embeddings", body: `{"model":"llama-3","input":"hi"}`, headers: asAcme, status: 200},
	{method: "POST", path: "/tokenize", body: `{"model":"llama-3","prompt":"hi","priority":1}`, headers: asAcme, status: 200},
	{method: "POST", path: "/v1/responses", body: `{"model":"llama-3","input":"hi","max_output_tokens":20}`, headers: asAcme, status: 200},
	{method: "GET", path: "/v1/responses/resp_1", headers: asAcme, status: 404},
	{method: "DELETE", path: "/v1/responses/resp_1", headers: asAcme, status: 404},
	{method: "POST", path: "/v1/messages", body: `{"model":"llama-3","messages":[{"role":"user","content":"hi"}],"max_tokens":20}`, headers: asAcme, status: 200},
	{method: "POST", path: "/v1/messages/count_tokens", body: `{"model":"llama-3","messages":[{"role":"user","content":"hi"}]}`, headers: asAcme, status: 200},
	{method: "GET", path: "/v1/models", headers: asAcme, status: 200},
	{method: "GET", path: "/v1/models/llama-3", headers: asAcme, status: 200},
	{method: "GET", path: "/health", status: 200},
	{method: "GET", path: "/ping", status: 200},
	{method: "GET", path: "/version", status: 200},
	{method: "GET", path: "/livez", status: 200},
	{method: "GET", path: "/readyz", status: 200},
	{method: "GET", path: "/readyz?route=llama-3&route=llama-3", status: 200},
	{method: "GET", path: "/readyz?route=nobody", status: 404},
	{method: "GET", path: "/openapi.json", status: 200},
	{method: "GET", path: "/openapi.json", headers: []string{"If-None-Match", "*"}, status: 304},

	{method: "GET", path: "/openapi.json", headers: []string{"X-Request-ID", "a b"}, status: 400, wrong: true},
	{method: "GET", path: "/v1/models", status: 401},
	{method: "GET", path: "/v1/models", headers: as(asAcme, "X-Tenant-ID", "globex"), status: 403},
	{method: "GET", path: "/v1/models", headers: as(asAcme, "X-Priority", "urgent"), status: 400, wrong: true},
	{method: "DELETE", path: "/v1/models", headers: asAcme, status: 405},
	{method: "POST", path: "/openapi.json", body: "{}", status: 405},
	{method: "GET", path: "/docs", status: 404},
	{method: "POST", path: "/v1/embeddings", body: `{"input":"hi"}`, headers: asAcme, status: 400, wrong: true},
	{method: "POST", path: chat, body: chatBody("llama-3", limited(0)...), headers: asAcme, status: 200},
	{method: "POST", path: chat, body: chatBody("llama-3", limited(1)[0]), headers: asAcme, status: 400, wrong: true},
	{method: "POST", path: chat, body: chatBody("llama-3", limited(1)[1]), headers: asAcme, status: 400, wrong: true},
	{method: "POST", path: chat, body: chatBody("llama-3", limited(1)[2]), headers: asAcme, status: 400, wrong: true},
	{method: "POST", path: chat, body: chatBody("llama-3", limited(1)[3]), headers: asAcme, status: 400, wrong: true},
	{method: "POST", path: "/v1/completions", body: `{"model":"llama-3","prompt":"hi","max_tokens":5,"best_of":9}`, headers: asAcme, status: 400, wrong: true},
	{method: "POST", path: "/v1/embeddings", body: `{"model":"llama-3","lora_path":"/x"}`, headers: asAcme, status: 400, wrong: true},
	{method: "POST", path: chat, body: chatBody("llama-3"), headers: as(asAcme, "Cache-Control", "only-if-cached", "X-RAG-Hash", "none"), status: 504},
	{method: "POST", path: chat, body: chatBody("llama-3"), headers: []string{"Authorization", "Bearer key-of-initech"}, status: 403},
	{method: "POST", path: chat, body: chatBody("llama-3", `"max_tokens":500`), headers: []string{"Authorization", "Bearer key-of-umbrella"}, status: 429},
	{method: "POST", path: chat, body: chatBody("llama-3"), headers: as(asGlobex, "Cache-Control", "no-store"), status: 200},
	{method: "POST", path: chat, body: chatBody("llama-3"), headers: as(asGlobex, "Cache-Control", "no-store"), status: 429},
}

// limited are fields at their limits, and so many above.
func limited(above int) []string {
	bias := make([]string, 1024+above)
	for i := range bias {
		bias[i] = fmt.Sprintf(`"%d":-1`, i+100)
	}
	return []string{
		fmt.Sprintf(`"n":%d`, 8+above),
		`"stop":["x"` + strings.Repeat(`,"x"`, 15+above) + `]`,
		`"logit_bias":{` + strings.Join(bias, ",") + `}`,
		fmt.Sprintf(`"max_tokens":%d`, 1048576*above+20),
	}
}

func TestThePublicListenerIsAsItsDocumentSays(t *testing.T) {
	p, _ := documentedGateway(t, miniredis.RunT(t))
	c := contractOf(t, p.URL, "/openapi.json", false)
	for _, k := range publicCalls {
		c.check(t, k)
	}
	stored, _ := apptest.Post(t, p.URL+"/v1/responses", `{"model":"llama-3","input":"store it","max_output_tokens":4}`, asAcme...)
	var named struct{ ID string }
	if err := json.Unmarshal([]byte(stored), &named); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"GET", "DELETE"} {
		c.check(t, call{method: method, path: "/v1/responses/" + named.ID, headers: asAcme, status: 200})
	}
	made := c.check(t, call{method: "POST", path: "/v1/conversations", body: `{"items":[]}`, headers: asAcme, status: 200})
	if err := json.Unmarshal([]byte(made), &named); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"GET", "DELETE"} {
		c.check(t, call{method: method, path: "/v1/conversations/" + named.ID, headers: asAcme, status: 200})
	}
	c.checkAllCalled(t, "publicCalls")
}

// adminCalls reach every operation of the admin listener. The receipts are those of publicCalls' kind.
var adminCalls = []call{
	{method: "GET", path: "/admin/openapi.json", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/openapi.json", headers: as(asAnn, "If-None-Match", "*"), status: 304},
	{method: "GET", path: "/admin/status", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/backends", headers: asAnn, status: 200},
	{method: "POST", path: "/admin/drain?pool=draft&backend=BACKEND&for=1m&why=a+driver", headers: asAnn, status: 200},
	{method: "POST", path: "/admin/undrain?pool=draft&backend=BACKEND", headers: asAnn, status: 200},
	{method: "POST", path: "/admin/spot", body: `{"backend":"BACKEND","pool":"draft","deadline_seconds":120}`, headers: asAnn, status: 200},
	{method: "POST", path: "/admin/undrain?pool=draft&backend=BACKEND", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/settings", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/settings?route=llama-3", headers: asAnn, status: 200},
	{method: "POST", path: "/admin/settings", body: `{"set":{"shed.low":"0.7"},"why":"a test","dry_run":true}`, headers: asAnn, status: 200},
	{method: "POST", path: "/admin/settings", body: `{"set":{"shed.low":"x"},"dry_run":true}`, headers: asAnn, status: 200},
	{method: "POST", path: "/admin/settings", body: `{"set":{"shed.low":"0.7"},"why":"a test"}`, headers: asAnn, status: 200},
	{method: "POST", path: "/admin/settings", body: `{"unset":["shed.low"]}`, headers: asAnn, status: 200},
	{method: "POST", path: "/admin/settings/rollback", body: `{"version":0,"why":"over"}`, headers: asAnn, status: 200},
	{method: "GET", path: "/admin/settings/log", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/settings/log?n=1", headers: asAnn, status: 200},
	{method: "POST", path: "/admin/reload", headers: asAnn, status: 200},
	{method: "POST", path: "/admin/reload?dry_run=1", headers: asAnn, status: 200},
	{method: "POST", path: "/admin/cache/purge?tenant=acme", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/tenants", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/usage", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/usage?from=2026-11-01&to=2026-11-30&by=tenant,route,day&format=json", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/usage?format=csv", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/usage/hours?from=2026-11-01&to=2026-11-30", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/receipts", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/receipts?n=2&route=llama-3&since=5m", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/receipts/mine-1", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/risk", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/risk?route=llama-3", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/risk/frontier", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/risk/applications", headers: asAnn, status: 200},
	{method: "GET", path: "/admin/session", status: 200},
	{method: "GET", path: "/metrics", headers: asProm, status: 200},
	{method: "GET", path: "/metrics", headers: as(asProm, "Accept", "application/openmetrics-text; version=1.0.0"), status: 200},
	{method: "GET", path: "/livez", status: 200},
	{method: "GET", path: "/readyz", status: 200},
	{method: "GET", path: "/readyz?route=nobody", status: 404},
	{method: "GET", path: "/", status: 302},
	{method: "GET", path: "/console/live.js", status: 200},
	{method: "GET", path: "/console/nothing.js", status: 404},
	{method: "GET", path: "/console/live", headers: asAnn, status: 200},
	{method: "GET", path: "/debug/pprof/heap", headers: asAnn, status: 200},
	{method: "GET", path: "/debug/pprof/nothing", headers: asAnn, status: 404},
	{method: "GET", path: "/debug/pprof/cmdline", headers: asAnn, status: 200},
	{method: "GET", path: "/debug/pprof/symbol", headers: asAnn, status: 200},
}

// adminRefusals are requests that the admin listener refuses.
var adminRefusals = []call{
	{method: "POST", path: "/admin/drain?backend=BACKEND", status: 401},
	{method: "GET", path: "/admin/status", headers: []string{"Authorization", "Bearer nobody"}, status: 401},
	{method: "GET", path: "/livez", headers: []string{"Authorization", "Bearer nobody"}, status: 401},
	{method: "GET", path: "/admin/status", headers: asProm, status: 403},
	{method: "GET", path: "/admin/openapi.json", headers: asProm, status: 403},
	{method: "GET", path: "/admin/status", headers: []string{"Sec-Fetch-Site", "cross-site"}, status: 403},
	{method: "GET", path: "/admin/nothing", headers: asAnn, status: 404},
	{method: "POST", path: "/admin/status", body: "{}", headers: asAnn, status: 405},
	{method: "PUT", path: "/admin/openapi.json", headers: asAnn, status: 405},
	{method: "POST", path: "/admin/drain", headers: asAnn, status: 400, wrong: true},
	{method: "POST", path: "/admin/drain?backend=BACKEND&for=long", headers: asAnn, status: 400},
	{method: "POST", path: "/admin/drain?backend=nobody", headers: asAnn, status: 404},
	{method: "POST", path: "/admin/drain?backend=BACKEND", headers: asAnn, status: 409},
	{method: "POST", path: "/admin/drain?backend=BACKEND", body: `"` + strings.Repeat("x", 65<<10) + `"`, headers: asAnn, status: 413},
	{method: "POST", path: "/admin/spot", body: `{"backend":"BACKEND","deadline_seconds":-1}`, headers: asAnn, status: 400, wrong: true},
	{method: "GET", path: "/admin/settings?route=nobody", headers: asAnn, status: 404},
	{method: "POST", path: "/admin/settings", body: `{"sett":{}}`, headers: asAnn, status: 400, wrong: true},
	{method: "POST", path: "/admin/settings", body: `{"set":{"shed.low":0.7}}`, headers: asAnn, status: 400, wrong: true},
	{method: "POST", path: "/admin/settings", body: `{"set":{"shed.low":"x"}}`, headers: asAnn, status: 422},
	{method: "POST", path: "/admin/settings/rollback", body: `{}`, headers: asAnn, status: 400, wrong: true},
	{method: "GET", path: "/admin/settings/log?n=0", headers: asAnn, status: 400, wrong: true},
	{method: "POST", path: "/admin/reload?dry_run=yes", headers: asAnn, status: 400, wrong: true},
	{method: "POST", path: "/admin/cache/purge?tenant=a&route=llama-3", headers: asAnn, status: 400},
	{method: "POST", path: "/admin/cache/purge?route=nobody", headers: asAnn, status: 404},
	{method: "GET", path: "/admin/usage?format=xml", headers: asAnn, status: 400, wrong: true},
	{method: "GET", path: "/admin/usage?from=yesterday", headers: asAnn, status: 400, wrong: true},
	{method: "GET", path: "/admin/usage/hours?from=yesterday", headers: asAnn, status: 400, wrong: true},
	{method: "GET", path: "/admin/receipts?n=1001", headers: asAnn, status: 400, wrong: true},
	{method: "GET", path: "/admin/receipts?acceptance=perhaps", headers: asAnn, status: 400, wrong: true},
	{method: "GET", path: "/admin/receipts?route=nobody", headers: asAnn, status: 404},
	{method: "GET", path: "/admin/receipts/nothing", headers: asAnn, status: 404},
	{method: "GET", path: "/admin/risk?route=nobody", headers: asAnn, status: 404},
	{method: "GET", path: "/admin/risk?rout=llama-3", headers: asAnn, status: 400},
}

// withoutRedis are requests that need Redis, when it does not answer.
var withoutRedis = []call{
	{method: "GET", path: "/admin/settings/log", headers: asAnn, status: 503},
	{method: "POST", path: "/admin/settings", body: `{"set":{"shed.low":"0.7"}}`, headers: asAnn, status: 503},
	{method: "POST", path: "/admin/cache/purge", headers: asAnn, status: 200}, // at this replica only
	{method: "GET", path: "/admin/usage", headers: asAnn, status: 503},
	{method: "GET", path: "/admin/usage/hours", headers: asAnn, status: 503},
	{method: "GET", path: "/admin/status", headers: asAnn, status: 200},
}

// takeSeconds are operations of Go's own, which answer after a second or more.
var takeSeconds = []string{"GET /debug/pprof/profile", "GET /debug/pprof/trace"}

func TestTheAdminListenerIsAsItsDocumentSays(t *testing.T) {
	store := miniredis.RunT(t)
	p, file := documentedGateway(t, store)
	public := contractOf(t, p.URL, "/openapi.json", false)
	for _, k := range publicCalls[:4] { // they leave receipts
		public.check(t, k)
	}
	c := contractOf(t, p.Admin, "/admin/openapi.json", true, asAnn...)
	backend := ""
	for _, pool := range p.Status(t).Pools {
		if pool.Pool == "draft" {
			backend = pool.Backends[0].ID
		}
	}
	send := func(calls []call) {
		for _, k := range calls {
			k.path, k.body = strings.ReplaceAll(k.path, "BACKEND", backend), strings.ReplaceAll(k.body, "BACKEND", backend)
			c.check(t, k)
		}
	}
	send(adminCalls)
	c.checkAllCalled(t, "adminCalls", takeSeconds...)
	send(adminRefusals)
	if err := os.WriteFile(file, []byte("pools: none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.check(t, call{method: "POST", path: "/admin/reload?dry_run=1", headers: asAnn, status: 422})
	c.check(t, call{method: "POST", path: "/admin/reload", headers: asAnn, status: 422})
	store.SetError("LOADING Redis is loading")
	send(withoutRedis)
}
