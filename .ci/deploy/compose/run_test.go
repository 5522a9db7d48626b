package compose

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// bearer is how a caller shows a secret.
func (s *stage) bearer(t *testing.T, secret string) http.Header {
	t.Helper()
	return http.Header{"Authorization": {"Bearer " + s.secret(t, secret)}}
}

// get asks a service, and fails the test on anything but 200.
func (s *stage) get(t *testing.T, url string, header http.Header) string {
	t.Helper()
	r, err := s.ask(t.Context(), http.MethodGet, url, "", header)
	if err != nil || r.status != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", url, r.status, err, r.body)
	}
	return r.body
}

// chat is a question; no two with different words are the same to the cache.
func chat(words string, stream bool) string {
	return fmt.Sprintf(`{"model":"llama-3","stream":%t,"max_tokens":32,"temperature":0,"messages":[{"role":"user","content":%q}]}`, stream, words)
}

// The commands of docker-compose.yml, with its files, as processes; the times are Docker's health
// checks' own. It takes some 15 s, and the build of the programs.
func TestTheComposeFileRunsAsProcesses(t *testing.T) {
	for _, program := range []string{"redis-server", "redis-cli", "haproxy", "wget"} {
		need(t, program)
	}
	s := newStage(t)
	s.start(t, "balancer") // and what it depends on, in order
	s.healthy(t, "balancer")
	api, key, token := s.url("balancer:8080", "/v1/chat/completions"), s.bearer(t, "api-key"), s.bearer(t, "token-operator")

	t.Run("replicas meet in Redis, by its users", func(t *testing.T) {
		for _, g := range []string{"gateway-1", "gateway-2"} {
			s.eventually(t, g+" knows of both", func() bool {
				var status struct {
					Replicas []string `json:"replicas"`
					Redis    struct {
						Level string `json:"level"`
					} `json:"redis"`
				}
				if err := json.Unmarshal([]byte(s.get(t, s.url(g+":9090", "/admin/status"), token)), &status); err != nil {
					t.Fatal(err)
				}
				return len(status.Replicas) == 2 && status.Redis.Level == "shared"
			})
		}
	})
	t.Run("the configuration passes foregate check", func(t *testing.T) { s.checkConfig(t) })
	t.Run("who has no key is refused", func(t *testing.T) {
		for _, c := range []struct {
			url    string
			header http.Header
		}{{api, nil}, {api, token}, {s.url("gateway-1:9090", "/admin/drain?backend=x"), nil}, {s.url("gateway-1:9090", "/admin/drain?backend=x"), key}} {
			r, err := s.ask(t.Context(), http.MethodPost, c.url, chat("who is there?", false), c.header)
			if err != nil || r.status != http.StatusUnauthorized {
				t.Errorf("%s: status %d, %v: %s", c.url, r.status, err, r.body)
			}
		}
		r, err := s.ask(t.Context(), http.MethodPost, s.url("gateway-1:9090", "/admin/drain?backend=x"), "{}", s.bearer(t, "token-prometheus"))
		if err != nil || r.status != http.StatusForbidden {
			t.Errorf("Prometheus drains: status %d, %v: %s", r.status, err, r.body)
		}
	})
	t.Run("answers and streams come through the balancer", func(t *testing.T) { s.converse(t, api, key) })
	t.Run("an answer that one replica kept is given by the other", func(t *testing.T) { s.shareAnAnswer(t, key) })
	t.Run("an operator changes settings", func(t *testing.T) { s.operate(t) })
	t.Run("Prometheus reads both replicas", func(t *testing.T) { s.watch(t) })
	t.Run("a replica that is stopped loses no request", func(t *testing.T) { s.roll(t, api, key) })
}

// checkConfig holds that the file that secrets.sh makes is as the program wants it.
func (s *stage) checkConfig(t *testing.T) {
	file := filepath.Join(s.dir, "gateway-1", "etc/foregate/foregate.yaml")
	out, err := exec.CommandContext(t.Context(), filepath.Join(s.bin, "foregate"), "check", file).CombinedOutput()
	if err != nil || strings.Contains(string(out), "warning") {
		t.Errorf("%v: %s", err, out)
	}
}

// converse asks for an answer, and for a stream that must come as it is made.
func (s *stage) converse(t *testing.T, api string, key http.Header) {
	asked := key.Clone()
	asked.Set("X-Request-ID", "compose-test-1")
	r, err := s.ask(t.Context(), http.MethodPost, api, chat("Why is the sky blue?", false), asked)
	if err != nil || r.status != http.StatusOK || !strings.Contains(r.body, `"finish_reason"`) {
		t.Fatalf("status %d, %v: %s", r.status, err, r.body)
	}
	if got := r.header.Get("X-Request-ID"); got != "compose-test-1" {
		t.Errorf("the request's id came back as %q", got)
	}

	began := time.Now()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api, strings.NewReader(chat("Why is the sea salt?", true)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = key.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var first, last time.Duration
	events, done := 0, false
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if events++; events == 1 {
				first = time.Since(began)
			}
			last, done = time.Since(began), data == "[DONE]"
		}
	}
	if resp.StatusCode != http.StatusOK || !done || events < 10 {
		t.Fatalf("status %d, %d events, whole: %v", resp.StatusCode, events, done)
	}
	// 31 tokens after the first take the simulated engine most of a second; what is held back comes all at once.
	if last-first < 100*time.Millisecond {
		t.Errorf("the first event came after %v and the last after %v", first, last)
	}
}

// shareAnAnswer asks both replicas the same, one after the other.
func (s *stage) shareAnAnswer(t *testing.T, key http.Header) {
	body := chat("What does the other replica know?", false)
	first, err := s.ask(t.Context(), http.MethodPost, s.url("gateway-1:8080", "/v1/chat/completions"), body, key)
	if err != nil || first.status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", first.status, err, first.body)
	}
	s.eventually(t, "the other has it from Redis", func() bool {
		r, err := s.ask(t.Context(), http.MethodPost, s.url("gateway-2:8080", "/v1/chat/completions"), body, key)
		return err == nil && r.header.Get("X-Cache") == "HIT"
	})
}

// operate changes a setting as the user of redis.settings_url.
func (s *stage) operate(t *testing.T) {
	config := read(t, filepath.Join(s.dir, "gateway-1", "etc/foregate/foregate.yaml"))
	m := regexp.MustCompile(`settings_url: redis://operator@(\S+)`).FindStringSubmatch(config)
	if m == nil {
		t.Fatal("there is no settings_url")
	}
	redis := "redis://operator:" + s.secret(t, "redis-operator") + "@" + m[1]
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.bin, "foregate"), "settings", "set", "--redis", redis, "--because", "a test", "shed.low=0.8")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	token := s.bearer(t, "token-operator")
	for _, g := range []string{"gateway-1", "gateway-2"} {
		s.eventually(t, g+" obeys", func() bool {
			return regexp.MustCompile(`"shed.low","value":"0.8"`).MatchString(s.get(t, s.url(g+":9090", "/admin/settings"), token))
		})
	}
}

// watch starts Prometheus with the compose file's flags and the repository's configuration.
func (s *stage) watch(t *testing.T) {
	promtool := need(t, "promtool")
	need(t, "prometheus")
	s.start(t, "prometheus")
	config := filepath.Join(s.dir, "prometheus", "etc/prometheus/prometheus.yml")
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "config", config).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	s.healthy(t, "prometheus")
	up := s.url("prometheus:9090", "/api/v1/query?query="+url.QueryEscape(`count(up{job="foregate"} == 1)`))
	s.eventually(t, "both replicas are up", func() bool { return strings.Contains(s.get(t, up, nil), `,"2"]`) },
		func() string { return s.get(t, s.url("prometheus:9090", "/api/v1/targets"), nil) })
	engines := s.url("prometheus:9090", "/api/v1/query?query="+url.QueryEscape(`count(vllm:num_requests_running) + count(vllm:kv_cache_usage_perc)`))
	s.eventually(t, "two drafts and a target tell of themselves", func() bool { return strings.Contains(s.get(t, engines, nil), `,"6"]`) },
		func() string { return s.get(t, s.url("prometheus:9090", "/api/v1/targets"), nil) })
	var rules struct {
		Data struct {
			Groups []struct{ Name string } `json:"groups"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(s.get(t, s.url("prometheus:9090", "/api/v1/rules"), nil)), &rules); err != nil || len(rules.Data.Groups) == 0 {
		t.Errorf("no rules are loaded: %v", err)
	}
}

// roll stops a replica under requests: the balancer must hear of it before it stops accepting.
func (s *stage) roll(t *testing.T, api string, key http.Header) {
	p := s.running["gateway-1"]
	asked := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			r, err := s.ask(t.Context(), http.MethodPost, api, chat(fmt.Sprintf("Question %d?", n), n%2 == 0), key)
			if err != nil || r.status != http.StatusOK || n%2 == 0 && !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
				asked <- fmt.Errorf("request %d: status %d, %v: %s", n, r.status, err, r.body)
				return
			}
		}
		asked <- nil
	}()
	s.stop(t, "gateway-1") // SIGTERM; drain.delay is 5 s
	cancel()
	if err := <-asked; err != nil {
		t.Error(err)
	}
	if p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the replica ended with %d", p.cmd.ProcessState.ExitCode())
	}
	r, err := s.ask(t.Context(), http.MethodPost, api, chat("And now?", false), key)
	if err != nil || r.status != http.StatusOK {
		t.Errorf("with one replica: status %d, %v: %s", r.status, err, r.body)
	}
}
