package virtual

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest"
)

func TestARunLeavesNothingBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	s := scenario(t, small+"audits: 20\n")
	s.Duration = 10 * time.Second
	row(t, s, 1)
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestWhatTheLabCannotRunItSaysAtTheStart(t *testing.T) {
	for settings, placements := range map[string]string{
		"speculation.mode: verify":                         "temperature",
		"speculation.mode: risk, risk.label: judge":        "risk.label",
		"speculation.mode: shadow, risk.label: regenerate": "risk.label",
	} {
		s := scenario(t, replace(small, "speculation.mode: confidence", settings, "max_tokens: 512", "max_tokens: 512, temperature: 0.7"))
		if _, err := Run(t.Context(), s, &s.Cases[0], 1); err == nil || !strings.Contains(err.Error(), placements) {
			t.Errorf("%s: error %v, want one that names %s", settings, err, placements)
		}
	}
}

func TestARequestIsWhatItsBodySays(t *testing.T) {
	q := &loadtest.Request{
		Messages:  []loadtest.Message{{Role: "system", Content: "Be \"brief\".\n"}, {Role: "user", Content: "Why?"}},
		MaxTokens: 7, IgnoreEOS: true, Temperature: 0.5, Stream: true,
	}
	r := bodyOf(q)
	system, first := r.Head()
	if r.Model != route || r.MaxTokens != 7 || !r.IgnoresEOS() || r.Temperature != 0.5 || !r.Stream || !r.SinglePlain {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(string(system), "brief") || !strings.Contains(string(first), "Why?") {
		t.Errorf("it begins with %q and %q", system, first)
	}
	if open := bodyOf(&loadtest.Request{Messages: q.Messages}); open.MaxTokens != -1 || open.IgnoresEOS() || open.Stream {
		t.Errorf("%+v", open)
	}
}
