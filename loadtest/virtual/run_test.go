package virtual

import (
	"runtime"
	"strings"
	"testing"
	"time"
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
