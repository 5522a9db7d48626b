package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/foregate/foregate/internal/yamlfile"
)

// Kind is how a Redis is reached.
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

	// Settings besides the URL (see [Redis]).
	CAFile, CertFile, KeyFile, ServerName string
	SentinelUsername                      string
	PasswordFile, SentinelPasswordFile    SecretFile
}

// SecretFile is the path of a file with one secret, and the setting that names it. Both are "" if there is
// none.
type SecretFile struct{ Setting, Path string }

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

// ParseRedis parses a Redis URL. Its errors never repeat the URL, which may hold a password.
func ParseRedis(raw string) (Endpoint, error) {
	switch raw {
	case "", string(KindNone):
		return Endpoint{Kind: KindNone}, nil
	case string(KindEmbedded):
		return Endpoint{Kind: KindEmbedded}, nil
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return Endpoint{}, errRedis
	}
	e := Endpoint{Network: "tcp", Kind: KindSingle}
	transport, topology, _ := strings.Cut(scheme, "+")
	switch transport {
	case "redis":
	case "rediss":
		e.TLS = true
	case "unix":
		e.Network = "unix"
	default:
		return Endpoint{}, errRedis
	}
	switch {
	case scheme == transport:
	case topology == string(KindSentinel) && e.Network == "tcp":
		e.Kind = KindSentinel
	case topology == string(KindCluster) && e.Network == "tcp":
		e.Kind = KindCluster
	default:
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
	if i := strings.LastIndexByte(addr, ':'); i > 0 && hostOK(strings.Trim(addr[:i], "[]")) && !hostOK(addr) {
		return "", errors.New("the port is not a number of 1 … 65535")
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
	if !hostOK(bare) {
		return "", errors.New("a host is missing or malformed; want HOST:PORT")
	}
	return net.JoinHostPort(bare, port), nil
}

// splitAddr splits host:port; the host may be missing, the port may be 0.
func splitAddr(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, errors.New("not an address with a port")
	}
	if host != "" && !hostOK(host) {
		return "", 0, errors.New("the host is malformed")
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, errors.New("the port is not a number of 0 … 65535")
	}
	return host, int(n), nil
}

// hostOK reports whether s is an IP address or has the form of a host name.
func hostOK(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return len(s) > 0 && len(s) <= 253 && yamlfile.Only(s, ".-_") && s[0] != '-' && s[0] != '.' && !strings.Contains(s, "..")
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// CheckAdmin refuses an address that is not on loopback, for an admin listener without tokens.
func CheckAdmin(addr string) error {
	host, _, err := splitAddr(addr)
	if err != nil {
		return fmt.Errorf("%w; want host:port such as 127.0.0.1:9090", err)
	}
	if !loopback(host) {
		return errors.New("must be on loopback (127.0.0.1:9090) without tokens, because whoever reaches it can profile this process and drain backends; " +
			"give admin_tokens_file, or use a tunnel")
	}
	return nil
}

// baseURL checks a backend's URL and returns its canonical form. Errors never repeat it.
func baseURL(raw string) (string, error) {
	return server{like: "http://host:8000", secrets: "credentials do not belong in a backend's URL; remove what is before the @", tail: "/v1", adds: "the paths"}.url(raw)
}

// server describes the target of a base URL, for error messages.
type server struct {
	like    string // an example URL
	secrets string // where credentials belong
	tail    string // a path suffix that does not belong in it …
	adds    string // … because the gateway appends it
}

// url checks a base URL and returns its canonical form. Errors never repeat it.
func (s server) url(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Opaque != "" {
		return "", errors.New("want a URL such as " + s.like)
	}
	if u.User != nil {
		return "", errors.New(s.secrets)
	}
	if u.RawQuery != "" || u.ForceQuery || strings.ContainsRune(raw, '#') {
		return "", errors.New("want the base URL alone, without ? and #")
	}
	if !hostOK(u.Hostname()) {
		return "", errors.New("the host is missing or malformed; want a URL such as " + s.like)
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); u.Host != bracket(u.Hostname()) && (err != nil || n == 0) {
		return "", errors.New("the port is not a number of 1 … 65535")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if strings.HasSuffix(path, s.tail) {
		return "", fmt.Errorf("leave out %s; the gateway adds %s itself", s.tail, s.adds)
	}
	if !yamlfile.Only(path, "/._-") || strings.Contains(path, "//") || strings.Contains(path, "..") {
		return "", errors.New("the path is malformed; want a URL such as " + s.like)
	}
	return u.Scheme + "://" + strings.ToLower(u.Host) + path, nil
}

func bracket(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
