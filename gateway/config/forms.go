package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/foregate/foregate/internal/words"
	"github.com/foregate/foregate/internal/yamlfile"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/discover"
	"github.com/foregate/foregate/tiers/openai"
)

// forms are the forms of texts by their names in form tags. None repeats the text in its error, because it may be a secret in the
// wrong place.
var forms = map[string]yamlfile.Form{
	"address": func(s string) (string, error) {
		if _, _, err := splitAddr(s); err != nil {
			return "", fmt.Errorf("%w; want host:port such as 127.0.0.1:8080 or :8080", err)
		}
		return s, nil
	},
	"file": check("want a file's path", func(s string) bool {
		return s != "" && !strings.HasSuffix(s, "/") && !strings.ContainsFunc(s, unicode.IsControl)
	}),
	"host":      check("want the name in the server's certificate, such as vllm.internal", words.IsHost),
	"printable": check("want 1–256 printable ASCII characters without spaces", printable),
	"revision":  check("want 1–64 of A-Z a-z 0-9 . _ : @ / -", word(64, "._:@/-")),
	"route":     check("want 1–128 of A-Z a-z 0-9 . _ : / -", word(maxRoute, routeMarks)), // no @ and no #: settings are written name@route#application
	"models": check("want the model of a route, or its beginning with one * at the end, such as \"code-*\"", func(s string) bool {
		name := strings.TrimSuffix(s, "*")
		return s != "" && (name == "" || word(maxRoute, routeMarks)(name))
	}),
	"tenant":    check("want 1–64 of A-Z a-z 0-9 . _ : -", word(64, "._:-")),
	"discovery": func(s string) (string, error) { return s, discover.Check(s) },
	"engine": func(s string) (string, error) {
		_, err := dialect.ParseKind(s)
		return s, err
	},
	"request field": func(s string) (string, error) { return s, openai.FieldAllowable(s) },
	"passed path":   passedPath,
	"network":       network,
	"backend":       BackendURL,
	"collector": func(s string) (string, error) {
		return server{like: "http://collector:4318", secrets: "credentials do not belong in the URL; put the header that the collector wants into headers_file", tail: "/v1/traces", adds: "the path"}.url(s)
	},
}

// check is a form with one message.
func check(want string, ok func(string) bool) yamlfile.Form {
	return func(s string) (string, error) {
		if !ok(s) {
			return "", errors.New(want)
		}
		return s, nil
	}
}

// A route's name has these characters besides letters and digits, and this length at most.
const (
	routeMarks = "._:/-"
	maxRoute   = 128
)

// word checks for 1 to longest letters, digits and marks.
func word(longest int, marks string) func(string) bool {
	return func(s string) bool { return words.IsName(s, longest, marks) }
}

func printable(s string) bool {
	return s != "" && len(s) <= 256 && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

// network checks a CIDR.
func network(s string) (string, error) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return "", errors.New("want a CIDR such as 10.0.0.0/16, or 10.0.0.7/32 for one address")
	case p.Addr().Is4In6():
		return "", errors.New("write the IPv4 network itself, such as 10.0.0.0/16")
	case p != p.Masked():
		return "", fmt.Errorf("has address bits behind its length; write %s", p.Masked())
	case p.Bits() == 0:
		return "", errors.New("trusts every address there is; list the proxies' own networks")
	}
	return s, nil
}

// engineControl lists paths of vLLM and SGLang that stop, change or reveal an engine. Most of them require no
// authentication.
var engineControl = []string{
	"/pause", "/resume", "/is_paused", "/sleep", "/wake_up", "/is_sleeping", "/abort_requests",
	"/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache", "/collective_rpc", "/server_info",
	"/update_weights", "/init_weight_transfer_engine", "/scale_elastic_ep", "/is_scaling_elastic_ep",
	"/start_profile", "/stop_profile", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/invocations",
	"/metrics", "/load", "/docs", "/redoc", "/tokenizer_info", "/fault_tolerance/apply", "/fault_tolerance/status",
	"/flush_cache", "/clear_hicache_storage_backend", "/update_weights_from_disk", "/update_weights_from_distributed", "/update_weights_from_tensor",
	"/init_weights_update_group", "/destroy_weights_update_group", "/update_weight_version", "/get_weights_by_name",
	"/release_memory_occupation", "/resume_memory_occupation", "/slow_down", "/load_lora_adapter", "/unload_lora_adapter",
	"/open_session", "/close_session", "/configure_logging", "/abort_request", "/pause_generation", "/continue_generation",
	"/set_internal_state", "/get_internal_state", "/get_server_info", "/get_model_info", "/model_info", "/get_load", "/v1/loads", "/freeze_gc",
	"/start_expert_distribution_record", "/stop_expert_distribution_record", "/dump_expert_distribution_record",
}

// served lists the paths that the gateway answers itself.
var served = []string{"/v1/chat/completions", "/v1/completions", "/v1/models", "/livez", "/readyz", "/health", "/ping", "/version"}

// passedPath checks a path that is forwarded.
func passedPath(p string) (string, error) {
	switch {
	case !strings.HasPrefix(p, "/") || !word(128, "/._-")(p) || len(p) < 2 || strings.Contains(p, "//") || strings.Contains(p, "..") ||
		strings.Contains(p, "/./") || strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/."):
		return "", errors.New("want one exact path such as /v1/embeddings: no query, no // and no dots as a part")
	case slices.Contains(engineControl, p):
		return "", errors.New("this path controls or reveals the engine and cannot be opened to clients")
	case slices.Contains(served, p):
		return "", errors.New("the gateway answers this path itself; remove it")
	}
	return p, nil
}

// splitAddr splits host:port; the host may be missing, the port may be 0.
func splitAddr(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, errors.New("not an address with a port")
	}
	if host != "" && !words.IsHost(host) {
		return "", 0, errors.New("the host is malformed")
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return "", 0, errors.New("the port is not a number of 0 … 65535")
	}
	return host, int(n), nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// server describes the target of a base URL, for error messages.
type server struct {
	like    string // an example URL
	secrets string // where credentials belong
	tail    string // a path suffix that does not belong in it …
	adds    string // … because the gateway appends it
}

// BackendURL checks the URL of a backend, as [server.url] does.
func BackendURL(raw string) (string, error) {
	return server{like: "http://host:8000", secrets: "credentials do not belong in a backend's URL; remove what is before the @", tail: "/v1", adds: "the paths"}.url(raw)
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
	if !words.IsHost(u.Hostname()) {
		return "", errors.New("the host is missing or malformed; want a URL such as " + s.like)
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); (u.Port() != "" || strings.HasSuffix(u.Host, ":")) && (err != nil || n == 0) {
		return "", errors.New("the port is not a number of 1 … 65535")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if strings.HasSuffix(path, s.tail) {
		return "", fmt.Errorf("leave out %s; the gateway adds %s itself", s.tail, s.adds)
	}
	if !words.Only(path, "/._-") || strings.Contains(path, "//") || strings.Contains(path, "..") {
		return "", errors.New("the path is malformed; want a URL such as " + s.like)
	}
	return u.Scheme + "://" + strings.ToLower(u.Host) + path, nil
}
