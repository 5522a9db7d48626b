package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/foregate/foregate/internal/words"
	"github.com/foregate/foregate/internal/yamlfile"
)

// Kind is how a Redis is reached; "" is that of a field that was not given.
type Kind string

// The kinds of Redis.
const (
	KindNone     Kind = "none"     // no shared state
	KindEmbedded Kind = "embedded" // inside this process
	KindSingle   Kind = "single"
	KindSentinel Kind = "sentinel"
	KindCluster  Kind = "cluster"
)

// Secret is text that is always printed as ***.
type Secret string

// String hides the secret.
func (Secret) String() string { return "***" }

// GoString hides the secret from %#v.
func (Secret) GoString() string { return "***" }

// MarshalText hides the secret from encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Endpoint is a parsed Redis URL.
type Endpoint struct {
	Kind     Kind
	Network  string   // tcp or unix
	Addrs    []string // host:port, or the socket's path
	TLS      bool
	Username string
	Password Secret
	Master   string // the master's name at the Sentinels
	DB       int
}

// Shared reports whether other processes can reach it.
func (e Endpoint) Shared() bool { return len(e.Addrs) > 0 }

// String is the endpoint without its credentials, for logs.
func (e Endpoint) String() string {
	if len(e.Addrs) == 0 {
		return string(e.Kind)
	}
	s := fmt.Sprintf("%s %s", e.Kind, strings.Join(e.Addrs, ","))
	if e.Master != "" {
		s += " master " + e.Master
	}
	if e.TLS {
		s += " with TLS"
	}
	return s
}

var errRedis = errors.New(`want redis://HOST:6379/0, rediss:// (TLS), unix:///PATH, redis+sentinel://HOST:26379,HOST:26379/MASTER, redis+cluster://HOST:6379,HOST:6379, "embedded" or "none"`)

// UnmarshalText is [ParseRedis], for the configuration.
func (e *Endpoint) UnmarshalText(text []byte) (err error) {
	*e, err = ParseRedis(string(text))
	return err
}

// schemes are the beginnings of URLs.
var schemes = map[string]Endpoint{
	"redis":           {Kind: KindSingle, Network: "tcp"},
	"rediss":          {Kind: KindSingle, Network: "tcp", TLS: true},
	"unix":            {Kind: KindSingle, Network: "unix"},
	"redis+sentinel":  {Kind: KindSentinel, Network: "tcp"},
	"rediss+sentinel": {Kind: KindSentinel, Network: "tcp", TLS: true},
	"redis+cluster":   {Kind: KindCluster, Network: "tcp"},
	"rediss+cluster":  {Kind: KindCluster, Network: "tcp", TLS: true},
}

// ParseRedis parses a Redis URL. Its errors never repeat the URL, which may hold a password.
func ParseRedis(raw string) (Endpoint, error) {
	switch raw {
	case "", string(KindNone):
		return Endpoint{Kind: KindNone}, nil
	case string(KindEmbedded):
		return Endpoint{Kind: KindEmbedded}, nil
	}
	scheme, rest, _ := strings.Cut(raw, "://")
	e, ok := schemes[scheme]
	if !ok {
		return Endpoint{}, errRedis
	}
	return e.fill(rest)
}

// fill parses the part after the scheme: [user:password@]hosts[/path]. net/url does not support lists of
// hosts.
func (e Endpoint) fill(rest string) (Endpoint, error) {
	if strings.ContainsAny(rest, "?#") {
		return Endpoint{}, errors.New("options after ? are not read; write ? and # inside a password as %3F and %23")
	}
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i+1:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		u, err1 := url.PathUnescape(user)
		p, err2 := url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return Endpoint{}, errors.New("the user or password has a % that is no escape; write % as %25")
		}
		e.Username, e.Password, authority = u, Secret(p), authority[i+1:]
	}
	if e.Network == "unix" {
		if authority != "" || path == "" {
			return Endpoint{}, errors.New("want unix:///PATH with three slashes")
		}
		e.Addrs = []string{"/" + path}
		return e, nil
	}
	return e.place(authority, path)
}

// place parses hosts and path of a network URL.
func (e Endpoint) place(hosts, path string) (Endpoint, error) {
	port := "6379"
	if e.Kind == KindSentinel {
		port = "26379"
	}
	for addr := range strings.SplitSeq(hosts, ",") {
		full, err := withPort(addr, port)
		if err != nil {
			return Endpoint{}, err
		}
		e.Addrs = append(e.Addrs, full)
	}
	if e.Kind == KindSingle && len(e.Addrs) > 1 {
		return Endpoint{}, errors.New("several hosts need redis+sentinel:// or redis+cluster://")
	}
	if e.Kind == KindSentinel {
		e.Master, path, _ = strings.Cut(path, "/")
		if e.Master == "" || !yamlfile.SafeName(e.Master) {
			return Endpoint{}, errors.New("the master's name is missing; want redis+sentinel://HOST:26379/MASTER")
		}
	}
	if path == "" {
		return e, nil
	}
	db, err := strconv.Atoi(path)
	if err != nil || db < 0 || db > 1<<14 {
		return Endpoint{}, errors.New("what follows the last / must be the database's number, such as /0")
	}
	if e.Kind == KindCluster && db != 0 {
		return Endpoint{}, errors.New("a cluster has only database 0")
	}
	e.DB = db
	return e, nil
}

// withPort returns host:port, with the default port if addr has none.
func withPort(addr, port string) (string, error) {
	if host, p, err := splitAddr(addr); err == nil && host != "" && p != 0 {
		return addr, nil
	}
	if i := strings.LastIndexByte(addr, ':'); i > 0 && words.IsHost(strings.Trim(addr[:i], "[]")) && !words.IsHost(addr) {
		return "", errors.New("the port is not a number of 1 … 65535")
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
	if !words.IsHost(bare) {
		return "", errors.New("a host is missing or malformed; want HOST:PORT")
	}
	return net.JoinHostPort(bare, port), nil
}

// The settings of files that hold a password.
const (
	PasswordFile         = "redis.password_file"
	SettingsPasswordFile = "redis.settings_password_file"
	SentinelPasswordFile = "redis.sentinel_password_file"
)

// Endpoint is the Redis for coordination.
func (r Redis) Endpoint() Endpoint {
	r.URL.Kind = cmp.Or(r.URL.Kind, KindNone)
	return r.URL
}

// CacheEndpoint is the Redis for cached answers: that of coordination, unless CacheURL is set.
func (r Redis) CacheEndpoint() Endpoint {
	if r.CacheURL.Kind == "" {
		return r.Endpoint()
	}
	return r.CacheURL
}

// SettingsEndpoint is where operators write live settings, and the setting of the file with their password: the Redis for
// coordination, with a user that may write them.
func (r Redis) SettingsEndpoint() (at Endpoint, passwordFile string) {
	if r.SettingsURL.Kind == "" {
		return r.Endpoint(), PasswordFile
	}
	return r.SettingsURL, SettingsPasswordFile
}

func (r reader) checkRedis(f *Redis) {
	if !r.Sound("redis.url") || !r.Sound("redis.cache_url") || !r.Sound("redis.settings_url") {
		return // without valid URLs the other settings cannot be checked
	}
	control, cache := f.Endpoint(), f.CacheEndpoint()
	own, _ := f.SettingsEndpoint()
	switch {
	case cache.Shared() && !control.Shared():
		r.Fail("redis.cache_url", "needs a Redis in redis.url, by which replicas hear of purges")
	case f.SettingsURL.Kind == "":
	case own.Kind != control.Kind || own.DB != control.DB || own.Master != control.Master:
		r.Fail("redis.settings_url", "want the Redis of redis.url, with another user: live settings are read from there")
	case !own.Shared():
		r.Fail("redis.settings_url", "is only of use beside a Redis in redis.url; remove it")
	}
	const tls, sentinel = "rediss://… (TLS)", "redis+sentinel://…"
	used := map[string]bool{
		tls:                    control.TLS || cache.TLS || own.TLS,
		sentinel:               control.Kind == KindSentinel || cache.Kind == KindSentinel,
		"a Redis in redis.url": control.Shared(),
		"redis.settings_url":   f.SettingsURL.Kind != "",
	}
	for _, of := range [][2]string{
		{"ca_file", tls}, {"cert_file", tls}, {"key_file", tls}, {"server_name", tls}, {"sentinel_username", sentinel}, {"sentinel_password_file", sentinel},
		{"password_file", "a Redis in redis.url"}, {"settings_password_file", "redis.settings_url"},
	} {
		if field := "redis." + of[0]; r.Has(field) && !used[of[1]] {
			r.Fail(field, "is only read with %s; change the URL or remove this", of[1])
		}
	}
	for _, u := range []struct {
		url, file string
		at        Endpoint
	}{{"redis.url", PasswordFile, f.URL}, {"redis.cache_url", PasswordFile, f.CacheURL}, {"redis.settings_url", SettingsPasswordFile, f.SettingsURL}} {
		if r.Has(u.file) && u.at.Password != "" {
			r.Fail(u.file, "%s holds a password as well; remove it there (USER@HOST), or remove this", u.url)
		}
	}
}
