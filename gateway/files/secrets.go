package files

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Limits of files of secrets and of headers, and of their content.
const (
	MaxSecrets = 64 << 10 // bytes
	MaxHeaders = 16 << 10 // bytes

	maxHeaders = 16
	maxLines   = 64      // with a secret
	maxName    = 64      // bytes
	MinSecret  = 32      // characters
	maxSecret  = 4 << 10 // characters
)

// Words of files of secrets are separated by spaces or tabs. Empty lines, and lines that begin with #, are ignored.

// Key is a line "ID SECRET".
type Key struct {
	ID     string // 1 … 64 of A-Z a-z 0-9 . _ : -
	Secret []byte // 32 … 4096 printable ASCII characters
}

// Keys parses a file of keys, in its order. There is at least one; ids and secrets are unique.
func Keys(data []byte) ([]Key, error) {
	lines, err := parse(data, "ID", "SECRET")
	if err != nil {
		return nil, err
	}
	keys := make([]Key, len(lines))
	for i, l := range lines {
		keys[i] = Key{l.words[0], []byte(l.words[1])}
	}
	return keys, nil
}

// Token is a line "NAME SCOPES SECRET".
type Token struct {
	Name   string   // as the ID of a [Key]
	Scopes []string // sorted, each once
	Secret []byte   // as that of a [Key]
}

// Tokens parses a file of tokens, in its order. There is at least one; names and secrets are unique. A token
// has at least one of the known scopes, separated by commas.
func Tokens(data []byte, known ...string) ([]Token, error) {
	lines, err := parse(data, "NAME", "SCOPES", "SECRET")
	if err != nil {
		return nil, err
	}
	tokens := make([]Token, len(lines))
	for i, l := range lines {
		scopes := strings.Split(l.words[1], ",")
		slices.Sort(scopes)
		unknown := func(scope string) bool { return !slices.Contains(known, scope) }
		if slices.ContainsFunc(scopes, unknown) || len(slices.Compact(slices.Clone(scopes))) != len(scopes) {
			return nil, fmt.Errorf("line %d: want scopes out of %s, parted by commas, each of them once", l.number, strings.Join(known, ", "))
		}
		tokens[i] = Token{l.words[0], scopes, []byte(l.words[2])}
	}
	return tokens, nil
}

// Line parses a file with exactly one secret of atLeast to 4096 printable characters.
func Line(data []byte, atLeast int) ([]byte, error) {
	secret := bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	switch {
	case len(secret) < atLeast || len(secret) > maxSecret:
		return nil, fmt.Errorf("has %d characters; want %d … %d, such as openssl rand -hex 32 writes", len(secret), atLeast, maxSecret)
	case !printable(secret):
		return nil, errors.New("has bytes that are not printable ASCII; want one line such as openssl rand -hex 32 writes")
	}
	return bytes.Clone(secret), nil
}

// line is one line; its first word is a name, its last one a secret.
type line struct {
	number int // from 1
	words  []string
}

// parse parses lines with as many words as form has.
func parse(data []byte, form ...string) ([]line, error) {
	var lines []line
	seen := map[string]int{} // names and secrets, by line
	number := 0
	for raw := range bytes.Lines(data) {
		number++
		words := strings.FieldsFunc(strings.TrimRight(string(raw), "\r\n"), func(c rune) bool { return c == ' ' || c == '\t' })
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if len(lines) == maxLines {
			return nil, fmt.Errorf("line %d: there are more than %d secrets", number, maxLines)
		}
		if err := check(words, form); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		for i, at := range []string{"name:" + words[0], "secret:" + words[len(words)-1]} {
			if first := seen[at]; first > 0 {
				return nil, fmt.Errorf("line %d: the %s of line %d is there again", number, []string{"name", "secret"}[i], first)
			}
			seen[at] = number
		}
		lines = append(lines, line{number, words})
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("holds no secret; want lines %q", strings.Join(form, " "))
	}
	return lines, nil
}

func check(words, form []string) error {
	name, secret := words[0], words[len(words)-1]
	switch {
	case len(words) != len(form):
		return fmt.Errorf("has %d words; want %q", len(words), strings.Join(form, " "))
	case len(name) > maxName || strings.ContainsFunc(name, notOfName):
		return fmt.Errorf("want a name of 1 … %d of A-Z a-z 0-9 . _ : -", maxName)
	case len(secret) < MinSecret || len(secret) > maxSecret:
		return fmt.Errorf("the secret has %d characters; want %d … %d, such as openssl rand -hex 32 writes", len(secret), MinSecret, maxSecret)
	case !printable([]byte(secret)):
		return errors.New("the secret has bytes that are not printable ASCII")
	}
	return nil
}

func notOfName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._:-", c)
}

func printable(b []byte) bool {
	return !bytes.ContainsFunc(b, func(c rune) bool { return c <= ' ' || c > '~' })
}

// Header is a line "NAME: VALUE".
type Header struct{ Name, Value string } // the name is in its canonical form

// Headers parses a file of HTTP headers, in its order; empty lines and lines that begin with # are ignored. There is at
// least one; names are unique. Errors never repeat a line, because it may be a key.
func Headers(data []byte) ([]Header, error) {
	if len(data) > MaxHeaders {
		return nil, fmt.Errorf("more than %d bytes", MaxHeaders)
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
