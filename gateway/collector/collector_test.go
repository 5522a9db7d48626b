package collector

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestARedirectDoesNotGetWhatIsSent(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was followed") }))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, srv.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := NewClient().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestTheResourceTellsNameAndVersion(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	for version, want := range map[string]string{"v1": "v1", "": ""} {
		r, err := NewResource(version)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, a := range r.Attributes() {
			got[string(a.Key)] = a.Value.AsString()
		}
		if got["service.name"] != "foregate" || got["service.version"] != want || got["deployment.environment.name"] != "test" {
			t.Errorf("version %q: %v", version, got)
		}
	}
}
