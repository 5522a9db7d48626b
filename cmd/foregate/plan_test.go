package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/loadtest/fleets"
	"github.com/foregate/foregate/loadtest/planner"
)

func TestAPlanOfALoadIsPrintedAndWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plan")
	var stdout, stderr bytes.Buffer
	code := run(strings.Fields("plan --rate 3 --prompt 200 --output 10 --for 80s --slo ttft_p99=2s --target llama-3.1-8b --draft none --prices market --seeds 1 --json --out "+dir), &stdout, &stderr)
	if code != 0 || !strings.Contains(stdout.String(), `"fleet": "1 × l4-8b-fp8"`) || !strings.Contains(stderr.String(), "Read a load that is described") {
		t.Fatalf("%d: %s%s", code, stdout.String(), stderr.String())
	}
	checks(t, dir)
	if code := run([]string{"check", filepath.Join(dir, "foregate.yaml")}, &stdout, &stderr); code != 0 {
		t.Errorf("foregate check: %d: %s", code, stderr.String())
	}
}

// checks reads the files of a plan: the chart's config is a configuration, but for what the chart adds.
func checks(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	head, own, ok := strings.Cut(string(text), "\nconfig:\n")
	if !ok || !strings.Contains(head, "replicaCount: 2") {
		t.Fatalf("values:\n%s", text)
	}
	own = strings.ReplaceAll("\n"+own, "\n  ", "\n")
	if _, err := config.Parse("values.yaml", []byte("listen: 127.0.0.1:8080\nadmin: 127.0.0.1:9090\n"+own)); err != nil {
		t.Errorf("%v in\n%s", err, own)
	}
}

func TestAPlanWithDraftsIsASoundConfiguration(t *testing.T) {
	prices, err := (&planFindCmd{Prices: "aws"}).prices()
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := planner.NewMarket("llama-3.1-70b", "llama-3.1-8b", prices)
	if err != nil {
		t.Fatal(err)
	}
	f := planner.Fleet{Name: "a fleet", Candidate: planner.Candidate{
		Target: fleets.Engines{Profile: "h100-70b-fp8-tp2", Count: 2}, Draft: fleets.Engines{Profile: "h100-8b-fp8", Count: 1}, Scarce: true,
	}}
	c := &planFindCmd{Out: t.TempDir(), Max: 0.05}
	if err := c.write(&env{stderr: new(bytes.Buffer)}, &m, &planner.Answer{Fleets: []planner.Fleet{f}}); err != nil {
		t.Fatal(err)
	}
	checks(t, c.Out)
	got, err := config.Load(filepath.Join(c.Out, "foregate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if target := got.Pools["target"]; len(target.Backends) != 2 || target.USDPerHour != 13.76 || got.Routes[0].Draft != "draft" {
		t.Errorf("%+v", got)
	}
	text, err := os.ReadFile(filepath.Join(c.Out, "foregate.yaml"))
	if err != nil || !strings.Contains(string(text), "foregate settings set -c foregate.yaml --because plan risk.max_disagreement=0.05 speculation.mode=risk speculation.when=scarce") {
		t.Errorf("%v:\n%s", err, text)
	}
}

func TestAPlanThatMakesNoSenseIsRefused(t *testing.T) {
	prices := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(prices, []byte("usd_per_gpu_hour: {H9: 1}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--rate 5 --prompt 100 --output 10":                                        "missing flags: --slo",
		"--slo ttft_p99=1s":                                                        "want a trace, or a load",
		"nothing.csv --slo ttft_p99=1s":                                            "nothing.csv: no such file",
		"nothing.csv --slo ttft_p99=1s --rate 5":                                   "without a trace",
		"--slo ttft=1s --rate 5 --prompt 100 --output 10":                          "want ttft_p50",
		"--slo ttft_p99=1s --rate 2 --prompt 100 --output 10 --for 1m":             "want 200 or more (--for 120s)",
		"--slo ttft_p99=1s --rate=-5 --prompt 100 --output 10":                     "--rate -5",
		"--slo ttft_p99=1s --rate 5 --prompt 100 --output 10 --prices " + prices:   `unknown GPU "H9"`,
		"--slo ttft_p99=1s --rate 5 --prompt 100 --output 10 --prices dear":        "neither aws, market nor a file",
		"--slo ttft_p99=1s --rate 5 --prompt 100 --output 10 --target llama-9":     "no profile has the model llama-9",
		"--slo ttft_p99=1s --rate 5 --prompt 100 --output 10 --growth 0":           "--growth 0",
		"--slo ttft_p99=1s --rate 5 --prompt 100 --output 10 --profiles " + prices: "want profiles as foregate plan measure writes them",
		"measure 127.0.0.1:1":                                                      "missing flags: --gpu",
		"measure 127.0.0.1:1 --gpu H100 --gpus=-1":                                 "--gpus -1",
		"measure 127.0.0.1:1 --gpu H100":                                           "want the URL of an engine with the OpenAI API",
		"--slo ttft_p99=1s --rate 5 --prompt 100 --output 10 --acceptance 0.3,1.5": "--acceptance 1.5",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"plan"}, strings.Fields(args)...), &stdout, &stderr); code == 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: %d, %q, want %q", args, code, stderr.String(), want)
		}
	}
}
