package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/engines"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// launchPair starts the demonstration in front of two engines, and waits until it has said everything.
func launchPair(t *testing.T, draft, target string, args ...string) *demoWorld {
	t.Helper()
	d := launchDemo(t, append([]string{"--draft", draft, "--target", target}, args...)...)
	apptest.Within(t, startWait, "it has said how to operate it", func() bool {
		return strings.Contains(d.log.String(), "Ctrl-C stops the gateway; your engines go on running.")
	})
	return d
}

// chat asks the demonstration once.
func (d *demoWorld) chat(body string) (http.Header, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.requests, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		d.t.Fatalf("%s, %v: %s", resp.Status, err, text)
	}
	return resp.Header, string(text)
}

func TestTheDemonstrationRunsInFrontOfTwoEnginesThatRunAlready(t *testing.T) {
	sim := func(model string) string {
		return vllmsim.Start(t, vllmsim.Options{Model: model, Seed: 1, TimeScale: 50}).URL()
	}
	d := launchPair(t, sim("small"), sim("large"))
	said := d.log.String()
	for _, want := range []string{"  small  (", "  large  (", "risk         works", "verify       works", "console    http://"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q was not said:\n%s", want, said)
		}
	}
	header, text := d.chat(`{"model":"demo","max_tokens":20,"messages":[{"role":"user","content":"Why do cats purr?"}]}`)
	if header.Get("X-Tier") == "" || !strings.Contains(text, `"model":"demo"`) {
		t.Errorf("%v: %s", header, text)
	}
	command := regexp.MustCompile(`bin/foregate (settings set .*)\n`).FindStringSubmatch(said)
	if command == nil {
		t.Fatalf("it says no command that changes the mode:\n%s", said)
	}
	if status, _, errs := call(t, strings.Fields(strings.ReplaceAll(command[1], "'more drafts'", "more"))...); status != 0 {
		t.Error(errs)
	}
	apptest.Within(t, startWait, "the mode is in force", func() bool {
		_, out, _ := call(t, "status", "--admin", d.base)
		return regexp.MustCompile(`speculation\.mode@demo +confidence`).MatchString(out)
	})
	if strings.Contains(d.log.String(), "(simulated") {
		t.Error("it started simulators")
	}
}

func TestTheDemonstrationRunsInFrontOfARealPair(t *testing.T) {
	draft := engines.Start(t, engines.Options{Kind: engines.LlamaCpp, Model: engines.LlamaDraft, Name: "smol-draft"})
	target := engines.Start(t, engines.Options{Kind: engines.LlamaCpp, Model: engines.LlamaTarget, Name: "smol-target"})
	d := launchPair(t, draft.URL, target.URL)
	said := d.log.String()
	for _, want := range []string{"  smol-draft  (", "  smol-target  (", "risk         works", "verify       not available: pool target: "} {
		if !strings.Contains(said, want) {
			t.Errorf("%q was not said:\n%s", want, said)
		}
	}
	header, text := d.chat(`{"model":"demo","max_tokens":20,"temperature":0,"messages":[{"role":"user","content":"What is the capital of France?"}]}`)
	if accepted := header.Get("X-Acceptance"); !strings.Contains(accepted, "mode=risk") || !strings.Contains(text, `"usage":{"completion_tokens":`) {
		t.Errorf("%s: %s", accepted, text)
	}
}
