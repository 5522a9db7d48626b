package config

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// Tracing says where traces are sent to, and of how many requests.
type Tracing struct {
	OTLP        string  // base URL of a collector that takes OTLP over HTTP, without a trailing slash; "" is none, and no tracing
	Sample      float64 // of the requests that no traceparent decides about, 0 … 1; default 0.1
	HeadersFile string  // path of the headers that the collector wants, such as its key; "" is none
}

// defaultSample is what is recorded where nobody says how much.
const defaultSample = 0.1

// tracing reads the section of that name.
func tracing(to *Tracing) value {
	return group(map[string]value{
		"otlp":         text(&to.OTLP),
		"sample":       amount(&to.Sample, 1),
		"headers_file": text(&to.HeadersFile),
	})
}

func (r *reader) checkTracing(t *Tracing) {
	const otlp, headers = "tracing.otlp", "tracing.headers_file"
	if r.has(headers) {
		r.checkPath(headers, t.HeadersFile, "")
	}
	switch {
	case !r.has("tracing") || !r.sound("tracing") || !r.sound(otlp):
	case !r.has(otlp):
		r.fail(otlp, "missing; give the collector's URL, such as http://collector:4318, or remove tracing")
	default:
		clean, err := collectorURL(t.OTLP)
		if err != nil {
			r.fail(otlp, "%v", err)
		}
		t.OTLP = clean
	}
}

// collectorURL checks a collector's base URL and returns its one spelling. Errors never repeat it.
func collectorURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Opaque != "":
		return "", errors.New("want a URL such as http://collector:4318")
	case u.User != nil:
		return "", errors.New("credentials do not belong in the URL; put the header that the collector wants into headers_file")
	case u.RawQuery != "" || u.ForceQuery || strings.ContainsRune(raw, '#'):
		return "", errors.New("want the base URL alone, without ? and #")
	case !hostOK(u.Hostname()):
		return "", errors.New("the host is missing or malformed; want a URL such as http://collector:4318")
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); u.Host != bracket(u.Hostname()) && (err != nil || n == 0) {
		return "", errors.New("the port is not a number of 1 … 65535")
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if strings.HasSuffix(path, "/v1/traces") {
		return "", errors.New("leave out /v1/traces; the gateway adds the path itself")
	}
	if !only(path, "/._-") || strings.Contains(path, "//") || strings.Contains(path, "..") {
		return "", errors.New("the path is malformed; want a URL such as http://collector:4318")
	}
	return u.Scheme + "://" + strings.ToLower(u.Host) + path, nil
}
