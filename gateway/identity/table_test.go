package identity

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"testing"
)

func TestATenantsKeysAndLimitsRotate(t *testing.T) {
	r := resolver(t, Keys)
	bearer := func(key string) (Caller, error) {
		return r.Identify(request(outside, "Authorization: Bearer "+key))
	}
	next := []Tenant{{ID: "acme", KeySHA256: [][32]byte{sha256.Sum256([]byte("sk-next"))}, MaxPriority: Low, RPM: 1, TPM: 2, Concurrent: 3}}
	r.SetTenants(next)
	if got, err := bearer("sk-next"); err != nil || !reflect.DeepEqual(got, Caller{Tenant: "acme", Priority: Low, RPM: 1, TPM: 2, Concurrent: 3}) {
		t.Errorf("the new key: %+v, %v", got, err)
	}
	for _, gone := range []string{acmeKey, betaKey} {
		if got, err := bearer(gone); err == nil {
			t.Errorf("a key that was removed is believed: %+v", got)
		}
	}
	if got := r.Tenants(); len(got) != 1 || got[0].ID != "acme" {
		t.Errorf("listed: %+v", got)
	}
}

// TestARequestIsJudgedByOneTable changes a key together with what its tenant may: no request sees the key of
// one list with the limits of the other.
func TestARequestIsJudgedByOneTable(t *testing.T) {
	r := resolver(t, Keys)
	list := func(n int) []Tenant {
		return []Tenant{{ID: "t" + strconv.Itoa(n), KeySHA256: [][32]byte{sha256.Sum256([]byte(acmeKey))}, RPM: n}}
	}
	r.SetTenants(list(1))
	var writer sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
				r.SetTenants(list(n))
			}
		}
	})
	for range 2000 {
		c, err := r.Identify(request(outside, "Authorization: Bearer "+acmeKey))
		if err != nil || c.Tenant != "t"+strconv.Itoa(c.RPM) {
			t.Errorf("got %+v, %v", c, err)
		}
	}
	close(stop)
	writer.Wait()
}

func TestTenantsThatAreNotListedAreRefusedOrHaveTheDefault(t *testing.T) {
	unlimited := Caller{Tenant: "gamma", Priority: High}
	limited := Caller{Tenant: "gamma", Priority: Low, Clamped: true, RPM: 6, TPM: 7, Concurrent: 8}
	def := Tenant{ID: "no matter", MaxPriority: Low, RPM: 6, TPM: 7, Concurrent: 8}
	ask := func(mode Mode) *http.Request {
		lines := []string{"X-Priority: high"}
		from := proxy
		switch mode {
		case Open:
			from, lines = local, append(lines, "X-Tenant-ID: gamma")
		case TrustedHeaders:
			lines = append(lines, "X-Tenant-ID: gamma")
		case JWTs:
			lines = append(lines, "Authorization: Bearer "+edToken(t, map[string]any{"tenant": "gamma", "priority": "high"}))
		}
		return request(from, lines...)
	}
	for _, mode := range []Mode{Open, TrustedHeaders, JWTs} {
		for _, policy := range []Unlisted{UnlistedModeDefault, UnlistedRefuse, UnlistedDefault} {
			o := jwtOptions()
			o.Mode, o.Unlisted, o.Default, o.TrustedProxies = mode, policy, def, proxies()
			r := made(t, o)
			got, err := r.Identify(ask(mode))
			if want := map[Unlisted]Caller{UnlistedDefault: limited, UnlistedModeDefault: unlimited}[policy]; policy == UnlistedDefault || policy == UnlistedModeDefault && mode == Open {
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("mode %q, policy %q: got %+v, %v, want %+v", mode, policy, got, err, want)
				}
				continue
			}
			if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Forbidden {
				t.Errorf("mode %q, policy %q: got %+v, %v, want it refused", mode, policy, got, err)
			}
		}
	}
}

func TestARequestOfAProxyThatNamesNoTenantIsRefusedUnlessThereIsOneNamedDefault(t *testing.T) {
	for _, listed := range []bool{false, true} {
		for _, policy := range []Unlisted{UnlistedRefuse, UnlistedDefault} {
			o := Options{Mode: TrustedHeaders, Unlisted: policy, Default: Tenant{MaxPriority: High}, TrustedProxies: proxies(), Tenants: tenants()}
			if listed {
				o.Tenants = append(o.Tenants, Tenant{ID: DefaultTenant, RPM: 9})
			}
			got, err := made(t, o).Identify(request(proxy))
			if e, ok := errors.AsType[*Error](err); ok == listed || ok && (e.Kind != Forbidden || e.Header != HeaderTenant) || listed && got.RPM != 9 {
				t.Errorf("listed %t, others %q: %+v, %v", listed, policy, got, err)
			}
		}
	}
}
