package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// checkIdentity ensures that only local callers are trusted without an explicit mode.
func (r reader) checkIdentity(f *File) {
	r.checkTenantsFile(f)
	withKeys := keyed(f.Tenants)
	if !r.Sound("identity.mode") {
		return
	}
	switch f.Identity.Mode {
	case ModeOpen:
		if withKeys || r.Has("tenants_file") {
			f.Identity.Mode = ModeKeys
		} else if host, _, err := splitAddr(f.Listen); err == nil && !loopback(host) && r.Sound("listen") {
			r.Fail("listen", "anybody who reaches this address could claim any tenant and priority; either give tenants their keys_sha256, "+
				"or set identity: {mode: trusted_headers, trusted_proxies: [CIDR]} behind a proxy that sets the headers, "+
				"or let clients bring the tokens of an issuer (identity.mode jwt), or listen on loopback (127.0.0.1:8080)")
		}
	case ModeKeys:
		if !withKeys && !r.Has("tenants_file") && r.Sound("tenants") {
			r.Fail("identity.mode", "is keys, but no tenant has keys_sha256; give at least one")
		}
	case ModeTrustedHeaders:
		r.checkProxies(f.Identity.TrustedProxies)
	case ModeJWT:
		r.checkJWT(f.Identity.JWT)
	default:
		r.Fail("identity.mode", "want keys, jwt or trusted_headers, or leave it out")
		return
	}
	if withKeys && f.Identity.Mode != ModeKeys {
		r.Fail("identity.mode", "is %s, in which tenants' keys are not checked; remove keys_sha256 from the tenants, or the mode", f.Identity.Mode)
	}
	r.checkIdle(f)
	r.checkUnlisted(f)
}

// checkTenantsFile refuses tenants in two places. The reader of the file checks its content.
func (r reader) checkTenantsFile(f *File) {
	const path = "tenants_file"
	if !r.Has(path) {
		return
	}
	r.checkPath(path, f.TenantsFile, "")
	if r.Has("tenants") {
		r.Fail(path, "tenants are given as well; keep one of the two")
	}
}

// checkUnlisted checks the setting for tenants that are not listed. If they are refused and none is listed,
// nobody could call.
func (r reader) checkUnlisted(f *File) {
	const path, of = "identity.unlisted_tenants", "identity.default_tenant"
	u := f.Identity.UnlistedTenants
	switch {
	case !r.Sound(path):
		return
	case r.Has(path) && u != UnlistedRefuse && u != UnlistedDefault:
		r.Fail(path, "want refuse or default")
		return
	case r.Has(path) && f.Identity.Mode == ModeKeys:
		r.Fail(path, "is not read with mode: keys, where a key's tenant is listed; remove the field")
	case len(f.Tenants) > 0, !r.Sound("tenants"), r.Has("tenants_file"), u == UnlistedDefault, f.Identity.Mode == ModeKeys:
	case u == UnlistedRefuse || f.Identity.Mode != ModeOpen:
		r.Fail("identity", "no tenant is listed, and those that are not are refused, so nobody could call; "+
			"list tenants, or set unlisted_tenants: default, and what each may in default_tenant")
	}
	if r.Has(of) && r.Sound(of) && u != UnlistedDefault {
		r.Fail(of, "is only read with unlisted_tenants: default; set it or remove the field")
	}
	r.checkPriority(of+".max_priority", f.Identity.DefaultTenant.MaxPriority)
	r.checkModels(of+".models", f.Identity.DefaultTenant.Models)
	r.checkBudgets(of+".budgets", f.Identity.DefaultTenant.Budgets)
}

// checkIdle refuses settings that the mode would ignore.
func (r reader) checkIdle(f *File) {
	for _, of := range []struct{ path, mode string }{
		{"identity.trusted_proxies", ModeTrustedHeaders}, {"identity.jwt", ModeJWT},
	} {
		if r.Has(of.path) && r.Sound(of.path) && f.Identity.Mode != of.mode {
			r.Fail(of.path, "is only read with mode: %s; set it or remove the field", of.mode)
		}
	}
	if f.Identity.Mode != ModeKeys {
		return
	}
	r.checkKeyless(f.Tenants)
}

func (r reader) checkProxies(proxies []string) {
	const path = "identity.trusted_proxies"
	if len(proxies) == 0 && r.Sound(path) {
		r.Fail(path, "mode trusted_headers needs the CIDRs of the proxies that set the headers, such as [10.0.0.0/16]")
	}
	r.checkNetworks(path, proxies, "trusts every address there is; list the proxies' own networks")
}

// checkPath checks the path of a required file. Errors do not repeat it, because it may be a misplaced
// secret.
func (r reader) checkPath(path, file, missing string) {
	switch {
	case !r.Has(path):
		r.Fail(path, "%s", missing)
	case r.Sound(path) && (file == "" || strings.HasSuffix(file, "/") || strings.ContainsFunc(file, unicode.IsControl)):
		r.Fail(path, "want a file's path")
	}
}

// signatures lists the allowed algorithms of tokens. With a shared secret (HS256), everyone who verifies
// tokens could also make them.
var signatures = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

func (r reader) checkJWT(t JWT) {
	const path = "identity.jwt"
	if !r.Has(path) {
		r.Fail(path, "mode jwt needs {issuer: …, audience: …, jwks_file: …}")
		return
	}
	if !r.Sound(path) {
		return
	}
	r.checkClaim(path+".issuer", t.Issuer, "missing; give the iss of the tokens, such as https://login.example.com/")
	r.checkClaim(path+".audience", t.Audience, "missing; give the aud that names this gateway, so that tokens for other services are not accepted here")
	r.checkPath(path+".jwks_file", t.JWKSFile, "missing; give the path of the issuer's key set (what its jwks_uri serves)")
	r.checkClaim(path+".tenant_claim", t.TenantClaim, "")
	r.checkClaim(path+".priority_claim", t.PriorityClaim, "")
	if r.Has(path+".algorithms") && r.Sound(path+".algorithms") && len(t.Algorithms) == 0 {
		r.Fail(path+".algorithms", "the list is empty; name the issuer's, or leave it out for RS256, ES256 and EdDSA")
	}
	for i, name := range t.Algorithms {
		at := fmt.Sprintf("%s.algorithms[%d]", path, i)
		switch {
		case !r.Sound(at):
		case !slices.Contains(signatures, name):
			r.Fail(at, "want one of %s; none and HS… are never accepted", strings.Join(signatures, ", "))
		case slices.Contains(t.Algorithms[:i], name):
			r.Fail(at, "is listed already; remove one")
		}
	}
}

// checkClaim checks the name or value of a claim; if missing is not "", it is required.
func (r reader) checkClaim(path, value, missing string) {
	switch {
	case !r.Has(path):
		if missing != "" {
			r.Fail(path, "%s", missing)
		}
	case r.Sound(path) && (value == "" || len(value) > 256 || strings.ContainsFunc(value, notPrintable)):
		r.Fail(path, "want 1–256 printable ASCII characters without spaces")
	}
}
