package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// nonsense is what a backend may answer instead of an answer.
var nonsense = map[string]func(w http.ResponseWriter){
	"html":        page(200, "text/html", "<html>502 Bad Gateway</html>"),
	"empty":       page(200, "application/json", ""),
	"truncated":   page(200, "application/json", `{"id":"x","model":"m","choices":[{"index":0,"mess`),
	"error":       page(200, "application/json", `{"error":{"message":"engine died at 0x7f0012345678","type":"InternalServerError","code":500}}`),
	"no-choices":  page(200, "application/json", `{"id":"x","model":"m","choices":[]}`),
	"huge":        page(200, "application/json", `{"model":"m","x":"`+strings.Repeat("x", 17<<20)+`"}`),
	"aborted":     page(200, "application/json", `{"model":"m","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"abort"}]}`),
	"created":     page(201, "application/json", `{"model":"m","choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}`),
	"unknown-404": page(404, "application/json", `{"error":{"message":"The model does not exist.","type":"NotFoundError","code":404}}`),
	"no-auth":     page(401, "application/json", `{"error":"Unauthorized"}`),
}

func page(status int, kind, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the gateway may have seen enough
	}
}

func TestNonsenseFromABackendIsA502AndIsNotPassedOn(t *testing.T) {
	var followed atomic.Int64
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	t.Cleanup(canary.Close)
	answers := map[string]func(http.ResponseWriter){
		"redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", canary.URL+"/v1/chat/completions")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
	}
	for name, answer := range nonsense {
		answers[name] = answer
	}
	var pools, routes strings.Builder
	for name, answer := range answers {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				http.NotFound(w, r)
				return
			}
			answer(w)
		}))
		t.Cleanup(srv.Close)
		fmt.Fprintf(&pools, "  %s: {model: m, backends: [%q]}\n", name, srv.URL)
		fmt.Fprintf(&routes, "  - {model: %s, target: %s}\n", name, name)
	}
	p := apptest.Serve(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\ndrain: {delay: 0s, grace: 2s}\npools:\n"+pools.String()+"routes:\n"+routes.String())
	for name := range answers {
		for kind, stream := range map[string]string{"whole": `"stream":false`, "stream": `"stream":true`} {
			tenant := strings.ReplaceAll(name, " ", "-") + "-" + kind // each has turns of its own to come again
			status, head, body := apptest.Send(t, "POST", p.URL+chat, chatBody(name, stream), "X-Tenant-ID", tenant)
			if status != http.StatusBadGateway {
				t.Errorf("%s, %s: status %d: %.300s", name, stream, status, body)
				continue
			}
			code := ""
			for _, known := range []string{"bad_upstream_response", "answer_too_large", "upstream_error", "upstream_aborted", "upstream_rejected", "upstream_wrong_model", "upstream_auth", "upstream_cut"} {
				if strings.Contains(body, known) {
					code = known
				}
			}
			checkError(t, head, body, &refusal{kind: "server_error", code: code})
			for _, secret := range []string{"0x7f", "html", "Unauthorized", "died"} {
				if strings.Contains(body, secret) {
					t.Errorf("%s: the client sees %s", name, body)
				}
			}
		}
	}
	if followed.Load() > 0 {
		t.Error("a redirect was followed")
	}
	if tries := apptest.Lines(p.Metrics(t), `kind="answer_too_large"`); !strings.HasSuffix(tries, " 1\n") || strings.Count(tries, "\n") != 1 {
		t.Errorf("an answer above limits.response_bytes was generated more than once: %s", tries)
	}
}
