package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/internal/yamlfile"
)

// documentedFields are the defaults in the table, by the names of fields.
func documentedFields() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(FieldTable) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| `") {
			all[strings.Trim(cells[0], "| `")] = cells[1]
		}
	}
	return all
}

// TestEveryFieldIsDocumented asks the reader itself for the fields it knows: an
// unknown one at each level is answered with the list.
func TestEveryFieldIsDocumented(t *testing.T) {
	_, err := Parse("f", []byte(`x: 1
tls: {x: 1}
admin_tls: {x: 1}
redis: {x: 1}
cache: {x: 1}
identity: {x: 1, default_tenant: {x: 1, budgets: [{x: 1}]}, jwt: {x: 1}}
pools: {NAME: {x: 1, auth: {x: 1}, tls: {x: 1}}}
routes: [{x: 1, targets: [{x: 1}], fallbacks: [{x: 1}]}]
tenants: [{x: 1, budgets: [{x: 1}]}]
limits: {x: 1}
drain: {x: 1}
tracing: {x: 1}
`))
	var known []string
	groups := []string{"tls", "admin_tls", "redis", "cache", "identity", "identity.default_tenant", "identity.default_tenant.budgets", "identity.jwt", "pools", "pools.NAME.auth", "pools.NAME.tls", "routes", "routes[0].fallbacks", "routes[0].targets", "tenants", "tenants[0].budgets", "limits", "drain", "tracing"}
	for _, m := range regexp.MustCompile(`(?m)^f:\d+:\d+: (\S*)x: unknown field; known here: (.*)$`).FindAllStringSubmatch(message(err), -1) {
		for field := range strings.SplitSeq(m[2], ", ") {
			if slices.Contains(groups, m[1]+field) {
				continue
			}
			known = append(known, strings.ReplaceAll(m[1], "[0]", "[]")+field)
		}
	}
	var documented []string
	for name := range documentedFields() {
		documented = append(documented, name)
	}
	slices.Sort(known)
	slices.Sort(documented)
	if diff := cmp.Diff(known, documented); diff != "" {
		t.Errorf("-read +documented:\n%s", diff)
	}
}

// TestTheDocumentedDefaultsAreInForce writes the defaults out, as documented,
// and expects the file in which nothing is written.
func TestTheDocumentedDefaultsAreInForce(t *testing.T) {
	var got File
	fill := map[string]func(string){
		"listen": func(s string) { got.Listen = s }, "admin": func(s string) { got.Admin = s }, "identity.default_tenant.max_priority": func(s string) { got.Identity.DefaultTenant.MaxPriority = s },
		"redis.url":             func(s string) { got.Redis.URL = s },
		"redis.replicas":        func(s string) { n, _ := yamlfile.ParseSize(s); got.Redis.Replicas = int(n) },
		"cache.local_bytes":     func(s string) { got.Cache.LocalBytes, _ = yamlfile.ParseSize(s) },
		"passthrough":           func(s string) { got.Passthrough = strings.Split(s, ", ") },
		"limits.body_bytes":     func(s string) { got.Limits.BodyBytes, _ = yamlfile.ParseSize(s) },
		"limits.response_bytes": func(s string) { got.Limits.ResponseBytes, _ = yamlfile.ParseSize(s) },
		"limits.header_bytes":   func(s string) { n, _ := yamlfile.ParseSize(s); got.Limits.HeaderBytes = n },
		"limits.in_flight":      func(s string) { n, _ := yamlfile.ParseSize(s); got.Limits.InFlight = int(n) },
		"limits.connections":    func(s string) { n, _ := yamlfile.ParseSize(s); got.Limits.Connections = int(n) },
		"drain.delay":           func(s string) { got.Drain.Delay, _ = time.ParseDuration(s) },
		"tracing.sample":        func(s string) { got.Tracing.Sample, _ = strconv.ParseFloat(s, 64) },
		"drain.grace":           func(s string) { got.Drain.Grace, _ = time.ParseDuration(s) },
	}
	for name, byDefault := range documentedFields() {
		if set := fill[name]; set != nil {
			set(strings.ReplaceAll(byDefault, "`", ""))
		}
	}
	got.Pools = map[string]Pool{}
	if diff := cmp.Diff(defaults(), &got); diff != "" {
		t.Errorf("-in force +documented:\n%s", diff)
	}
}
