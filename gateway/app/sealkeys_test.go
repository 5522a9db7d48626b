package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
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

// cached reports whether a replica has an answer for a tenant's request; it does not have it made.
func cached(t *testing.T, p *apptest.Replica, tenant string) bool {
	t.Helper()
	status, head, body := apptest.Send(t, http.MethodPost, p.URL+chat, chatBody(routeUsual), "X-Tenant-ID", tenant, "Cache-Control", "only-if-cached")
	switch {
	case status == http.StatusOK && head.Get("X-Cache") == "HIT":
		return true
	case status != http.StatusGatewayTimeout:
		t.Errorf("status %d, X-Cache %q: %s", status, head.Get("X-Cache"), body)
	}
	return false
}
