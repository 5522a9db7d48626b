package app_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/certtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const (
	engineKey = "engine-key-canary-1"
	wrongKey  = "engine-key-canary-2"
)

// guardedEngine is a simulated engine behind TLS that notes what it is shown.
type guardedEngine struct {
	*httptest.Server
	sim *vllmsim.Server

	mu    sync.Mutex
	shown map[string][]string // by path: Authorization, X-Team and the client certificate's name, each once
}

// newGuardedEngine starts an engine. The key is needed for all paths. config is that of its listener; nil is without TLS.
func newGuardedEngine(t *testing.T, config *tls.Config, keys ...string) *guardedEngine {
	t.Helper()
	e := &guardedEngine{shown: map[string][]string{}}
	e.sim = vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: simSeed, TimeScale: simScale, APIKeys: keys, KeyForAllPaths: true})
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := ""
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		e.note(r.URL.Path, strings.Join(r.Header["Authorization"], "+")+" "+strings.Join(r.Header["X-Team"], "+")+" "+name)
		e.sim.ServeHTTP(w, r)
	}))
	e.TLS, e.Config.ErrorLog = config, log.New(io.Discard, "", 0) // handshakes fail on purpose
	if config == nil {
		e.Start()
	} else {
		e.StartTLS()
	}
	t.Cleanup(e.Close)
	return e
}

func (e *guardedEngine) note(path, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(e.shown[path], what) {
		e.shown[path] = append(e.shown[path], what)
	}
}

// paths returns what was shown at each path.
func (e *guardedEngine) paths() map[string][]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := map[string][]string{}
	for path, shown := range e.shown {
		out[path] = slices.Clone(shown)
	}
	return out
}

// oneRoute is a configuration with one route to a pool, whose fields are given.
func oneRoute(pool string) string {
	return conf("pools:\n  big: {model: m, %s}\nroutes: [{model: r, target: big}]\n", pool)
}

// why returns what the status says about the backends of a pool.
func why(t *testing.T, p *apptest.Replica, pool string) string {
	t.Helper()
	var out []string
	for _, v := range p.Status(t).Pools {
		for _, b := range v.Backends {
			if v.Pool == pool {
				out = append(out, b.Why)
			}
		}
	}
	return strings.Join(out, "; ")
}

func TestAPoolsKeyHeadersAndCertificateAreShownWithEverythingThatAnEngineIsAsked(t *testing.T) {
	ca := certtest.New(t)
	e := newGuardedEngine(t, &tls.Config{
		Certificates: []tls.Certificate{ca.Issue(t, certtest.Leaf{Name: "vllm", Hosts: []string{"vllm.internal"}}).TLS(t)}, ClientCAs: ca.Pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, engineKey)
	own := ca.Issue(t, certtest.Leaf{Name: "the-gateway"})
	access := fmt.Sprintf("backends: [%q], auth: {api_key_file: %q, headers_file: %q}, tls: {ca_file: %q, cert_file: %q, key_file: %q, server_name: vllm.internal}",
		e.URL, apptest.File(t, "secret", engineKey+"\n"), apptest.File(t, "secret", "x-team: gateway\n"), apptest.File(t, "secret", string(ca.PEM)), apptest.File(t, "secret", string(own.Cert)), apptest.File(t, "secret", string(own.Key)))
	p := apptest.Serve(t, conf("pools:\n  small: {model: m, usd_per_hour: 1, %s}\n  big: {model: m, usd_per_hour: 9, %s}\nroutes: [{model: r, draft: small, target: big}]\n", access, access))
	p.Ready(t)
	apptest.Within(t, 30*time.Second, "the engines are probed", p.EnginesKnown)
	for path, body := range map[string]string{
		chat: chatBody("r"), "/v1/completions": `{"model":"r","prompt":"hi","stream":true}`, "/v1/embeddings": `{"model":"r","input":"hi"}`, "/tokenize": `{"model":"r","prompt":"hi"}`,
	} {
		apptest.Post(t, p.URL+path, body, "Authorization", "Bearer client-key", "X-Team", "client", "Proxy-Authorization", "Basic Y2xpZW50")
	}
	want := []string{"Bearer " + engineKey + " gateway the-gateway"}
	seen := e.paths()
	for _, path := range []string{"/metrics", "/v1/models", chat, "/v1/completions", "/v1/embeddings", "/tokenize", "/detokenize"} {
		if seen[path] == nil {
			t.Errorf("%s was not asked; asked are %v", path, seen)
		}
	}
	for path, shown := range seen {
		if !slices.Equal(shown, want) {
			t.Errorf("%s is shown %q, want %q", path, shown, want)
		}
	}
	if got := why(t, p, "big") + why(t, p, "small"); got != "; " && got != "" {
		t.Errorf("the backends are bad: %s", got)
	}
	if log := p.Log.String(); strings.Contains(log, engineKey) {
		t.Errorf("the log has the key:\n%s", log)
	}
}

func TestAnEngineWhoseCertificateDoesNotFitGetsNothingAndIsThePoolsFault(t *testing.T) {
	ca, other := certtest.New(t), certtest.New(t)
	for name, tc := range map[string]struct {
		server tls.Certificate
		tls    string // %q is the authority
		why    string
	}{
		"expired":       {ca.Issue(t, certtest.Leaf{Name: "vllm", Starts: -2 * time.Hour, Ends: -time.Hour}).TLS(t), "{ca_file: %q}", "certificate has expired"},
		"another name":  {ca.Issue(t, certtest.Leaf{Name: "vllm", Hosts: []string{"vllm.internal"}}).TLS(t), "{ca_file: %q}", "doesn't contain any IP SANs"},
		"a wrong name":  {ca.Issue(t, certtest.Leaf{Name: "vllm", Hosts: []string{"vllm.internal"}}).TLS(t), "{ca_file: %q, server_name: other.internal}", "not other.internal"},
		"another CA":    {other.Issue(t, certtest.Leaf{Name: "vllm"}).TLS(t), "{ca_file: %q}", "certificate signed by unknown authority"},
		"the system's":  {ca.Issue(t, certtest.Leaf{Name: "vllm"}).TLS(t), "{} # %q", "certificate signed by unknown authority"},
		"no client's":   {ca.Issue(t, certtest.Leaf{Name: "vllm"}).TLS(t), "{ca_file: %q}", "certificate required"},
		"without a tls": {ca.Issue(t, certtest.Leaf{Name: "vllm"}).TLS(t), "", "certificate signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			server := &tls.Config{Certificates: []tls.Certificate{tc.server}}
			if name == "no client's" {
				server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool
			}
			e := newGuardedEngine(t, server, engineKey)
			pool := fmt.Sprintf("\n    backends: [%q]\n    auth: {api_key_file: %q}\n", e.URL, apptest.File(t, "secret", engineKey))
			if tc.tls != "" {
				pool += "    tls: " + fmt.Sprintf(tc.tls, apptest.File(t, "secret", string(ca.PEM))) + "\n"
			}
			p := apptest.Serve(t, conf("pools:\n  big:\n    model: m%sroutes: [{model: r, target: big}]\n", pool))
			apptest.Eventually(t, "the status has the reason", func() bool {
				got := why(t, p, "big")
				return strings.Contains(got, tc.why) && strings.Contains(got, "(pools.big.tls)")
			})
			status, head, body := apptest.Send(t, "POST", p.URL+chat, chatBody("r"))
			if status != http.StatusBadGateway {
				t.Errorf("status %d: %s", status, body)
			}
			checkError(t, head, body, &refusal{kind: "server_error", code: "upstream_auth"})
			if seen := e.paths(); len(seen) > 0 {
				t.Errorf("the engine was asked: %v", seen)
			}
			if line := apptest.Lines(p.Log.String(), `"setting":"pools.big.tls"`); strings.Count(line, "\n") != 1 {
				t.Errorf("the log says: %q", line)
			}
		})
	}
}

func TestAWrongKeyIsThePoolsFaultAndIsSaidLoudly(t *testing.T) {
	e, other := newGuardedEngine(t, nil, engineKey), newGuardedEngine(t, nil, engineKey)
	key := apptest.File(t, "secret", wrongKey)
	p := apptest.ServeFile(t, apptest.File(t, "secret", oneRoute(fmt.Sprintf("backends: [%q, %q], auth: {api_key_file: %q}", e.URL, other.URL, key))))
	for _, r := range slices.Repeat([]struct{ path, body string }{
		{chat, chatBody("r")}, {chat, chatBody("r", `"stream":true`)}, {"/v1/embeddings", `{"model":"r","input":"hi"}`},
	}, 10) { // longer than breakers take to open
		status, head, body := apptest.Send(t, "POST", p.URL+r.path, r.body)
		if status != http.StatusBadGateway || head.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: status %d, X-Should-Retry %q: %s", r.path, status, head.Get("X-Should-Retry"), body)
		}
		checkError(t, head, body, &refusal{kind: "server_error", code: "upstream_auth", message: "your API key is not the cause"})
	}
	apptest.Eventually(t, "the status has the reason", func() bool {
		return strings.Contains(why(t, p, "big"), "the engine refuses the gateway's credentials with status 401 (pools.big.auth)")
	})
	apptest.Eventually(t, "a scrape was refused", func() bool { return strings.Contains(p.Metrics(t), "foregate_scrape_errors_total{") })
	page := p.Metrics(t)
	for _, series := range []string{`foregate_upstream_failures_total{kind="upstream_auth",pool="big"}`, `foregate_backend_refuses_credentials{`} {
		if line := apptest.Lines(page, series); line == "" || strings.HasSuffix(line, " 0\n") {
			t.Errorf("%s: %q", series, line)
		}
	}
	log := p.Log.String()
	if lines := apptest.Lines(log, "the setting is at fault"); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, `"setting":"pools.big.auth"`) || !strings.Contains(lines, `"level":"error"`) {
		t.Errorf("the log has, instead of one line:\n%s", lines)
	}
	if strings.Contains(log, wrongKey) || strings.Contains(fmt.Sprint(p.Status(t)), wrongKey) {
		t.Error("the log or the status has the key")
	}
	rotateFile(t, key, engineKey+"\n")
	apptest.Post(t, p.Admin+"/admin/reload", "")
	apptest.Within(t, 30*time.Second, "the right key is in force, and the breaker closed", func() bool {
		status, _, _ := apptest.Send(t, "POST", p.URL+chat, chatBody("r"))
		return status == http.StatusOK && strings.Trim(why(t, p, "big"), "; ") == ""
	})
	apptest.Eventually(t, "the metric is 0 again", func() bool {
		return !strings.Contains(apptest.Lines(p.Metrics(t), "foregate_backend_refuses_credentials{"), " 1\n")
	})
}

// engineOf starts a fast simulated engine that serves a model.
func engineOf(t testing.TB, model string) *vllmsim.Server {
	return vllmsim.Start(t, vllmsim.Options{Model: model, Profile: "h100-8b", TimeScale: 20})
}

func TestABackendThatServesAnotherModelCostsNoRequestAndTheStatusNamesIt(t *testing.T) {
	right, wrong := engineOf(t, "m"), engineOf(t, "other")
	p := apptest.Serve(t, oneRoute(fmt.Sprintf("backends: [%q, %q]", right.URL(), wrong.URL())))
	p.Ready(t)
	var failed atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for n := range 13 {
				status, _, body := apptest.Send(t, http.MethodPost, p.URL+chat, chatBody("r", `"max_tokens":8`, fmt.Sprintf(`"stream":%t`, n%2 == 0), fmt.Sprintf(`"seed":%d`, 100*i+n)))
				if status != http.StatusOK || strings.Contains(body, `"error"`) {
					failed.Add(1)
					t.Logf("status %d: %s", status, body)
				}
			}
		})
	}
	all.Wait()
	if n := failed.Load(); n != 0 {
		t.Errorf("%d of 208 requests failed, want 0", n)
	}
	if got := why(t, p, "big"); !strings.Contains(got, "serves another model than m, or not at /v1/chat/completions: status 404") {
		t.Errorf("the status says of the backends %q", got)
	}
	apptest.Eventually(t, "the breaker of the wrong one opens", func() bool { return len(p.Status(t).Breakers) == 1 })
	p.Stop(t)
}
