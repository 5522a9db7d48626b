package app_test

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	collect "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// logCollector takes logs as OTLP over HTTP.
type logCollector struct {
	url  string
	mu   sync.Mutex
	all  []*logs.LogRecord
	wire strings.Builder // all bodies, not compressed
}

func newLogCollector(t *testing.T) *logCollector {
	t.Helper()
	c := &logCollector{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil || r.URL.Path != "/v1/logs" {
			http.Error(w, "not gzip for /v1/logs", http.StatusBadRequest)
			return
		}
		body, err := io.ReadAll(z)
		var m collect.ExportLogsServiceRequest
		if err != nil || proto.Unmarshal(body, &m) != nil {
			http.Error(w, "not OTLP", http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.wire.Write(body)
		_ = r.Header.Write(&c.wire)
		for _, resource := range m.ResourceLogs {
			for _, scope := range resource.ScopeLogs {
				c.all = append(c.all, scope.LogRecords...)
			}
		}
	}))
	t.Cleanup(srv.Close)
	c.url = srv.URL
	return c
}

// structure is a value as JSON, with sorted names.
func structure(v *common.AnyValue) string {
	text, _ := json.Marshal(plainOf(v)) // made of strings, numbers, lists and maps
	return string(text)
}

func plainOf(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_ArrayValue:
		list := []any{}
		for _, one := range v.ArrayValue.Values {
			list = append(list, plainOf(one))
		}
		return list
	case *common.AnyValue_KvlistValue:
		members := map[string]any{}
		for _, kv := range v.KvlistValue.Values {
			members[kv.Key] = plainOf(kv.Value)
		}
		return members
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case nil:
		return nil
	default:
		return fmt.Sprintf("an unexpected %T", v)
	}
}

// of waits for the record of a request.
func (c *logCollector) of(t *testing.T, id string) (found *logs.LogRecord) {
	t.Helper()
	apptest.Eventually(t, "the record has come", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, r := range c.all {
			if about(r.Attributes, "foregate.request_id") == id {
				found = r
			}
		}
		return found != nil
	})
	return found
}

// exporting serves a replica with the given section export.
func exporting(t *testing.T, export string) *apptest.Replica {
	t.Helper()
	draft := vllmsim.Start(t, vllmsim.Options{Model: simDraft, Profile: "a10g-8b", Seed: simSeed, TimeScale: simScale})
	target := vllmsim.Start(t, vllmsim.Options{Model: simTarget, Profile: "h100-70b-tp4", Seed: simSeed, TimeScale: simScale})
	store := miniredis.RunT(t)
	store.HSet("foregate:settings", "cache.lookup_timeout", "1s", "speculation.mode@plain", "off")
	r := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {small: {model: %s, backends: [%q]}, large: {model: %s, backends: [%q]}}
routes: [{model: llama-3, draft: small, target: large, same_tokenizer: true}, {model: plain, target: large}]
drain: {delay: 0s, grace: 5s}
%s
`, store.Addr(), simDraft, draft.URL(), simTarget, target.URL(), export))
	r.Ready(t)
	return r
}

const asked = `{"model":%q,"stream":%t,"temperature":0,"max_tokens":6,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Why is the sky blue?"}]}`

// exported sends a request, and returns the answer's request id and cache result.
func exported(t *testing.T, r *apptest.Replica, body string, headers ...string) (id, cached string) {
	t.Helper()
	code, h, answer := apptest.Send(t, http.MethodPost, r.URL+chat, body, headers...)
	if code != http.StatusOK {
		t.Fatalf("status %d: %s", code, answer)
	}
	return h.Get("X-Request-Id"), h.Get("X-Cache")
}

func TestWholeStreamedAndCachedAnswersAreExportedAlike(t *testing.T) {
	c := newLogCollector(t)
	r := exporting(t, "export: {otlp_logs: "+c.url+", share: 1, content: full}")
	for _, model := range []string{"llama-3", "plain"} {
		var first string
		for i, stream := range []bool{false, true, false} {
			body := fmt.Sprintf(asked, model, stream)
			id, cached := "", ""
			if i < 2 {
				id, cached = exported(t, r, body, "Cache-Control", "no-store")
			} else { // the first of these fills the cache, a later one gets the answer out of it
				apptest.Eventually(t, "the cache answers", func() bool {
					id, cached = exported(t, r, body)
					return cached == "HIT"
				})
			}
			if hit := cached == "HIT"; hit != (i == 2) {
				t.Errorf("%s %d: X-Cache %q", model, i, cached)
			}
			rec := c.of(t, id)
			out := about(rec.Attributes, "gen_ai.output.messages")
			if first == "" {
				first = out
			}
			if rec.EventName != "gen_ai.client.inference.operation.details" || out != first || !strings.Contains(out, `"parts":[{"content":"`) {
				t.Errorf("%s %d: event %q, output %s, first %s", model, i, rec.EventName, out, first)
			}
			for key, want := range map[string]string{
				"gen_ai.operation.name": "chat", "gen_ai.request.model": model, "gen_ai.response.model": simTarget, "foregate.tenant": "default", "foregate.truncated": "",
				"gen_ai.input.messages":      `[{"parts":[{"content":"Why is the sky blue?","type":"text"}],"role":"user"}]`,
				"gen_ai.system_instructions": `[{"content":"Be brief.","type":"text"}]`,
				"gen_ai.usage.output_tokens": "6", "gen_ai.request.max_tokens": "6", "gen_ai.request.temperature": "0",
			} {
				if got := about(rec.Attributes, key); got != want {
					t.Errorf("%s %d: %s is %q, want %q", model, i, key, got, want)
				}
			}
		}
	}
}

func TestContentLeavesOnlyAsFarAsItIsConfigured(t *testing.T) {
	for _, level := range []string{"none", "input"} {
		c := newLogCollector(t)
		r := exporting(t, "export: {otlp_logs: "+c.url+", share: 1, content: "+level+"}")
		id, _ := exported(t, r, fmt.Sprintf(asked, "plain", false))
		rec := c.of(t, id)
		if in := about(rec.Attributes, "gen_ai.input.messages"); (in != "") != (level == "input") || about(rec.Attributes, "gen_ai.output.messages") != "" {
			t.Errorf("%s: %v", level, rec.Attributes)
		}
	}
}

func TestARecordHasNoSettingThatWasNotAsked(t *testing.T) {
	c := newLogCollector(t)
	r := exporting(t, "export: {otlp_logs: "+c.url+", share: 1, content: none}")
	id, _ := exported(t, r, `{"model":"plain","temperature":null,"messages":[{"role":"user","content":"hi"}]}`)
	rec := c.of(t, id)
	for _, key := range []string{"gen_ai.request.temperature", "gen_ai.request.max_tokens"} {
		if got := about(rec.Attributes, key); got != "" {
			t.Errorf("%s is %q", key, got)
		}
	}
}

func TestNoHeaderOfARequestIsExported(t *testing.T) {
	const secret = "canary-4711"
	c := newLogCollector(t)
	r := exporting(t, "export: {otlp_logs: "+c.url+", share: 1, content: full}")
	id, _ := exported(t, r, fmt.Sprintf(asked, "plain", true), "Authorization", "Bearer "+secret, "X-Api-Key", secret, "Cookie", "k="+secret, "User-Agent", secret)
	c.of(t, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if wire := c.wire.String(); strings.Contains(wire, secret) || !strings.Contains(wire, "Why is the sky blue?") {
		t.Errorf("the collector got %q", wire)
	}
}

func TestARecordBelongsToTheTraceOfItsRequest(t *testing.T) {
	c, traces := newLogCollector(t), newCollector(t)
	r := exporting(t, "tracing: {otlp: "+traces.url+", sample: 0}\nexport: {otlp_logs: "+c.url+", share: 1}")
	id, _ := exported(t, r, fmt.Sprintf(asked, "plain", false), "Traceparent", sampled)
	if got := hex.EncodeToString(c.of(t, id).TraceId); got != traceID {
		t.Errorf("trace %s", got)
	}
}

func TestACollectorThatIsAwayCostsRecordsAlone(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	r := exporting(t, "export: {otlp_logs: "+away.URL+", share: 1, content: full}")
	exported(t, r, fmt.Sprintf(asked, "plain", false))
	apptest.Eventually(t, "the record was dropped", func() bool {
		return strings.Contains(r.Metrics(t), `foregate_export_records_total{result="refused"} 1`)
	})
}

// TestEveryAPIExportsTheSameRecord asks the same, which the cache answers from the second time on, and once without the cache.
func TestEveryAPIExportsTheSameRecord(t *testing.T) {
	c := newLogCollector(t)
	r := exporting(t, "export: {otlp_logs: "+c.url+", share: 1, content: full}")
	sent := map[string]string{} // what was sent, by request id
	for _, stream := range []bool{false, true} {
		for path, body := range map[string]string{
			chat:            asked,
			"/v1/responses": `{"model":%q,"stream":%t,"store":false,"temperature":0,"max_output_tokens":6,"instructions":"Be brief.","input":"Why is the sky blue?"}`,
			"/v1/messages":  `{"model":%q,"stream":%t,"temperature":0,"max_tokens":6,"system":"Be brief.","messages":[{"role":"user","content":"Why is the sky blue?"}]}`,
		} {
			for _, headers := range [][]string{{"Cache-Control", "no-store"}, nil} {
				code, h, answer := apptest.Send(t, http.MethodPost, r.URL+path, fmt.Sprintf(body, "plain", stream), headers...)
				if code != http.StatusOK {
					t.Fatalf("%s: status %d: %s", path, code, answer)
				}
				sent[h.Get("X-Request-Id")] = fmt.Sprintf("%s, stream %t, %v", path, stream, headers)
			}
		}
	}
	first := ""
	for id, what := range sent {
		rec := c.of(t, id)
		var told []string
		for _, key := range []string{"gen_ai.operation.name", "gen_ai.request.model", "gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.usage.output_tokens"} {
			told = append(told, about(rec.Attributes, key))
		}
		all := strings.Join(told, "\n")
		if first == "" {
			first = all
		}
		if all != first || !strings.Contains(all, "Why is the sky blue?") || told[4] == "" {
			t.Errorf("%s:\n%s\nthe first:\n%s", what, all, first)
		}
	}
}

func TestARefusedRequestIsExportedWithItsError(t *testing.T) {
	c := newLogCollector(t)
	r := exporting(t, "export: {otlp_logs: "+c.url+", share: 1, content: full}")
	for path, body := range map[string]string{
		chat:            `{"model":"plain","max_tokens":500000,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/messages":  `{"model":"plain","max_tokens":500000,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/responses": `{"model":"plain","store":false,"max_output_tokens":500000,"input":"hi"}`,
	} {
		code, h, answer := apptest.Send(t, http.MethodPost, r.URL+path, body)
		rec := c.of(t, h.Get("X-Request-Id"))
		if code != http.StatusBadRequest || about(rec.Attributes, "error.type") == "" || about(rec.Attributes, "gen_ai.output.messages") != "" {
			t.Errorf("%s: status %d %s: %v", path, code, answer, rec.Attributes)
		}
	}
}
