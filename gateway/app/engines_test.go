package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Routes of a probed world.
const (
	routeAble   = "able"   // its target can do everything
	routeBlind  = "blind"  // its target scores nothing; mode verify is set
	routeScored = "scored" // the same target, mode confidence
)

// abilities is a gateway whose targets differ in what they can do.
type abilities struct {
	*apptest.Replica
	draft, able, blind *vllmsim.Server
}

// newProbed starts three engines and a gateway, and waits until it knows them.
func newProbed(t *testing.T) *abilities {
	t.Helper()
	w := &abilities{}
	sim := func(divergence float64, without ...string) *vllmsim.Server {
		return vllmsim.Start(t, vllmsim.Options{Model: "m", Divergence: divergence, Seed: simSeed, TimeScale: simScale, Without: without})
	}
	w.draft, w.able, w.blind = sim(0.3), sim(0), sim(0, "prompt_logprobs")
	w.Replica = apptest.Serve(t, conf(`%spools:
  small: {model: m, backends: [%q]}
  large: {model: m, backends: [%q]}
  mute: {model: m, backends: [%q]}
routes:
  - {model: %s, draft: small, target: large}
  - {model: %s, draft: small, target: mute}
  - {model: %s, draft: small, target: mute}
`, withSettings(t, "speculation.mode", "confidence", "speculation.mode@"+routeBlind, "verify", "economy.guard", "off", "cache.mode", "off"),
		w.draft.URL(), w.able.URL(), w.blind.URL(), routeAble, routeBlind, routeScored))
	w.Ready(t)
	apptest.Within(t, 30*time.Second, "all engines are probed", func() bool {
		for _, pool := range []string{"small", "large", "mute"} {
			if e := w.engine(t, pool); e.Age < 0 || len(e.Open) > 0 {
				return false
			}
		}
		return true
	})
	return w
}

// engine is what it tells of a pool's engines.
func (a *abilities) engine(t *testing.T, pool string) gateway.EngineView {
	t.Helper()
	for _, e := range a.Status(t).Engines {
		if e.Pool == pool {
			return e
		}
	}
	t.Fatalf("nothing is told of the engines of %s", pool)
	return gateway.EngineView{}
}

// heard is an answer to one question.
type heard struct {
	code       int
	text       string
	acceptance string
	reason     string // an error's code
}

// asks puts a question to a route at a temperature; headers are names and values.
func (a *abilities) asks(t *testing.T, route, prompt string, temperature float64, headers ...string) (h heard) {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":60,"temperature":%g}`, route, prompt, temperature)
	code, head, text := apptest.Send(t, http.MethodPost, a.URL+chat, body, headers...)
	var decoded struct {
		Choices []struct{ Message struct{ Content string } }
		Error   struct{ Code string }
	}
	if err := json.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	h = heard{code: code, acceptance: head.Get("X-Acceptance"), reason: decoded.Error.Code}
	if len(decoded.Choices) > 0 {
		h.text = decoded.Choices[0].Message.Content
	}
	return h
}

func TestWhatEnginesCanDoIsFoundOutAndObeyed(t *testing.T) {
	w := newProbed(t)
	for _, d := range w.Status(t).Drafts {
		refused := map[string]string{}
		for _, m := range d.UnavailableModes {
			refused[m.Name] = m.Reason
		}
		if able := d.Route == routeAble; (refused["verify"] == "") != able || refused["confidence"] != "" {
			t.Errorf("route %s refuses %v", d.Route, refused)
		}
	}
	own := w.asks(t, routeBlind, "What is a fjord?", 0, "X-Tier", "target")
	got := w.asks(t, routeBlind, "What is a fjord?", 0)
	if got.code != http.StatusOK || got.acceptance != "bypassed;reason=target_without_scoring" || got.text == "" || got.text != own.text {
		t.Errorf("mode verify without scoring: %d, %s, %q; the target says %q", got.code, got.acceptance, got.text, own.text)
	}
	if got := w.asks(t, routeScored, "What is a fjord?", 0); got.code != http.StatusOK || strings.HasPrefix(got.acceptance, "bypassed") {
		t.Errorf("mode confidence at the same target: %d, %s", got.code, got.acceptance)
	}
	// A request may only ask for a stricter mode.
	const header = "X-Acceptance-Mode"
	drafted := 0
	for i := range 6 {
		prompt := fmt.Sprintf("Tell me of fjord %d.", i)
		own := w.asks(t, routeAble, prompt, 0, "X-Tier", "target")
		exact := w.asks(t, routeAble, prompt, 0, header, "exact")
		if exact.code != http.StatusOK || exact.text != own.text || !strings.Contains(exact.acceptance, ";mode=verify;rule=exact") {
			t.Errorf("exact: %d, %s, %q instead of %q", exact.code, exact.acceptance, exact.text, own.text)
		}
		target := w.asks(t, routeAble, prompt, 0, header, "target")
		if target.code != http.StatusOK || target.text != own.text || !strings.HasPrefix(target.acceptance, "bypassed;") {
			t.Errorf("target: %d, %s, %q instead of %q", target.code, target.acceptance, target.text, own.text)
		}
		usual, byDefault := w.asks(t, routeAble, prompt, 0), w.asks(t, routeAble, prompt, 0, header, "default")
		if usual != byDefault || usual.code != http.StatusOK || strings.Contains(usual.acceptance, "mode=") {
			t.Errorf("default: %+v, without the header %+v", byDefault, usual)
		}
		if strings.HasPrefix(usual.acceptance, "accepted") {
			drafted++
		}
	}
	if drafted == 0 {
		t.Error("no draft was kept by default, so that nothing was stricter")
	}
	if got := w.asks(t, routeAble, "Tell me more.", 1, header, "exact"); got.acceptance != "bypassed;reason=sampled" {
		t.Errorf("exact at temperature 1: %s", got.acceptance)
	}
	if got := w.asks(t, routeBlind, "Tell me more.", 0, header, "default"); got.acceptance != "bypassed;reason=target_without_scoring" {
		t.Errorf("default where the route verifies: %s", got.acceptance)
	}
	for _, mode := range []string{"nonsense", "lenient", "off"} {
		if got := w.asks(t, routeAble, "Tell me more.", 0, header, mode); got.code != http.StatusBadRequest || got.reason != "bad_header" {
			t.Errorf("%s: status %d, code %q", mode, got.code, got.reason)
		}
	}
}
