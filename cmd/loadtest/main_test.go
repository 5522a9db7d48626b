package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

const small = `
about: |
  A small cascade. It shows little.
kind: virtual
duration: 10s
arrivals: {rate: 4}
prompts: [{name: chat, question: 20, max_tokens: 20}]
draft: {profile: a10g-8b, divergence: 0.2}
target: {profile: h100-70b-tp4}
compare:
  - {name: cascade}
  - {name: "target alone", settings: {speculation.mode: "off"}}
`

// world puts scenarios into a folder of its own, and goes there.
func world(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// program runs it.
func program(args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(args, &out, &errs)
	return status, out.String(), errs.String()
}

// report is what --json prints.
type report struct {
	Scenario string
	Seed     uint64
	Kind     string
	Rows     []loadtest.Row
}

func TestARunPrintsATable(t *testing.T) {
	world(t, map[string]string{"small.yaml": small})
	status, out, errs := program("run", "small")
	if status != 0 || !strings.Contains(out, "small — virtual run, seed 1") || !strings.Contains(out, "target alone") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}

func TestJSONIsAllThatGoesToTheStandardOutput(t *testing.T) {
	world(t, map[string]string{"small.yaml": small})
	status, out, errs := program("run", filepath.Join(folder, "small.yaml"), "--json", "--seed", "9", "--case", "target alone", "--duration", "5s")
	var r report
	if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil {
		t.Fatalf("status %d, %v\n%s%s", status, err, out, errs)
	}
	if r.Seed != 9 || r.Kind != "virtual" || len(r.Rows) != 1 || r.Rows[0].Name != "target alone" || r.Rows[0].Requests != 20 {
		t.Errorf("%+v", r)
	}
}

func TestSeveralSeedsAreSummedUp(t *testing.T) {
	world(t, map[string]string{"small.yaml": strings.Replace(small, "rate", "poisson", 1)})
	status, out, errs := program("run", "small", "--seeds", "3")
	if status != 0 || !strings.Contains(out, "deviation of 3 seeds, 1 to 3") || !strings.Contains(out, "ttft_p50_ms") || !strings.Contains(out, " ± ") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	_, out, _ = program("run", "small", "--seeds", "3", "--json")
	var all []report
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 3 || all[2].Seed != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestATargetIsMeasuredFromOutside(t *testing.T) {
	world(t, map[string]string{"small.yaml": small})
	sim := vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 20})
	status, out, errs := program("run", "small", "--json", "--case", "cascade", "--target", sim.URL()+"/v1", "--model", "m",
		"--time-scale", "20", "--api-key", "secret")
	var r report
	if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil {
		t.Fatalf("status %d, %v\n%s%s", status, err, out, errs)
	}
	if r.Kind != "live" || len(r.Rows) != 1 || r.Rows[0].Requests != 40 || r.Rows[0].Errors != 0 {
		t.Errorf("%+v", r)
	}
	if n := sim.State().Finished; n != 40 {
		t.Errorf("%d requests came", n)
	}
}

func TestMistakesAreToldApartFromFailures(t *testing.T) {
	world(t, map[string]string{"small.yaml": small, "bad.yaml": "duration: never\n"})
	t.Setenv("PATH", "")
	for _, tc := range []struct {
		args   string
		status int
		say    string
	}{
		{"", 2, "run"},
		{"run", 2, "<scenario>"},
		{"run small --frobnicate", 2, "--frobnicate"},
		{"run small --live --virtual", 2, "--virtual"},
		{"run small --virtual --target http://127.0.0.1:1", 2, "--target"},
		{"run small --target http://127.0.0.1:1 --gateway x", 2, "--gateway"},
		{"run small --model m", 2, "--target"},
		{"run small --virtual --time-scale 5", 2, "--live"},
		{"run small --live --time-scale 5000", 2, "0.1 to 1000"},
		{"run small --live --time-scale nan", 2, "0.1 to 1000"},
		{"run small --target gateway:8080", 2, "want a URL such as"},
		{"run small --seeds 0", 2, "--seeds"},
		{"run small --case nobody", 2, "it has cascade, target alone"},
		{"run small --duration 0s --case nobody", 2, "nobody"},
		{"run nothing", 1, "there is no scenario nothing"},
		{"run bad", 1, "bad.yaml:1"},
		{"run small --live", 1, "run make build, or use --gateway PATH"},
		{"run small --live --gateway nowhere/foregate", 1, "install redis-server"},
		{"check small", 1, "small"},
	} {
		status, out, errs := program(strings.Fields(tc.args)...)
		if status != tc.status || !strings.Contains(errs, tc.say) || out != "" {
			t.Errorf("%s: status %d, want %d with %q\n%s%s", tc.args, status, tc.status, tc.say, out, errs)
		}
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestAResultThatCouldNotBeWrittenIsAFailure(t *testing.T) {
	world(t, map[string]string{"small.yaml": small})
	for _, args := range [][]string{{"run", "small"}, {"run", "small", "--json"}, {"list"}} {
		var errs bytes.Buffer
		if status := runCtx(t.Context(), args, full{}, &errs); status != 1 || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: status %d, %s", args, status, errs.String())
		}
	}
}

func TestATargetThatAnswersNothingIsAFailure(t *testing.T) {
	world(t, map[string]string{"small.yaml": small})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	status, out, errs := program("run", "small", "--target", "http://"+l.Addr().String(), "--case", "cascade", "--duration", "1s")
	if status != 1 || !strings.Contains(errs, "answered nothing") || !strings.Contains(out, "Errors") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}

func TestARunThatIsInterruptedSaysSo(t *testing.T) {
	world(t, map[string]string{"small.yaml": small})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if status := runCtx(ctx, []string{"run", "small"}, &out, &errs); status != 1 || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("status %d\n%s%s", status, out.String(), errs.String())
	}
}

func TestScenariosAreListedWithTheirFirstSentence(t *testing.T) {
	world(t, map[string]string{"small.yaml": small, "a.yaml": strings.Replace(small, "A small", "Another", 1), "smoke.yaml": strings.Replace(small, "A small", "My own", 1)})
	status, out, _ := program("list")
	for _, want := range []string{"a  ", "Another cascade.\n", "small  ", "A small cascade.\n", "risk-day  ", "My own cascade.\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q", want)
		}
	}
	if status != 0 || strings.Count(out, "smoke ") != 1 || strings.Index(out, "Another") > strings.Index(out, "agree") {
		t.Errorf("status %d\n%s", status, out)
	}
}

func TestBuiltInScenariosRunWhereThereAreNoSources(t *testing.T) {
	t.Chdir(t.TempDir())
	if status, out, errs := program("list"); status != 0 || strings.Count(out, "\n") != len(loadtest.Names()) {
		t.Errorf("list: status %d\n%s%s", status, out, errs)
	}
	if status, out, errs := program("run", "smoke", "--virtual", "--json"); status != 0 || !strings.Contains(out, `"smoke"`) {
		t.Errorf("run smoke: status %d\n%s%s", status, out, errs)
	}
	if status, _, errs := program("run", "../scenarios/smoke"); status != 1 || !strings.Contains(errs, "there is no scenario") {
		t.Errorf("a path is none of their names: status %d, %s", status, errs)
	}
}

func TestEveryFileIsChecked(t *testing.T) {
	world(t, map[string]string{"small.yaml": small, "bad.yaml": "duration: never\n", "odd.yaml": strings.Replace(small, "h100-70b-tp4", "abacus", 1)})
	in := func(name string) string { return filepath.Join(folder, name) }
	status, out, errs := program("check", in("bad.yaml"), in("small.yaml"), in("odd.yaml"))
	if status != 1 || !strings.Contains(out, "small.yaml: sound; cases: cascade, target alone") ||
		!strings.Contains(errs, "bad.yaml:1") || !strings.Contains(errs, `unknown profile "abacus"`) {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	if status, _, _ := program("check", in("small.yaml")); status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestTheCommandCanBeRepeatedAndTellsNoKey(t *testing.T) {
	got := command([]string{"run", "x", "--case", "it's all", "--api-key", "k1", "--api-key=k2"})
	if want := `loadtest run x --case 'it'\''s all' --api-key … --api-key=…`; got != want {
		t.Error(got)
	}
}
