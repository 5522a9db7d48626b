package apptest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// LoadedBackend starts a backend that reports its KV usage and answers no request.
func LoadedBackend(t testing.TB, model string, usage float64) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.Error(w, "busy", http.StatusTeapot)
			return
		}
		_, _ = fmt.Fprintf(w, "vllm:num_requests_running{model_name=%q} 1\nvllm:num_requests_waiting{model_name=%q} 0\nvllm:kv_cache_usage_perc{model_name=%q} %g\n", model, model, model, usage)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// File writes a file that its owner alone may read, in a folder of the test, and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
