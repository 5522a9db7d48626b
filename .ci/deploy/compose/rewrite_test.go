package compose

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
