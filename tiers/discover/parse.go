package discover

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
)

// maxFile is the maximum size of a list in bytes: about a hundred times [MaxBackends] backends.
const maxFile = 1 << 20

// parse parses a list of backends, which is called name in errors: the JSON of Prometheus' file_sd if it
// begins with [, otherwise lines.
func parse(name string, data []byte, o Options) ([]string, error) {
	var (
		urls []string
		line int
		err  error
	)
	switch first := bytes.TrimLeft(data, " \t\r\n"); {
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s: is larger than %d bytes", name, maxFile)
	case len(first) > 0 && first[0] == '{':
		return nil, fmt.Errorf(`%s:1: want a list, as in [{"targets":["host:8000"]}]`, name)
	case len(first) > 0 && first[0] == '[':
		urls, line, err = parseTargets(data, o)
	default:
		urls, line, err = parseLines(data, o)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s:%d: %w", name, line, err)
	case len(urls) == 0:
		return nil, fmt.Errorf("%s: names no backends", name)
	}
	return tidy(urls), nil
}

// parseLines parses one base URL per line; # begins a comment, at the beginning of a line or after a space. A
// last line without a line end is refused: it may be half a URL, which looks like a whole one. line is that
// of the error.
func parseLines(data []byte, o Options) (urls []string, line int, err error) {
	for text := range strings.Lines(string(data)) {
		line++
		if !strings.HasSuffix(text, "\n") {
			return nil, line, errors.New("the last line has no line end; the file may be half written")
		}
		text = strings.TrimSpace(uncomment(text))
		if text == "" {
			continue
		}
		u, err := o.base(text)
		if err != nil {
			return nil, line, err
		}
		urls = append(urls, u)
	}
	return urls, line, nil
}

func uncomment(line string) string {
	for i, c := range line {
		if c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return line[:i]
		}
	}
	return line
}

// base is base for a pool that may want https.
func (o *Options) base(raw string) (string, error) {
	clean, err := base(raw)
	if err == nil && o.HTTPS && !strings.HasPrefix(clean, "https://") {
		return "", errors.New("want https://: the pool has tls")
	}
	return clean, err
}

// base is URL for text written by people: it refuses what would only fail later, and its errors repeat
// nothing that may contain a password.
func base(raw string) (string, error) {
	if strings.ContainsFunc(raw, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", errors.New("has spaces or characters beyond ASCII; want one URL such as http://host:8000")
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("want a URL such as http://host:8000")
	}
	if p := u.Port(); p != "" && !portOK(p) {
		return "", errors.New("the port is not a number of 1 … 65535")
	}
	clean, err := URL(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w; want a URL such as http://host:8000", err)
	case strings.HasSuffix(clean, "/v1"):
		return "", errors.New("leave out /v1; the gateway adds the paths itself")
	}
	return clean, nil
}

// group is one {"targets":["host:port"],"labels":{…}} of file_sd. Of the labels, __scheme__ tells how the targets are
// reached; the others belong to Prometheus.
type group struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// parseTargets parses a list of groups. line is that of the error: where the group begins if one of its values is refused.
func parseTargets(data []byte, o Options) (urls []string, line int, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	at := int64(0)
	_, err = dec.Token() // the [ that the caller has seen
	for err == nil && dec.More() {
		var g group
		at = dec.InputOffset() + 1 // behind the comma
		if err = dec.Decode(&g); err == nil {
			urls, err = g.add(urls, &o)
		}
	}
	if err == nil {
		_, err = dec.Token()
	}
	if err == nil {
		at = dec.InputOffset()
		if _, more := dec.Token(); errors.Is(more, io.EOF) {
			return urls, 0, nil
		}
		err = errors.New("something follows the list")
	}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		at, err = int64(len(data)), errors.New("ends in the middle of the list; the file may be half written")
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &kind):
		err = fmt.Errorf(`a %s is out of place; want [{"targets":["host:8000"]}]`, kind.Value)
	}
	before, after := data[:min(at, int64(len(data)))], data[min(at, int64(len(data))):]
	space := len(after) - len(bytes.TrimLeft(after, " \t\r\n"))
	return nil, 1 + bytes.Count(before, []byte("\n")) + bytes.Count(after[:space], []byte("\n")), err
}

// add appends the base URLs of a group's targets.
func (g *group) add(urls []string, o *Options) ([]string, error) {
	scheme := cmp.Or(g.Labels["__scheme__"], o.scheme())
	if scheme != "http" && scheme != "https" {
		return nil, errors.New("__scheme__ must be http or https")
	}
	for i, text := range g.Targets {
		host, port, err := net.SplitHostPort(text)
		switch {
		case err != nil || !portOK(port):
			return nil, fmt.Errorf("target %d: want a target such as host:8000, without a scheme or a path", i+1)
		case !hostOK(host) || strings.Contains(host, "%"):
			return nil, fmt.Errorf("target %d: the host is malformed; want a target such as host:8000", i+1)
		}
		u, err := o.base(scheme + "://" + text)
		if err != nil {
			return nil, err
		}
		urls = append(urls, u)
	}
	return urls, nil
}
