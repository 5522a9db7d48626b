package discover

import (
	"bytes"
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

// parseTargets parses [{"targets":["host:port"],"labels":{…}}]. Of the labels, __scheme__ tells how a
// group's targets are reached; the others belong to Prometheus. line is that of the error.
func parseTargets(data []byte, o Options) (urls []string, line int, err error) {
	t := &targets{o: o, data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	err = t.each('[', t.group)
	if err == nil {
		if _, more := t.dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the list")
		}
	}
	if err == nil {
		return t.urls, 0, nil
	}
	at := t.dec.InputOffset()
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = syntax.Offset
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		at, err = int64(len(data)), errors.New("ends in the middle of the list; the file may be half written")
	}
	return nil, 1 + bytes.Count(data[:min(at, int64(len(data)))], []byte("\n")), err
}

// targets parses the JSON token by token, so that errors have a line.
type targets struct {
	o    Options
	data []byte
	dec  *json.Decoder
	urls []string

	hosts []string // of the current group
}

// each calls item for every element of the array or object that begins here with the delimiter open.
func (t *targets) each(open json.Delim, item func() error) error {
	tok, err := t.dec.Token()
	if err != nil {
		return err
	}
	if tok != open {
		return fmt.Errorf(`want %s here, as in [{"targets":["host:8000"]}]`, open)
	}
	for t.dec.More() {
		if err := item(); err != nil {
			return err
		}
	}
	_, err = t.dec.Token()
	return err
}

// group reads one {"targets":[…],"labels":{…}}.
func (t *targets) group() error {
	scheme := t.o.scheme()
	t.hosts = t.hosts[:0]
	err := t.each('{', func() error {
		key, err := t.dec.Token()
		switch {
		case err != nil:
			return err
		case key == "targets":
			return t.each('[', t.target)
		case key == "labels":
			return t.labels(&scheme)
		}
		return errors.New("unknown field; known here: labels, targets")
	})
	if err != nil {
		return err
	}
	for _, host := range t.hosts { // the labels may follow the targets
		u, err := t.o.base(scheme + "://" + host)
		if err != nil {
			return err
		}
		t.urls = append(t.urls, u)
	}
	return nil
}

func (t *targets) labels(scheme *string) error {
	return t.each('{', func() error {
		key, err := t.dec.Token()
		if err != nil {
			return err
		}
		value, err := t.text()
		switch {
		case err != nil:
			return err
		case key == "__scheme__" && value != "http" && value != "https":
			return errors.New("__scheme__ must be http or https")
		case key == "__scheme__":
			*scheme = value
		}
		return nil
	})
}

// target reads one "host:port".
func (t *targets) target() error {
	text, err := t.text()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || !portOK(port) {
		return errors.New("want a target such as host:8000, without a scheme or a path")
	}
	if !hostOK(host) || strings.Contains(host, "%") {
		return errors.New("the host is malformed; want a target such as host:8000")
	}
	t.hosts = append(t.hosts, text)
	return nil
}

// text reads a string.
func (t *targets) text() (string, error) {
	tok, err := t.dec.Token()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", errors.New("want text in quotes here")
	}
	return s, nil
}
