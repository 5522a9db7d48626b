package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestAPairIsMeasuredIntoAPageAndAFile(t *testing.T) {
	draft := vllmsim.Start(t, vllmsim.Options{Model: "small", Seed: 1, TimeScale: 100, Divergence: .3}).URL()
	target := vllmsim.Start(t, vllmsim.Options{Model: "large", Seed: 1, TimeScale: 100}).URL()
	out := filepath.Join(t.TempDir(), "new")
	status, stdout, errs := program("proof-live", "--draft", draft, "--target", target+"/v1", "--same-tokenizer", "--requests", "4", "--max-tokens", "24", "--out", out)
	if status != 0 || !strings.Contains(stdout, "Right answers") {
		t.Fatalf("status %d: %s%s", status, stdout, errs)
	}
	page, err := os.ReadFile(filepath.Join(out, "proof-live.md"))
	if err != nil || !strings.Contains(string(page), "small (draft) and large (target)") || strings.Contains(string(page), target) {
		t.Errorf("%v: %s", err, page)
	}
	text, err := os.ReadFile(filepath.Join(out, "proof-live.json"))
	var reports []struct {
		Ways []struct{ Answers int }
	}
	if err != nil || json.Unmarshal(text, &reports) != nil || len(reports) != 1 || len(reports[0].Ways) != 4 || reports[0].Ways[0].Answers != 4 {
		t.Errorf("%v: %s", err, text)
	}
}

func TestMistakesOfPairsAreToldBeforeAnEngineStarts(t *testing.T) {
	for _, args := range [][]string{{"--requests", "0"}, {"--minutes", "0"}, {"--only", "far"}} {
		if status, out, errs := program(append([]string{"pair", "--out", t.TempDir()}, args...)...); status != 2 || out != "" || !strings.Contains(errs, args[0]) {
			t.Errorf("%v: status %d, %q, %q; want 2 and the flag", args, status, out, errs)
		}
	}
}

func TestMistakesOfALiveProofAreToldBeforeAnythingIsAsked(t *testing.T) {
	pair := []string{"proof-live", "--draft", "http://127.0.0.1:1", "--target", "http://127.0.0.1:2", "--out", t.TempDir()}
	for _, args := range [][]string{
		{"--requests", "0"}, {"--minutes", "-1"}, {"--clients", "17"}, {"--max-tokens", "1"},
		{"--draft-usd-per-million", "1"}, {"--target-usd-per-million", "1,x"}, {"--target-usd-per-million", "0,1"}, {"--target-usd-per-million", "NaN,1"},
	} {
		if status, out, errs := program(append(pair, args...)...); status != 2 || out != "" || !strings.Contains(errs, args[0]) {
			t.Errorf("%v: status %d, %q, %q; want 2 and the flag", args, status, out, errs)
		}
	}
	if status, _, errs := program(pair...); status != 1 || !strings.Contains(errs, "--draft: no engine answers at http://127.0.0.1:1") {
		t.Errorf("status %d: %s", status, errs)
	}
}

func TestEnginesWithAPIKeysAreMeasuredWithTheirKeyFiles(t *testing.T) {
	draft := vllmsim.Start(t, vllmsim.Options{Model: "small", Seed: 1, TimeScale: 100, APIKeys: []string{"key-of-the-draft"}}).URL()
	target := vllmsim.Start(t, vllmsim.Options{Model: "large", Seed: 1, TimeScale: 100, APIKeys: []string{"key-of-the-target"}}).URL()
	dir := t.TempDir()
	args := []string{"proof-live", "--draft", draft, "--target", target, "--requests", "2", "--max-tokens", "24", "--out", dir}
	for _, who := range []string{"draft", "target"} {
		file := filepath.Join(dir, who+".key")
		if err := os.WriteFile(file, []byte("key-of-the-"+who+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--"+who+"-key-file", file)
	}
	status, out, errs := program(args...)
	if status != 0 || !strings.Contains(out, "Right answers") || strings.Contains(out, "key-of") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}
