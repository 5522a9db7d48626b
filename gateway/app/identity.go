package app

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/identity"
)

// makeIdentity makes the resolver of callers, and notes warnings about the configuration.
func (a *App) makeIdentity() (err error) {
	if a.identity, err = Resolver(a.Options.File, a.files); err != nil {
		return err
	}
	a.warn(warnings(a.Options.File, a.identity.Tenants()))
	return nil
}

// Resolver makes the resolver of callers from the configuration. files reloads the files that it names when
// they change.
func Resolver(f *config.File, watcher *files.Watcher) (*identity.Resolver, error) {
	o := identity.Options{Mode: identity.Mode(f.Identity.Mode)}
	jwt := f.Identity.JWT
	o.JWT = identity.JWT{
		Issuer: jwt.Issuer, Audience: jwt.Audience, Algorithms: jwt.Algorithms, TenantClaim: jwt.TenantClaim, PriorityClaim: jwt.PriorityClaim,
	}
	var err error
	if o.TrustedProxies, err = networks("identity.trusted_proxies", f.Identity.TrustedProxies); err != nil {
		return nil, err
	}
	rights, err := rightsOf(f)
	if err != nil {
		return nil, err
	}
	o.Tenants, o.Unlisted, o.Default = rights.tenants, rights.unlisted, rights.others
	who, err := identity.New(o)
	if err != nil {
		return nil, err
	}
	for _, file := range identityFiles(f, who) {
		if err := watcher.Add(file); err != nil {
			return nil, err
		}
	}
	return who, nil
}

// rights are the rights of tenants in a configuration.
type rights struct {
	tenants  []identity.Tenant // without those of tenants_file
	unlisted identity.Unlisted
	others   identity.Tenant // of tenants that are not listed
}

func rightsOf(f *config.File) (r rights, err error) {
	r.unlisted = identity.Unlisted(f.Identity.UnlistedTenants)
	if r.others, err = tenantOf(f.Identity.DefaultTenant); err != nil {
		return r, err
	}
	r.tenants, err = tenantsOf(f.Tenants)
	return r, err
}

// setRights puts the rights of a configuration into force.
func (a *App) setRights(f *config.File, r rights) error {
	if err := a.identity.SetUnlisted(r.unlisted, r.others); err != nil || f.TenantsFile != "" {
		return err
	}
	return a.identity.SetTenants(r.tenants)
}

// identityFiles are the configured files about callers.
func identityFiles(f *config.File, who *identity.Resolver) []files.File {
	tenants := func(contents [][]byte) error {
		defs, err := config.Tenants(contents[0], f.Identity.Mode)
		if err != nil {
			return err
		}
		list, err := tenantsOf(defs)
		if err != nil {
			return err
		}
		return who.SetTenants(list)
	}
	issuers := func(contents [][]byte) error { return who.SetKeySet(contents[0]) }
	all := []files.File{
		{Setting: "tenants_file", Paths: []string{f.TenantsFile}, Max: config.MaxFile, Apply: tenants},
		{Setting: "identity.jwt.jwks_file", Paths: []string{f.Identity.JWT.JWKSFile}, Max: identity.MaxKeySet, Apply: issuers},
	}
	return slices.DeleteFunc(all, func(file files.File) bool { return file.Paths[0] == "" })
}

// tenantsOf converts tenants of the configuration.
func tenantsOf(defs []config.Tenant) ([]identity.Tenant, error) {
	out := make([]identity.Tenant, 0, len(defs))
	for _, def := range defs {
		t, err := tenantOf(def)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func tenantOf(def config.Tenant) (identity.Tenant, error) {
	highest, err := identity.ParsePriority(def.MaxPriority)
	if err != nil {
		return identity.Tenant{}, fmt.Errorf("tenant %s: %w", def.ID, err)
	}
	t := identity.Tenant{ID: def.ID, MaxPriority: highest, RPM: def.RPM, TPM: def.TPM, Concurrent: def.Concurrent,
		PerTenantEvidence: def.PerTenantEvidence}
	t.Access = accessOf(def)
	for _, sum := range def.KeysSHA256 {
		var digest [32]byte
		if _, err := hex.Decode(digest[:], []byte(sum)); err != nil {
			return identity.Tenant{}, fmt.Errorf("tenant %s: %w", def.ID, err)
		}
		t.KeySHA256 = append(t.KeySHA256, digest)
	}
	return t, nil
}

// accessOf converts the models, budgets, the permission to leave and the opt-in to traces of a tenant, nil if there are none.
func accessOf(def config.Tenant) *identity.Access {
	if len(def.Models) == 0 && len(def.Budgets) == 0 && !def.AllowExternal && !def.TraceContent && !def.ForgetResponses {
		return nil
	}
	a := &identity.Access{Models: def.Models, External: def.AllowExternal, TraceContent: def.TraceContent, Forget: def.ForgetResponses}
	for _, b := range def.Budgets {
		a.Budgets = append(a.Budgets, identity.Budget{
			Tokens: int64(b.Tokens), NanoUSD: int64(math.Round(b.USD * 1e9)), Per: identity.Period(b.Per), DenyOnLoss: b.OnRedisLoss == config.OnLossDeny,
		})
	}
	return a
}

// networks parses the CIDRs of a field.
func networks(field string, cidrs []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, cidr := range cidrs {
		p, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		list = append(list, p)
	}
	return list, nil
}
