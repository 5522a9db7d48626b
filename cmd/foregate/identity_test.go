package main

import (
	"os"
	"path/filepath"
	"testing"
)

// secretFile writes text as a file that its owner alone may read.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
