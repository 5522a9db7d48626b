// Package agents tests that coding agents, unmodified, work with the gateway: five turns with tool calls on the simulator, whose
// model's answers are given, and one turn of plain text on a real engine. make agents runs it without a network but loopback.
package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foregate/foregate/clients/programs"
)

// routes are the modes that agents work in, each a route.
var routes = []string{"risk", "off"}

// gatewayBefore is a gateway before a draft and a target, with a route for each mode.
func gatewayBefore(t *testing.T, draft, target, model string) *programs.Gateway {
	t.Helper()
	redis := programs.Redis(t)
	g := programs.StartGateway(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: %q}
pools:
  small: {model: %s, backends: [%q]}
  large: {model: %s, backends: [%q]}
routes:
  - {model: risk, draft: small, target: large, same_tokenizer: true}
  - {model: "off", draft: small, target: large, same_tokenizer: true}
drain: {delay: 0s, grace: 5s}
`, redis, model, draft, model, target))
	programs.Run(t, "settings", "set", "--redis", redis, "--because", "a test", "speculation.mode@risk=risk", "speculation.mode@off=off",
		"speculation.max_prompt_tokens=100000", "timeout.draft_first_token=9m", "timeout.target_first_token=9m") // a real engine on two busy processors
	programs.Within(t, programs.StartWait, "both pools were probed and the settings are in force", func() bool {
		_, page := programs.Get(t, g.Admin+"/metrics")
		_, status := programs.Get(t, g.Admin+"/admin/status")
		return strings.Count(page, "\nforegate_probe_missing{capability=\"logprobs\",") == 2 && !strings.Contains(page, "{capability=\"logprobs\",pool=\"small\"} 1") && strings.Contains(status, "speculation.mode@off")
	})
	return g
}

// simulated is a gateway before simulators that give the answers.
func simulated(t *testing.T, answers []call) *programs.Gateway {
	t.Helper()
	raw, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "answers.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	common := []string{"--answers", file, "--time-scale", "20", "--enable-prompt-tokens-details"}
	return gatewayBefore(t, programs.StartSimulator(t, append(common, "--divergence", "0.3")...), programs.StartSimulator(t, append(common, "--profile", "h100-70b-tp4")...), "sim")
}

func TestAgentsWorkThroughFiveTurns(t *testing.T) {
	for _, p := range []program{claude, codex} {
		for _, route := range routes {
			t.Run(p.name+" "+route, func(t *testing.T) {
				s := p.begin(t, route)
				g := simulated(t, p.answers(s.file()))
				s.wire = newWire(t, g.URL)
				for i, turn := range turns {
					if said := p.turn(t, s, turn.prompt, i == 0); said != turn.says {
						t.Fatalf("turn %d: it says %q, want %q\n%s", i+1, said, turn.says, s.wire.summary())
					}
				}
				if text, err := os.ReadFile(s.file()); err != nil || string(text) != "alpha\ngamma\n" {
					t.Errorf("the file holds %q, %v", text, err)
				}
				s.checkExchanges(t, g)
				record(t, s)
			})
		}
	}
}

// TestAgentsGetPlainTextOfARealEngine asks one turn of llama.cpp, whose model of 135M parameters calls no tools. Its answers end at the
// first mark, as the model would go on to its limit. In mode risk the target answers: llama.cpp gives no scores that a draft with tools needs.
func TestAgentsGetPlainTextOfARealEngine(t *testing.T) {
	const model = "smol"
	g := gatewayBefore(t, realEngine(t, "smol-q4_1-draft.gguf", model), realEngine(t, "smol-q4_1.gguf", model), model)
	for _, p := range []program{claude, codex} {
		s := p.begin(t, "") // both routes in one folder: its path is in the prompt, which the engine then reads once
		for _, route := range routes {
			t.Run(p.name+" "+route, func(t *testing.T) {
				s.wire, s.route = newWire(t, g.URL), route
				said := p.turn(t, s, "Say hello.", true)
				t.Logf("it says %q", said)
				if strings.TrimSpace(said) == "" {
					t.Errorf("it says nothing\n%s", s.wire.summary())
				}
				for _, e := range s.wire.exchanges() {
					t.Logf("%s %d, %s", e.Path, e.Status, e.Judged)
					if e.Status != http.StatusOK || e.Path == p.path && !bytes.Contains(e.Answer, []byte(p.whole)) {
						t.Errorf("%s %s: %d %s", e.Method, e.Path, e.Status, e.Answer)
					}
				}
			})
		}
	}
}

// realEngine starts llama.cpp with room for an agent's prompt, and returns its URL.
func realEngine(t *testing.T, weights, model string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String()) // it is one
	_ = l.Close()                                      // for the engine
	start, err := filepath.Abs(filepath.Join("..", "..", "engines", "start"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(start, "llamacpp", weights, port, model, "--slots", "2", "--window", "8192", "--stop", ".", "--stop", ",")
	var out programs.Output
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	programs.Within(t, programs.StartWait, "llama.cpp serves", func() bool {
		status, _ := programs.Get(t, "http://127.0.0.1:"+port+"/health")
		return status == http.StatusOK
	})
	return "http://127.0.0.1:" + port
}

// checkExchanges holds that nothing was refused, every answer is whole, and the last request tells the whole conversation.
func (s *session) checkExchanges(t *testing.T, g *programs.Gateway) {
	t.Helper()
	all, asked := s.wire.exchanges(), 0
	var last []byte
	for _, e := range all {
		if e.Status != http.StatusOK {
			t.Errorf("%s %s: %d %.300s", e.Method, e.Path, e.Status, e.Answer)
		}
		if e.Path != s.path {
			continue
		}
		if asked++; !bytes.Contains(e.Answer, []byte(s.whole)) {
			t.Errorf("an answer is not whole: %s", e.Answer)
		}
		if len(e.Body) > len(last) {
			last = e.Body
		}
	}
	if want := len(script(make([]call, len(turns)-1)...)); asked < want {
		t.Errorf("%d requests, want %d at least", asked, want)
	}
	for _, turn := range turns[:len(turns)-1] {
		if !bytes.Contains(last, []byte(turn.prompt)) || !bytes.Contains(last, []byte(turn.says)) {
			t.Errorf("the last request has lost the turn %+v: %s", turn, last)
		}
	}
	if !bytes.Contains(last, []byte("alpha")) {
		t.Errorf("the last request has no tool's result: %s", last)
	}
	_, page := programs.Get(t, g.Admin+"/metrics")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "foregate_requests_total{") && !strings.Contains(line, `code="200"`) {
			t.Errorf("the gateway has refused: %s", line)
		}
	}
}

// summary is one line for each exchange.
func (w *wire) summary() string {
	var b strings.Builder
	for _, e := range w.exchanges() {
		fmt.Fprintf(&b, "%s %s %d: %d bytes: …%s\nanswer …%s\n", e.Method, e.Path, e.Status, len(e.Body), e.Body[max(0, len(e.Body)-2500):], e.Answer[max(0, len(e.Answer)-900):])
	}
	return b.String()
}
