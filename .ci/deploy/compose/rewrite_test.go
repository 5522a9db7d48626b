package compose

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rewriter turns what is meant for a container into what is meant for a process on loopback:
// other services' addresses, addresses of one's own, and paths.
type rewriter struct {
	service string
	ports   map[string]int    // by SERVICE:PORT, of all services
	paths   map[string]string // by the path in the container
}

// text rewrites all that it finds, each place once.
func (r *rewriter) text(s string) string {
	var hosts []string
	for at := range r.ports {
		host, _, _ := strings.Cut(at, ":")
		hosts = append(hosts, regexp.QuoteMeta(host))
	}
	slices.SortFunc(hosts, longest)
	address := regexp.MustCompile(`(^|[^\w.-])(` + strings.Join(slices.Compact(hosts), "|") + `|0\.0\.0\.0|127\.0\.0\.1):([0-9]+)\b`)
	s = address.ReplaceAllStringFunc(s, func(found string) string {
		part := address.FindStringSubmatch(found)
		host := part[2]
		if host == "0.0.0.0" || host == "127.0.0.1" {
			host = r.service
		}
		port, ok := r.ports[host+":"+part[3]]
		if !ok {
			return found
		}
		return fmt.Sprintf("%s127.0.0.1:%d", part[1], port)
	})
	s = regexp.MustCompile(`\b0\.0\.0\.0\b`).ReplaceAllString(s, "127.0.0.1")
	if len(r.paths) == 0 {
		return s
	}
	targets := slices.SortedFunc(maps.Keys(r.paths), longest)
	for i, target := range targets {
		targets[i] = regexp.QuoteMeta(target)
	}
	path := regexp.MustCompile(`(^|[^\w./-])(` + strings.Join(targets, "|") + `)\b`)
	return path.ReplaceAllStringFunc(s, func(found string) string {
		part := path.FindStringSubmatch(found)
		return part[1] + r.paths[part[2]]
	})
}

// args rewrites a command line, in which a port may stand alone behind its flag.
func (r *rewriter) args(args []string) []string {
	var out []string
	for i, a := range args {
		if port, ok := r.ports[r.service+":"+a]; ok && i > 0 && args[i-1] == "--port" {
			a = strconv.Itoa(port)
		}
		out = append(out, r.text(a))
	}
	return out
}

func longest(a, b string) int {
	if len(a) != len(b) {
		return len(b) - len(a)
	}
	return strings.Compare(a, b)
}

func TestWhatIsMeantForAContainerIsRewrittenForAProcess(t *testing.T) {
	r := rewriter{
		service: "gateway-1",
		ports:   map[string]int{"gateway-1:8080": 1, "gateway-1:9090": 2, "redis:6379": 3, "redis-cache:6379": 4, "gateway-1:6379": 5},
		paths:   map[string]string{"/data": "/tmp/d", "/etc/prometheus": "/tmp/p", "/etc/prometheus/data": "/tmp/q", "/run/secrets/a": "/tmp/a"},
	}
	for give, want := range map[string]string{
		"listen: 0.0.0.0:8080":                        "listen: 127.0.0.1:1",
		"redis://u:p@redis:6379/0":                    "redis://u:p@127.0.0.1:3/0",
		"redis://u:p@redis-cache:6379/0":              "redis://u:p@127.0.0.1:4/0",
		`["http://gateway-1:8080", "gateway-1:9090"]`: `["http://127.0.0.1:1", "127.0.0.1:2"]`,
		"server gateway-1 gateway-1:8080":             "server gateway-1 127.0.0.1:1",
		"http://127.0.0.1:9090/x":                     "http://127.0.0.1:2/x",
		"127.0.0.11:53 other:80":                      "127.0.0.11:53 other:80",
		"--bind 0.0.0.0":                              "--bind 127.0.0.1",
		"--path=/data /data/x":                        "--path=/tmp/d /tmp/d/x",
		"/etc/prometheus/data/1 /etc/prometheus/r":    "/tmp/q/1 /tmp/p/r",
		"$(cat /run/secrets/a) /var/data /database":   "$(cat /tmp/a) /var/data /database",
	} {
		if got := r.text(give); got != want {
			t.Errorf("%s: %s, want %s", give, got, want)
		}
	}
	if got := r.args([]string{"--port", "6379", "6379"}); !slices.Equal(got, []string{"--port", "5", "6379"}) {
		t.Errorf("%v", got)
	}
}
