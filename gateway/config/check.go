package config

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/yamlfile"
	"github.com/foregate/foregate/tiers/dialect"
)

// reader is a configuration or tenants file while it is read and checked. What one field may hold is checked when it is read;
// here is what fields say of each other. A field that could not be parsed counts as given, so that one mistake is reported once.
type reader struct{ *yamlfile.File }

// each are the places and paths of those members of a list of n at path that have no mistake of their own.
func (r reader) each(path string, n int) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i := range n {
			if at := fmt.Sprintf("%s[%d]", path, i); r.Sound(at) && !yield(i, at) {
				return
			}
		}
	}
}

// check refuses values that can be parsed but are inconsistent.
func (r reader) check(f *File) {
	r.checkListeners(f)
	r.checkRedis(&f.Redis)
	for _, name := range slices.Sorted(maps.Keys(f.Pools)) {
		if path := "pools." + name; r.Sound(path) {
			r.checkPool(path, f.Pools[name])
		}
	}
	r.checkRoutes(f)
	r.checkTenants(f.Tenants, f.Unpriced())
	r.checkIdentity(f)
}

func (r reader) checkListeners(f *File) {
	if host, _, err := splitAddr(f.Admin); err == nil && !loopback(host) && !r.Has("admin_tokens_file") {
		r.Fail("admin", "must be on loopback (127.0.0.1:9090) without tokens, because whoever reaches it can profile this process and drain backends; "+
			"give admin_tokens_file, or use a tunnel")
	}
	if f.Listen == f.Admin && !strings.HasSuffix(f.Listen, ":0") && (r.Has("listen") || r.Has("admin")) {
		r.Fail("admin", "is the address of listen as well; the admin listener needs its own")
	}
}

func (r reader) checkPool(path string, p Pool) {
	switch backends, discovered := r.Has(path+".backends"), r.Has(path+".discover"); {
	case backends && discovered:
		r.Fail(path+".discover", "backends are given as well; keep one of the two")
	case !backends && !discovered:
		r.Fail(path, "has no backends; give backends: [http://host:8000] or discover: dns://host:8000 or srv://…")
	}
	for i, at := range r.each(path+".backends", len(p.Backends)) {
		if p.TLS.On && r.Sound(path+".tls") && strings.HasPrefix(p.Backends[i], "http:") {
			r.Fail(at, "the pool has tls; want https://, or remove tls")
		}
	}
	r.checkTokenPrices(path, p)
}

// checkTokenPrices checks the prices of tokens of a pool.
func (r reader) checkTokenPrices(path string, p Pool) {
	in, out := path+".usd_per_million_input", path+".usd_per_million_output"
	switch {
	case !r.Has(in) || !r.Has(out):
	case !p.PaidByToken() && r.Sound(in) && r.Sound(out):
		r.Fail(in, "both prices are 0, so no limit in dollars would bound anything; give the prices of the provider")
	case p.USDPerHour > 0:
		r.Fail(in, "usd_per_hour is given as well; a pool is paid by the hour or by the token")
	case p.USDPerMillionCached > p.USDPerMillionInput && r.Sound(path+".usd_per_million_cached"):
		r.Fail(path+".usd_per_million_cached", "is above usd_per_million_input; want what the provider asks for prompt tokens in its cache")
	}
}

func (r reader) checkRoutes(f *File) {
	for i, path := range r.each("routes", len(f.Routes)) {
		t := f.Routes[i]
		if r.Has(path + ".draft") {
			r.checkOwnPool(path+".draft", t.Draft, f)
		}
		r.checkTargets(path, f, t)
		for k, at := range r.each(path+".fallbacks", len(t.Fallbacks)) {
			name := t.Fallbacks[k].Pool
			r.checkPoolName(at+".pool", name, f)
			if p, ok := f.Pools[name]; ok && r.Sound(at+".pool") {
				r.checkHosted(at+".pool", name, p)
			}
		}
	}
}

// checkTargets checks the target pools of a route: one by target, or several by targets.
func (r reader) checkTargets(path string, f *File, t Route) {
	one, several := path+".target", path+".targets"
	switch {
	case !r.Has(several):
		r.checkPoolName(one, t.Target, f)
		if p := f.Pools[t.Target]; p.PaidByToken() && r.Sound(one) {
			r.checkHosted(one, t.Target, p)
		}
		if t.Draft != "" && t.Draft == t.Target {
			r.Fail(path+".draft", "is the target as well; name a cheaper pool, or leave draft out to use the target alone")
		}
	case r.Has(one):
		r.Fail(several, "target is given as well; give one of both")
	case r.Sound(several):
		for i, at := range r.each(several, len(t.Targets)) {
			name := t.Targets[i].Pool
			r.checkOwnPool(at+".pool", name, f)
			if name != "" && name == t.Draft {
				r.Fail(at+".pool", "is the draft as well; name another pool")
			}
		}
	}
}

// checkOwnPool checks that a pool can draft, or be one of several targets.
func (r reader) checkOwnPool(at, name string, f *File) {
	r.checkPoolName(at, name, f)
	if f.Pools[name].PaidByToken() && r.Sound(at) {
		r.Fail(at, "pool %s is paid by the token, as only the one target of a route and fallbacks may be; name another pool", name)
	}
}

// checkPoolName checks that a pool is named, and one that is defined.
func (r reader) checkPoolName(path, name string, f *File) {
	const maxNames = 20
	defined := slices.Sorted(maps.Keys(f.Pools))
	if len(defined) > maxNames {
		defined = append(defined[:maxNames], "…")
	}
	names := strings.Join(defined, ", ")
	if names == "" {
		names = "none"
	}
	_, ok := f.Pools[name]
	switch {
	case !r.Has(path):
		r.Fail(path, "missing; name a pool (defined: %s)", names)
	case ok || !r.Sound(path) || !r.Sound("pools"): // with pools that could not be parsed, unknown names are no mistake
	case !yamlfile.SafeName(name):
		r.Fail(path, "is not a pool's name (defined: %s)", names)
	default:
		r.Fail(path, "pool %q is not defined (defined: %s)", name, names)
	}
}

// checkHosted checks that a pool can be a fallback or a hosted target, whose backends are reached by https. at is where a
// route names it.
func (r reader) checkHosted(at, name string, p Pool) {
	path := "pools." + name
	switch {
	case !r.Sound(path):
	case p.Engine != string(dialect.OpenAI) && r.Sound(path+".engine"):
		r.Fail(at, "pool %s is not OpenAI-compatible only; a hosted pool needs engine: openai", name)
	case !r.Has(path+".usd_per_million_input") || !r.Has(path+".usd_per_million_output"):
		r.Fail(at, "pool %s has no prices; a hosted pool needs usd_per_million_input and usd_per_million_output", name)
	case p.Discover != "":
		r.Fail(at, "pool %s is discovered; a hosted pool needs backends: [https://…]", name)
	case p.Scheduler == SchedulerPriority:
		r.Fail(at, "pool %s has scheduler; a hosted server gets nothing of it, remove it", name)
	default:
		for i, backend := range r.each(path+".backends", len(p.Backends)) {
			if u, err := url.Parse(p.Backends[i]); err == nil && u.Scheme != "https" && !loopback(u.Hostname()) {
				r.Fail(backend, "the pool is hosted; want https://, so that nobody on the way reads prompts and the key")
			}
		}
	}
}

func (r reader) checkTenants(all []identity.Tenant, unpriced []string) {
	keys := map[[32]byte]string{}
	for i, path := range r.each("tenants", len(all)) {
		for k, at := range r.each(path+".keys_sha256", len(all[i].KeySHA256)) {
			key := all[i].KeySHA256[k]
			if first, twice := keys[key]; twice {
				r.Fail(at, "is the same key as %s; a key belongs to one tenant", first)
				continue
			}
			keys[key] = at
		}
		r.checkBudgets(path+".budgets", &all[i].Access, unpriced)
	}
}

// checkBudgets checks a tenant's budgets. Requests to unpriced pools would be charged nothing.
func (r reader) checkBudgets(path string, a *identity.Access, unpriced []string) {
	unpriced = slices.DeleteFunc(slices.Clone(unpriced), func(pool string) bool { return !r.Sound(pool) })
	if a.HasDollarBudget() && len(unpriced) > 0 && r.Sound(path) {
		r.Fail(path, "a budget in usd is charged nothing for requests to %s, without a price; give usd_per_hour there, and 0 where they are to be free", strings.Join(unpriced, ", "))
	}
	seen := map[string]string{}
	for i, at := range r.each(path, len(a.Budgets)) {
		switch usd, tokens, per := r.Has(at+".usd"), r.Has(at+".tokens"), a.Budgets[i].Per; {
		case usd && tokens:
			r.Fail(at, "has usd and tokens; make it two budgets")
		case !usd && !tokens:
			r.Fail(at, "has neither usd nor tokens; give one, such as {usd: 50, per: day}")
		case per != "":
			unit := fmt.Sprintf("%t %s", usd, per)
			if first, twice := seen[unit]; twice {
				r.Fail(at, "%s has the same unit and period; keep one of them", first)
			}
			seen[unit] = cmp.Or(seen[unit], at)
		}
	}
}

// checkIdentity ensures that only local callers are trusted without an explicit mode.
func (r reader) checkIdentity(f *File) {
	if r.Has("tenants_file") && r.Has("tenants") {
		r.Fail("tenants_file", "tenants are given as well; keep one of the two")
	}
	if !r.Sound("identity.mode") {
		return
	}
	o, withKeys := &f.Identity, slices.ContainsFunc(f.Tenants, func(t identity.Tenant) bool { return len(t.KeySHA256) > 0 })
	if o.Mode == identity.Open && (withKeys || r.Has("tenants_file")) {
		o.Mode = identity.Keys
	}
	switch host, _, err := splitAddr(f.Listen); {
	case o.Mode == identity.Open && err == nil && !loopback(host) && r.Sound("listen"):
		r.Fail("listen", "anybody who reaches this address could claim any tenant and priority; either give tenants their keys_sha256, "+
			"or set identity: {mode: trusted_headers, trusted_proxies: [CIDR]} behind a proxy that sets the headers, "+
			"or let clients bring the tokens of an issuer (identity.mode jwt), or listen on loopback (127.0.0.1:8080)")
	case o.Mode == identity.Keys && !withKeys && !r.Has("tenants_file") && r.Sound("tenants"):
		r.Fail("identity.mode", "is keys, but no tenant has keys_sha256; give at least one")
	case o.Mode == identity.TrustedHeaders && len(o.TrustedProxies) == 0 && r.Sound("identity.trusted_proxies"):
		r.Fail("identity.trusted_proxies", "mode trusted_headers needs the CIDRs of the proxies that set the headers, such as [10.0.0.0/16]")
	case o.Mode == identity.JWTs && !r.Has("identity.jwt"):
		r.Fail("identity.jwt", "mode jwt needs {issuer: …, audience: …, jwks_file: …}")
	}
	if withKeys && o.Mode != identity.Keys {
		r.Fail("identity.mode", "is %s, in which tenants' keys are not checked; remove keys_sha256 from the tenants, or the mode", o.Mode)
	}
	for _, of := range []struct {
		path string
		mode identity.Mode
	}{{"identity.trusted_proxies", identity.TrustedHeaders}, {"identity.jwt", identity.JWTs}} {
		if r.Has(of.path) && r.Sound(of.path) && o.Mode != of.mode {
			r.Fail(of.path, "is only read with mode: %s; set it or remove the field", of.mode)
		}
	}
	if o.Mode == identity.Keys {
		r.checkKeyless(f.Tenants)
	}
	r.checkUnlisted(f)
}

// checkUnlisted checks the setting for tenants that are not listed. If they are refused and none is listed,
// nobody could call.
func (r reader) checkUnlisted(f *File) {
	const path, of = "identity.unlisted_tenants", "identity.default_tenant"
	u, keys := f.Identity.Unlisted, f.Identity.Mode == identity.Keys
	switch {
	case !r.Sound(path):
		return
	case r.Has(path) && keys:
		r.Fail(path, "is not read with mode: keys, where a key's tenant is listed; remove the field")
	case len(f.Tenants) > 0, !r.Sound("tenants"), r.Has("tenants_file"), u == identity.UnlistedDefault, keys:
	case u == identity.UnlistedRefuse || f.Identity.Mode != identity.Open:
		r.Fail("identity", "no tenant is listed, and those that are not are refused, so nobody could call; "+
			"list tenants, or set unlisted_tenants: default, and what each may in default_tenant")
	}
	if r.Has(of) && r.Sound(of) && u != identity.UnlistedDefault {
		r.Fail(of, "is only read with unlisted_tenants: default; set it or remove the field")
	}
	r.checkBudgets(of+".budgets", &f.Identity.Default.Access, f.Unpriced())
}

// checkKeyless refuses tenants without keys in mode keys, because nobody could use them.
func (r reader) checkKeyless(all []identity.Tenant) {
	for i, path := range r.each("tenants", len(all)) {
		if len(all[i].KeySHA256) == 0 && r.Sound(path+".keys_sha256") {
			r.Fail(path, "has no keys_sha256, so nobody could be this tenant; give it a key or remove it")
		}
	}
}
