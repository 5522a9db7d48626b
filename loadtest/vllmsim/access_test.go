package vllmsim

import (
	"io"
	"net/http"
	"testing"
)

func TestAKeyGuardsThePathsThatVLLMsDoes(t *testing.T) {
	for everywhere, open := range map[bool][]string{false: {"/health", "/metrics", "/tokenize", "/version", "/sim/state"}, true: {"/sim/state"}} {
		s := Start(t, Options{APIKeys: []string{"one", "two"}, KeyForAllPaths: everywhere})
		for _, path := range []string{"/v1/models", "/v1/chat/completions", "/v1/none", "/health", "/metrics", "/tokenize", "/version", "/sim/state"} {
			isOpen := false
			for _, o := range open {
				isOpen = isOpen || o == path
			}
			for shown, admitted := range map[string]bool{"": isOpen, "Bearer one": true, "Bearer two": true, "Bearer three": isOpen, "one": isOpen, "Basic one": isOpen} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", shown)
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				refused := resp.StatusCode == http.StatusUnauthorized
				if refused == admitted || refused && string(body) != `{"error":"Unauthorized"}` {
					t.Errorf("everywhere %v, %s with %q: status %d: %.100s", everywhere, path, shown, resp.StatusCode, body)
				}
			}
		}
	}
}
