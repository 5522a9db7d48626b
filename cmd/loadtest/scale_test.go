package main

import (
	"strings"
	"testing"
)

func TestMistakesOfAScaleRunAreToldBeforeAFleetStarts(t *testing.T) {
	for _, args := range [][]string{
		{"--seconds", "0"}, {"--seconds", "NaN"}, {"--replicas", "1"}, {"--replicas", "21"}, {"--backends", "5"}, {"--requests", "0"},
	} {
		if status, out, errs := program(append([]string{"scale"}, args...)...); status != 2 || out != "" || !strings.Contains(errs, args[0]+" must be between") {
			t.Errorf("%v: status %d, %q, %q; want 2 and the flag", args, status, out, errs)
		}
	}
}
