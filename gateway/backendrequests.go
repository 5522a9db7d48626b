package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	minDrain = time.Second
	maxDrain = 30 * 24 * time.Hour
	// drainAfterSpot is how long a spot machine stays drained after its end. By then it has left discovery,
	// or its address belongs to another machine.
	drainAfterSpot = 10 * time.Minute
	maxSpotNotice  = 24 * time.Hour // longest accepted notice
)

// backendRequest is an action of an operator, or a cloud's notice, for one backend.
type backendRequest struct {
	pool, backend, why string
	duration           time.Duration // 0: without end
}

// query parses parameters strictly: with a misspelt or repeated parameter the action could hit another
// backend.
func query(raw string, known []string) (url.Values, error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badParam("", "the query is malformed; escape & ; % + as in a URL")
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(known, name) {
			return nil, badParam(clip(name), "unknown parameter; known here: "+strings.Join(known, ", "))
		}
		if len(q[name]) > 1 {
			return nil, badParam(name, "is given twice")
		}
	}
	return q, nil
}

// count reads the parameter n, a number from 1 to most; the default is some.
func count(q url.Values, some, maximum int) (int, error) {
	if !q.Has("n") {
		return some, nil
	}
	n, err := strconv.Atoi(q.Get("n"))
	if err != nil || n < 1 || n > maximum {
		return 0, badParam("n", fmt.Sprintf("want a whole number, 1 … %d", maximum))
	}
	return n, nil
}

func badParam(name, message string) *problem {
	p := invalid(http.StatusBadRequest, "bad_parameter", message)
	if name != "" {
		p.body.Param, p.body.Message = name, name+": "+message
	}
	return p
}

// readDrain reads backend, pool, for and why. The body is ignored.
func readDrain(q url.Values, _ []byte) (backendRequest, error) {
	o, err := readUndrain(q, nil)
	if err != nil {
		return backendRequest{}, err
	}
	if o.duration, err = readDuration(q); err != nil {
		return backendRequest{}, err
	}
	o.why = cmp.Or(q.Get("why"), "by hand")
	if len(o.why) > 256 || !utf8.ValidString(o.why) || strings.ContainsFunc(o.why, unicode.IsControl) {
		return backendRequest{}, badParam("why", "want at most 256 bytes of text in one line")
	}
	return o, nil
}

// readUndrain reads backend and pool.
func readUndrain(q url.Values, _ []byte) (backendRequest, error) {
	o := backendRequest{pool: q.Get("pool"), backend: q.Get("backend")}
	if o.backend == "" {
		return backendRequest{}, badParam("backend", "is missing; give an id such as 10.0.0.7-8000, its host:port or its base URL")
	}
	for _, p := range []struct{ name, value string }{{"backend", o.backend}, {"pool", o.pool}} {
		if len(p.value) > 256 || strings.ContainsFunc(p.value, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return backendRequest{}, badParam(p.name, "want at most 256 printable ASCII characters without spaces")
		}
	}
	return o, nil
}

// readDuration reads for, a duration; none is 0.
func readDuration(q url.Values) (time.Duration, error) {
	if !q.Has("for") {
		return 0, nil
	}
	d, err := time.ParseDuration(q.Get("for"))
	if err != nil || d < minDrain || d > maxDrain {
		return 0, badParam("for", fmt.Sprintf("want a duration such as 10m, %s … %s", minDrain, maxDrain))
	}
	return d, nil
}

// readSpotNotice reads a cloud's notice. The query was written by an operator and takes precedence over the
// body. Of the body only three fields are read, if it is JSON: clouds send various formats.
func readSpotNotice(q url.Values, body []byte) (backendRequest, error) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(body, &fields) // another format is not an error
	for _, name := range []string{"backend", "pool"} {
		var text string
		if raw, ok := fields[name]; ok && !q.Has(name) {
			if json.Unmarshal(raw, &text) != nil {
				return backendRequest{}, badParam(name, "want text in the body")
			}
			q.Set(name, text)
		}
	}
	var notice float64
	if raw, ok := fields["deadline_seconds"]; ok {
		if json.Unmarshal(raw, &notice) != nil || notice < 0 || notice > maxSpotNotice.Seconds() {
			return backendRequest{}, badParam("deadline_seconds", fmt.Sprintf("want seconds, 0 … %g", maxSpotNotice.Seconds()))
		}
	}
	o, err := readUndrain(q, nil)
	if err != nil {
		return backendRequest{}, err
	}
	o.why = "spot notice"
	if o.duration, err = readDuration(q); err != nil {
		return backendRequest{}, err
	}
	o.duration = cmp.Or(o.duration, time.Duration(math.Ceil(notice))*time.Second+drainAfterSpot)
	return o, nil
}

// withoutPort returns a Host header without its port.
func withoutPort(host string) string {
	if strings.IndexByte(host, ':') < 0 {
		return host
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return host
}

// plainHost reports whether only this machine or its network can resolve host.
func plainHost(host string) bool {
	host = withoutPort(host)
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}
