package main

import (
	"os"
	"path/filepath"
	"testing"
)

// canary is the secret of these tests. Nothing that a gateway says may hold it.
const canary = "canary-5f2c7a9be1d34c60a8f1b2c3d4e5f607"

// secretFile writes text as a file that its owner alone may read.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
