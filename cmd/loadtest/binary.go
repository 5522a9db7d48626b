package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// gatewayBinary finds the gateway: where it was said to be, beside this program,
// or in PATH.
func gatewayBinary(override string) (string, error) {
	if override != "" {
		return filepath.Abs(override) // an empty folder in PATH is nobody's wish
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "foregate")
		if st, err := os.Stat(beside); err == nil && st.Mode().IsRegular() {
			return beside, nil
		}
	}
	if path, err := exec.LookPath("foregate"); err == nil {
		return path, nil
	}
	return "", errors.New("there is no foregate beside loadtest or in PATH: run make build, or use --gateway PATH")
}
