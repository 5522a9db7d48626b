package vllmsim

import (
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// odd is what promtool's lint says of names that are vLLM's, besides their colons.
var odd = []string{
	`vllm:iteration_tokens_total non-counter metrics should not have "_total" suffix`,
	`vllm:avg_generation_throughput_toks_per_s metric names should not contain abbreviated units`,
	`vllm:avg_prompt_throughput_toks_per_s metric names should not contain abbreviated units`,
}

func TestPromtoolAcceptsWhatMetricsShows(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool (Debian package prometheus) is not in PATH:", err)
	}
	for gen, o := range map[string]Options{"v1": {}, "v1 of three engines": {DataParallelSize: 3}} {
		o.TimeScale, o.Model = fast, `m "quoted"`
		s := Start(t, o)
		ask(t, s, "/v1/completions", `{"prompt":"x","max_tokens":3}`)
		_, page := do(t, s, "GET", "/metrics", "")
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), tool, "check", "metrics")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(page), &out, &out
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 3) { // 3: lint only
			t.Fatalf("%s: %v\n%s", gen, err, out.String())
		}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSpace(line)
			colon := strings.HasPrefix(line, "vllm:") && strings.HasSuffix(line, ` metric names should not contain ':'`)
			if !colon && !slices.Contains(odd, line) {
				t.Errorf("%s: %s", gen, line)
			}
		}
	}
}
