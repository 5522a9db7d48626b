package identity

import "testing"

func TestAPatternCoversAModelByNameOrByItsBeginning(t *testing.T) {
	for _, c := range []struct {
		pattern, model string
		want           bool
	}{
		{"llama-3", "llama-3", true},
		{"llama-3", "llama-3:large", false},
		{"llama-3", "llama", false},
		{"code-*", "code-small", true},
		{"code-*", "code-", true},
		{"code-*", "code", false},
		{"code-*", "my-code-small", false},
		{"meta-llama/*", "meta-llama/a/b", true},
		{"*", "anything", true},
		{"*", "", true},
		{"", "", true},
		{"", "x", false},
	} {
		if got := MatchModel(c.pattern, c.model); got != c.want {
			t.Errorf("%q covers %q: %t", c.pattern, c.model, got)
		}
	}
}

func TestUnlistedTenantsHaveTheAccessOfTheDefault(t *testing.T) {
	o := jwtOptions()
	o.Mode, o.Unlisted, o.TrustedProxies = TrustedHeaders, UnlistedDefault, proxies()
	o.Default = Tenant{MaxPriority: High, Access: Access{Models: []string{"code-*"}}}
	o.Tenants = []Tenant{{ID: "acme", MaxPriority: High}}
	r := made(t, o)
	for tenant, want := range map[string]bool{"acme": true, "gamma": false} {
		c, err := r.Identify(request(proxy, "X-Tenant-ID: "+tenant))
		if err != nil || c.Access.Allows("llama-3") != want || !c.Access.Allows("code-x") {
			t.Errorf("%s: %+v, %v", tenant, c, err)
		}
	}
}
