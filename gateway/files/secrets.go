package files

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/foregate/foregate/internal/words"
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
func Keys(data []byte) (keys []Key, err error) {
	err = parse(data, []string{"ID", "SECRET"}, func(words []string) error {
		keys = append(keys, Key{words[0], []byte(words[1])})
		return nil
	})
	return keys, err
}

// Token is a line "NAME SCOPES SECRET".
type Token struct {
	Name   string   // as the ID of a [Key]
	Scopes []string // sorted, each once
	Secret []byte   // as that of a [Key]
}

// Tokens parses a file of tokens, in its order. There is at least one; names and secrets are unique. A token
// has at least one of the known scopes, separated by commas.
func Tokens(data []byte, known ...string) (tokens []Token, err error) {
	err = parse(data, []string{"NAME", "SCOPES", "SECRET"}, func(words []string) error {
		scopes := strings.Split(words[1], ",")
		slices.Sort(scopes)
		for i, scope := range scopes {
			if !slices.Contains(known, scope) || i > 0 && scope == scopes[i-1] {
				return fmt.Errorf("want scopes out of %s, parted by commas, each of them once", strings.Join(known, ", "))
			}
		}
		tokens = append(tokens, Token{words[0], scopes, []byte(words[2])})
		return nil
	})
	return tokens, err
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

// lines are the numbers and texts of the lines that are neither empty nor begin with #.
func lines(data []byte) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		number := 0
		for raw := range bytes.Lines(data) {
			number++
			text := strings.Trim(string(raw), " \t\r\n")
			if text != "" && text[0] != '#' && !yield(number, text) {
				return
			}
		}
	}
}

// parse parses lines with as many words as form has, the first a name, the last a secret. each takes the words of one.
func parse(data []byte, form []string, each func(words []string) error) error {
	seen := map[string]int{} // names and secrets, by line
	for number, text := range lines(data) {
		if len(seen) == 2*maxLines {
			return fmt.Errorf("line %d: there are more than %d secrets", number, maxLines)
		}
		words := strings.FieldsFunc(text, func(c rune) bool { return c == ' ' || c == '\t' })
		err := check(words, form)
		if err == nil {
			err = each(words)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		for i, at := range []string{"name:" + words[0], "secret:" + words[len(words)-1]} {
			if first := seen[at]; first > 0 {
				return fmt.Errorf("line %d: the %s of line %d is there again", number, []string{"name", "secret"}[i], first)
			}
			seen[at] = number
		}
	}
	if len(seen) == 0 {
		return fmt.Errorf("holds no secret; want lines %q", strings.Join(form, " "))
	}
	return nil
}

func check(fields, form []string) error {
	name, secret := fields[0], fields[len(fields)-1]
	switch {
	case len(fields) != len(form):
		return fmt.Errorf("has %d words; want %q", len(fields), strings.Join(form, " "))
	case !words.IsName(name, maxName, "._:-"):
		return fmt.Errorf("want a name of 1 … %d of A-Z a-z 0-9 . _ : -", maxName)
	case len(secret) < MinSecret || len(secret) > maxSecret:
		return fmt.Errorf("the secret has %d characters; want %d … %d, such as openssl rand -hex 32 writes", len(secret), MinSecret, maxSecret)
	case !printable([]byte(secret)):
		return errors.New("the secret has bytes that are not printable ASCII")
	}
	return nil
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
	for n, line := range lines(data) {
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
	if len(headers) == 0 {
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
