package app

import (
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
	o := f.Identity
	o.Tenants = f.Tenants
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

// setRights puts the rights of tenants in a configuration into force, but for those in tenants_file.
func (a *App) setRights(f *config.File) {
	a.identity.SetUnlisted(f.Identity.Unlisted, f.Identity.Default)
	if f.TenantsFile == "" {
		a.identity.SetTenants(f.Tenants)
	}
}

// identityFiles are the configured files about callers.
func identityFiles(f *config.File, who *identity.Resolver) []files.File {
	tenants := func(contents [][]byte) error {
		list, err := config.Tenants(contents[0], f.Identity.Mode)
		if err == nil {
			who.SetTenants(list)
		}
		return err
	}
	issuers := func(contents [][]byte) error { return who.SetKeySet(contents[0]) }
	all := []files.File{
		{Setting: "tenants_file", Paths: []string{f.TenantsFile}, Max: config.MaxFile, Apply: tenants},
		{Setting: "identity.jwt.jwks_file", Paths: []string{f.Identity.JWT.JWKSFile}, Max: identity.MaxKeySet, Apply: issuers},
	}
	return slices.DeleteFunc(all, func(file files.File) bool { return file.Paths[0] == "" })
}
