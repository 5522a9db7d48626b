package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/llamatest"
	"github.com/foregate/foregate/tiers/dialect"
)

// realPair is a gateway in front of two real engines.
type realPair struct {
	*apptest.Replica
	draft, target *llamatest.Engine
	settings      func(nameAndValue ...string) // sets live settings
}

// newRealPair starts both engines and the gateway, and waits until it knows them. Options are of both engines.
func newRealPair(t *testing.T, o llamatest.Options) *realPair {
	t.Helper()
	p := &realPair{}
	o.Metrics = true
	o.Model = llamatest.Draft
	p.draft = llamatest.Start(t, o)
	o.Model = llamatest.Target
	p.target = llamatest.Start(t, o)
	store := miniredis.RunT(t)
	p.settings = func(all ...string) {
		for i := 0; i+1 < len(all); i += 2 {
			store.HSet("foregate:settings", all[i], all[i+1])
		}
	}
	p.settings("economy.guard", "off", "cache.mode", "off", "speculation.mode", "confidence")
	p.Replica = apptest.Serve(t, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools:
  small: {model: %s, backends: [%q]}
  large: {model: %s, backends: [%q]}
routes:
  - {model: m, draft: small, target: large}
drain: {delay: 0s, grace: 5s}
`, store.Addr(), p.draft.Model, p.draft.URL, p.target.Model, p.target.URL))
	p.Ready(t)
	apptest.Within(t, 30*time.Second, "both engines are probed", p.EnginesKnown)
	return p
}

// in waits until settings are in force.
func (p *realPair) in(t *testing.T, all ...string) {
	t.Helper()
	p.settings(all...)
	for i := 0; i+1 < len(all); i += 2 {
		apptest.Within(t, 10*time.Second, all[i]+" is in force", func() bool { return p.Setting(t, all[i]) == all[i+1] })
	}
}

// realAnswer is an answer of the gateway.
type realAnswer struct {
	id, text, acceptance string
}

func question(q string, tokens int) string {
	return fmt.Sprintf(`"messages":[{"role":"user","content":%q}],"temperature":0,"max_tokens":%d`, q, tokens)
}

// asks puts a question to the gateway at temperature 0 and reads the stream.
func (p *realPair) asks(t *testing.T, q string, tokens int) (a realAnswer) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,`+question(q, tokens)+`}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := apptest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	a.id, a.acceptance = resp.Header.Get("X-Request-Id"), resp.Header.Get("X-Acceptance")
	lines := bufio.NewScanner(resp.Body)
	done := false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if done = done || data == "[DONE]"; !ok || done {
			continue
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
			Error   json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || chunk.Error != nil {
			t.Fatalf("%v: %s", err, data)
		}
		for _, c := range chunk.Choices {
			a.text += c.Delta.Content
		}
	}
	if err := lines.Err(); err != nil || !done {
		t.Fatalf("the stream ended early: %v after %q", err, a.text)
	}
	return a
}

// told is an answer that an engine tells without a gateway.
type told struct {
	Choices []struct {
		Message  struct{ Content string }
		Finish   string `json:"finish_reason"`
		Logprobs struct {
			Content []struct {
				Token   string
				Logprob float64
				Top     []struct{ Logprob float64 } `json:"top_logprobs"`
			}
		}
	}
}

// tells asks an engine itself.
func tells(t *testing.T, e *llamatest.Engine, body string) (a told) {
	t.Helper()
	text, _ := apptest.Post(t, e.URL+"/v1/chat/completions", body)
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Choices) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	return a
}

// questions for which the answers of the pair differ.
var realQuestions = []string{
	"Why is the sky blue?", "Say OK.", "Name a colour.", "Hello there", "Count to three", "What is 2+2?", "How is bread baked?", "Who are you?",
	"Is water wet?", "Where does the wind come from?", "Tell a story.", "Why do cats purr?",
}

func TestARealEnginePairIsFoundOutByTheProbe(t *testing.T) {
	p := newRealPair(t, llamatest.Options{})
	status := p.Status(t)
	for _, pool := range []string{"small", "large"} {
		var found *gateway.EngineView
		for i := range status.Engines {
			if status.Engines[i].Pool == pool {
				found = &status.Engines[i]
			}
		}
		if found == nil || found.Age < 0 || found.Failed != "" || found.Scoring != "" {
			t.Fatalf("%s: %+v", pool, found)
		}
		if kind := p.Pool(pool).Snapshot()[0].Engine; kind != dialect.LlamaCpp || !found.Continues {
			t.Errorf("%s is %q, and continues from ids: %v", pool, kind, found.Continues)
		}
		for _, m := range found.Missing { // that it cannot score; it is probed as what it is at once
			if !slices.Contains([]string{"prompt_token_ids", "scoring"}, m.Name) {
				t.Errorf("%s lacks %s: %s", pool, m.Name, m.Reason)
			}
		}
	}
	unavailable := map[string]string{}
	for _, m := range status.Drafts[0].UnavailableModes {
		unavailable[m.Name] = m.Reason
	}
	if len(unavailable) != 1 || unavailable["verify"] == "" {
		t.Errorf("llama.cpp cannot score a text: it should lack verify alone, but lacks %v", unavailable)
	}
}

// realTokens is the number of tokens of an answer: words and punctuation marks.
func realTokens(text string) int {
	return strings.Count(text, " ") + strings.Count(text, ",") + strings.Count(text, ".")
}

// realReceipt is what a receipt tells of an answer that two engines made.
type realReceipt struct {
	Tier          string
	Continuations []struct{ Bytes int }
}

// receipt waits for the receipt of an answer.
func (p *realPair) receipt(t *testing.T, a realAnswer) (r realReceipt) {
	t.Helper()
	apptest.Eventually(t, "the receipt is there", func() bool {
		status, text := apptest.Get(t, p.Admin+"/admin/receipts/"+a.id)
		if status == http.StatusNotFound {
			return false
		}
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%d, %v: %s", status, err, text)
		}
		return true
	})
	return r
}

func TestTheTargetOfARealEnginePairContinuesInMidAnswerAsItWouldByItself(t *testing.T) {
	p := newRealPair(t, llamatest.Options{})
	p.in(t, "speculation.holdback_tokens", "8", "speculation.threshold_nats", "-0.1")
	const tokens = 80
	mixed := 0
	for _, q := range realQuestions {
		a := p.asks(t, q, tokens)
		r := p.receipt(t, a)
		if r.Tier != "mixed" {
			continue
		}
		mixed++
		drafted := a.text[:r.Continuations[0].Bytes]
		if own := tells(t, p.draft, `{`+question(q, tokens)+`}`).Choices[0].Message.Content; !strings.HasPrefix(own, drafted[:strings.LastIndexByte(drafted, ' ')]) {
			t.Errorf("%q: %q is not from the draft's answer %q", q, drafted, own)
		}
		// From ids the target goes on behind them; from a text it says the last word anew.
		var wanted []string
		for _, cut := range []string{drafted, drafted[:strings.LastIndexByte(drafted, ' ')]} {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q},{"role":"assistant","content":%q}],"temperature":0,"max_tokens":%d}`, q, cut, tokens-realTokens(cut))
			wanted = append(wanted, cut+tells(t, p.target, body).Choices[0].Message.Content)
		}
		if !slices.Contains(wanted, a.text) {
			t.Errorf("%q: after %q the answer is %q, with the target by itself %q", q, drafted, a.text, wanted)
		}
	}
	if mixed < 3 {
		t.Errorf("%d answers of %d were continued by the target", mixed, len(realQuestions))
	}
}

func TestAHangUpReachesARealEngine(t *testing.T) {
	p := newRealPair(t, llamatest.Options{Pause: 20 * time.Millisecond, Window: 1024})
	p.in(t, "speculation.mode", "off")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"ignore_eos":true,"max_tokens":900,"messages":[{"role":"user","content":"Tell a story."}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := apptest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // the client has left
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	busy := func() (n int) {
		for _, s := range p.target.Slots(t) {
			if s.Processing {
				n++
			}
		}
		return n
	}
	if busy() != 1 {
		t.Fatalf("%d slots of the engine are busy", busy())
	}
	leave()
	apptest.Within(t, 2*time.Second, "the engine is idle again", func() bool { return busy() == 0 })
}
