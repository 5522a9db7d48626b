package compose

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
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

	t.Run("replicas meet in Redis, by its users", func(t *testing.T) { s.meet(t, token) })
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
}

// meet waits until each replica knows of both through Redis.
func (s *stage) meet(t *testing.T, token http.Header) {
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
