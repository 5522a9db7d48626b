package app_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// canary is the secret of these tests. Nothing
// that a gateway says may hold it.
const canary = "canary-5f2c7a9be1d34c60a8f1b2c3d4e5f607"

// quiet checks that the last request was logged under its tenant and class, and
// that neither the log nor the metrics hold a secret.
func quiet(t *testing.T, g *guarded, tenant, class string, secrets ...string) {
	t.Helper()
	apptest.Eventually(t, "the request is in the log", func() bool {
		return slices.ContainsFunc(strings.Split(g.Log.String(), "\n"), func(line string) bool {
			return strings.Contains(line, fmt.Sprintf("%q:%q", "tenant", tenant)) && strings.Contains(line, fmt.Sprintf("%q:%q", "priority", class))
		})
	})
	output := g.Log.String() + g.Metrics(t)
	for _, s := range secrets {
		if strings.Contains(output, s) {
			t.Errorf("a secret is told: %s", output)
		}
	}
}
