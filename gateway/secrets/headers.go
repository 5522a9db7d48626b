package secrets

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Limits of a file of headers.
const (
	MaxHeadersFile = 16 << 10 // bytes
	maxHeaders     = 16
)

// Header is a line "NAME: VALUE".
type Header struct{ Name, Value string } // the name is in its canonical form

// Headers parses a file of HTTP headers, in its order; empty lines and lines that begin with # are ignored. There is at
// least one; names are unique. Errors never repeat a line, because it may be a key.
func Headers(data []byte) ([]Header, error) {
	if len(data) > MaxHeadersFile {
		return nil, fmt.Errorf("more than %d bytes", MaxHeadersFile)
	}
	var headers []Header
	seen := map[string]int{} // line of each name
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("line %d: want NAME: VALUE", n)
		}
		name = http.CanonicalHeaderKey(name)
		switch first := seen[name]; {
		case first > 0:
			return nil, fmt.Errorf("line %d: the name of line %d is there again", n, first)
		case connection[name]:
			return nil, fmt.Errorf("line %d: the header belongs to the connection or to the message's form; remove it", n)
		case len(headers) == maxHeaders:
			return nil, fmt.Errorf("more than %d headers", maxHeaders)
		}
		seen[name] = n
		headers = append(headers, Header{name, value})
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case len(headers) == 0:
		return nil, errors.New("no header in it; want NAME: VALUE in each line")
	}
	return headers, nil
}

// connection are the headers of a connection and of a message's form, which no file may set.
var connection = map[string]bool{
	"Connection": true, "Content-Encoding": true, "Content-Length": true, "Content-Type": true, "Expect": true, "Host": true,
	"Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}
