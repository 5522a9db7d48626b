package config

// The settings of files that hold a password.
const (
	passwordFile         = "redis.password_file"
	settingsPasswordFile = "redis.settings_password_file"
	sentinelPasswordFile = "redis.sentinel_password_file"
)

// Endpoint is the Redis for coordination.
func (r Redis) Endpoint() (Endpoint, error) {
	return r.endpoint(r.URL, SecretFile{passwordFile, r.PasswordFile})
}

// CacheEndpoint is the Redis for cached answers: that of coordination, unless CacheURL is set.
func (r Redis) CacheEndpoint() (Endpoint, error) {
	if r.CacheURL == "" {
		return r.Endpoint()
	}
	return r.endpoint(r.CacheURL, SecretFile{passwordFile, r.PasswordFile})
}

// SettingsEndpoint is where operators write live settings: the Redis for coordination, with a user that may
// write them.
func (r Redis) SettingsEndpoint() (Endpoint, error) {
	if r.SettingsURL == "" {
		return r.Endpoint()
	}
	return r.endpoint(r.SettingsURL, SecretFile{settingsPasswordFile, r.SettingsPasswordFile})
}

// endpoint combines a URL, the settings besides it, and its user's password file.
func (r Redis) endpoint(raw string, password SecretFile) (Endpoint, error) {
	e, err := ParseRedis(raw)
	if err != nil {
		return e, err
	}
	if e.TLS {
		e.CAFile, e.CertFile, e.KeyFile, e.ServerName = r.CAFile, r.CertFile, r.KeyFile, r.ServerName
	}
	if e.Kind == KindSentinel {
		e.SentinelUsername = r.SentinelUsername
		if r.SentinelPasswordFile != "" {
			e.SentinelPasswordFile = SecretFile{sentinelPasswordFile, r.SentinelPasswordFile}
		}
	}
	if e.Shared() && password.Path != "" {
		e.PasswordFile = password
	}
	return e, nil
}

func (r reader) checkRedis(f *File) {
	if f.Redis.URL == "" {
		f.Redis.URL = "none"
	}
	control, err := f.Redis.Endpoint()
	if err != nil {
		r.Fail("redis.url", "%v", err)
	}
	cache, err2 := f.Redis.CacheEndpoint()
	if err2 != nil && f.Redis.CacheURL != "" {
		r.Fail("redis.cache_url", "%v", err2)
	}
	if f.Redis.SettingsURL != "" && err == nil {
		r.checkSettingsURL(f.Redis, control)
	}
	if err != nil || err2 != nil {
		return // without a valid URL the other settings cannot be checked
	}
	if own, err := f.Redis.SettingsEndpoint(); err == nil && own.TLS {
		control.TLS = true // so that the TLS settings are read
	}
	if !control.TLS && !cache.TLS {
		for _, field := range []string{"ca_file", "cert_file", "key_file", "server_name"} {
			r.idleRedis(field, "rediss://… (TLS)")
		}
	}
	if control.Kind != KindSentinel && cache.Kind != KindSentinel {
		r.idleRedis("sentinel_username", "redis+sentinel://…")
		r.idleRedis("sentinel_password_file", "redis+sentinel://…")
	}
	switch {
	case r.Has("redis.cert_file") && !r.Has("redis.key_file"):
		r.Fail("redis.cert_file", "needs redis.key_file, the certificate's private key")
	case r.Has("redis.key_file") && !r.Has("redis.cert_file"):
		r.Fail("redis.key_file", "needs redis.cert_file, the certificate that the key belongs to")
	case r.Has("redis.sentinel_username") && !r.Has(sentinelPasswordFile):
		r.Fail("redis.sentinel_username", "needs "+sentinelPasswordFile)
	}
	r.checkPasswords(f.Redis)
	if name := f.Redis.ServerName; name != "" && !hostOK(name) && r.Sound("redis.server_name") {
		r.Fail("redis.server_name", "want the name in the server's certificate, such as redis.internal")
	}
}

// checkPasswords ensures that each password is in one place, and that each password file is used. The readers
// of the files check their content.
func (r reader) checkPasswords(f Redis) {
	for _, p := range []SecretFile{
		{passwordFile, f.PasswordFile}, {settingsPasswordFile, f.SettingsPasswordFile}, {sentinelPasswordFile, f.SentinelPasswordFile},
	} {
		if r.Has(p.Setting) {
			r.checkPath(p.Setting, p.Path, "")
		}
	}
	used := false
	for _, u := range []struct{ url, raw, file string }{
		{"redis.url", f.URL, passwordFile}, {"redis.cache_url", f.CacheURL, passwordFile}, {"redis.settings_url", f.SettingsURL, settingsPasswordFile},
	} {
		e, err := ParseRedis(u.raw)
		used = used || u.file == passwordFile && e.Shared()
		if err == nil && r.Has(u.file) && e.Password != "" {
			r.Fail(u.file, "%s holds a password as well; remove it there (USER@HOST), or remove this", u.url)
		}
	}
	if !used {
		r.idleRedis("password_file", "a Redis in redis.url or redis.cache_url")
	}
	if f.SettingsURL == "" {
		r.idleRedis("settings_password_file", "redis.settings_url")
	}
}

// idleRedis refuses a setting that no URL uses.
func (r reader) idleRedis(field, scheme string) {
	if r.Has("redis." + field) {
		r.Fail("redis."+field, "is only read with %s; change the URL or remove this", scheme)
	}
}

// checkSettingsURL ensures that it leads to the same data with another user.
func (r reader) checkSettingsURL(f Redis, control Endpoint) {
	const path = "redis.settings_url"
	own, err := f.SettingsEndpoint()
	switch {
	case err != nil:
		r.Fail(path, "%v", err)
	case own.Kind != control.Kind || own.DB != control.DB || own.Master != control.Master:
		r.Fail(path, "want the Redis of redis.url, with another user: live settings are read from there")
	case own.Kind == KindNone || own.Kind == KindEmbedded:
		r.Fail(path, "is only of use beside a Redis in redis.url; remove it")
	}
}
