package app

import (
	"crypto/tls"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/identity"
)

// The files that a configuration names, but for those of pools (credentials.go).

// sealer seals answers with the keys of the configured file, which is reloaded when it changes.
func sealer(c config.Cache, watcher *files.Watcher, log zerolog.Logger) (*cache.Sealer, error) {
	if c.SealKeysFile == "" {
		return cache.NewSealer()
	}
	var s *cache.Sealer
	err := watcher.Add(files.File{
		Setting: "cache.seal_keys_file", Paths: []string{c.SealKeysFile}, Max: files.MaxSecrets, Secret: true,
		Apply: func(contents [][]byte) error {
			lines, err := files.Keys(contents[0])
			if err != nil {
				return err
			}
			keys := make([]cache.SealKey, len(lines))
			for i, line := range lines {
				keys[i] = cache.SealKey(line)
			}
			if s == nil {
				s, err = cache.NewSealer(keys...)
				return err
			}
			before := s.Salt("")
			if err := s.Replace(keys...); err != nil {
				return err
			}
			if s.Salt("") != before {
				log.Info().Str("key", keys[0].ID).Msg("answers are sealed with another key, and cache_salt has changed with it: engines compute each prefix once more")
			}
			return nil
		},
	})
	return s, err
}

// resolver makes the resolver of callers from the configuration. files reloads the files that it names when
// they change; unpriced are the pools without a price in the configuration that is then in force.
func resolver(f *config.File, watcher *files.Watcher, unpriced func() []string) (*identity.Resolver, error) {
	o := f.Identity
	o.Tenants = f.Tenants
	who, err := identity.New(o)
	if err != nil {
		return nil, err
	}
	tenants := func(contents [][]byte) error {
		list, err := config.Tenants(contents[0], f.Identity.Mode, unpriced())
		if err == nil {
			who.SetTenants(list)
		}
		return err
	}
	issuers := func(contents [][]byte) error { return who.SetKeySet(contents[0]) }
	for _, file := range []files.File{
		{Setting: "tenants_file", Paths: []string{f.TenantsFile}, Max: config.MaxFile, Apply: tenants},
		{Setting: "identity.jwt.jwks_file", Paths: []string{f.Identity.JWT.JWKSFile}, Max: identity.MaxKeySet, Apply: issuers},
	} {
		if file.Paths[0] == "" {
			continue
		}
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

// adminTokensFile is the file of the operators' tokens.
func adminTokensFile(f *config.File, apply func([][]byte) error) files.File {
	return files.File{Setting: "admin_tokens_file", Paths: []string{f.AdminTokensFile}, Max: files.MaxSecrets, Secret: true, Apply: apply}
}

// AdminTokens reads the operators' tokens once.
func AdminTokens(f *config.File) (tokens []files.Token, err error) {
	err = files.New(files.Options{Logger: zerolog.Nop()}).Add(adminTokensFile(f, func(contents [][]byte) (err error) {
		tokens, err = gateway.OperatorTokens(contents[0])
		return err
	}))
	return tokens, err
}

// listeners are the certificates of the listeners; nil is plain HTTP.
type listeners struct {
	expiry        *files.Expiry
	public, admin func() *tls.Config // for a new connection
}

// listenerTLS reads the files of a listener that speaks TLS; nil is plain HTTP.
func listenerTLS(setting string, t config.ListenerTLS, watcher *files.Watcher, expiry *files.Expiry) (func() *tls.Config, error) {
	if !t.On() {
		return nil, nil
	}
	l := &files.Listener{Setting: setting, Expiry: expiry}
	file := files.File{
		Setting: setting, Paths: []string{t.CertFile, t.KeyFile}, Fields: files.ListenerFields, Max: files.MaxCertificates,
		Secret: true, Public: []string{t.CertFile}, Apply: l.Apply,
	}
	if t.ClientCAFile != "" {
		file.Paths = append(file.Paths, t.ClientCAFile)
		file.Public = append(file.Public, t.ClientCAFile)
	}
	if err := watcher.Add(file); err != nil {
		return nil, err
	}
	return l.Config, nil
}

// collectorHeaders reads the headers for a collector of traces from the file at path; "" is none.
func collectorHeaders(path string) (map[string]string, error) {
	headers := map[string]string{}
	if path == "" {
		return headers, nil
	}
	data, _, err := files.Read(path, files.MaxHeaders)
	if err != nil {
		return nil, fmt.Errorf("tracing.headers_file: %w", err)
	}
	list, err := files.Headers(data)
	if err != nil {
		return nil, fmt.Errorf("tracing.headers_file: %w", err)
	}
	for _, h := range list {
		headers[h.Name] = h.Value
	}
	return headers, nil
}
