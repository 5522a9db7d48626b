package redistest

import (
	"testing"

	"github.com/foregate/foregate/internal/certtest"
)

// Certificates writes an authority's certificate, and one with its key that servers and
// clients may show: 127.0.0.1 and redis.internal.
func Certificates(t testing.TB) (ca, cert, key string) {
	t.Helper()
	a := certtest.New(t)
	cert, key = a.Issue(t, certtest.Leaf{Name: "redis.internal", Hosts: []string{"redis.internal", "127.0.0.1"}}).Files(t)
	return a.File, cert, key
}
