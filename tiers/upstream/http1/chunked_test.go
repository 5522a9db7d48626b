package http1

import (
	"errors"
	"strings"
	"testing"
)

// decoded decodes a body that comes in pieces of this size: its data, and what is left behind its end.
func decoded(in string, step int) (data, rest string, ended bool, err error) {
	var c chunks
	for at := 0; at < len(in); at += step {
		b := []byte(in[at:min(at+step, len(in))])
		n, used, err := c.decode(b)
		data += string(b[:n])
		if err != nil || c.at == atEnd {
			return data, in[at+used:], c.at == atEnd, err
		}
	}
	return data, "", false, nil
}

func TestChunksAreJoinedHoweverTheyCome(t *testing.T) {
	long := strings.Repeat("x", 300)
	for in, want := range map[string]string{
		"0\r\n\r\n":                                        "",
		"1\r\na\r\n0\r\n\r\n":                              "a",
		"3\r\nabc\r\n2\r\nde\r\n00\r\n\r\n":                "abcde",
		"0A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n": "01234567890123456789",
		"12C;a=b;c=\"d;e\"\r\n" + long + "\r\n0\r\n\r\n":   long,
		"1 \t\r\na\r\n1 ; x\r\nb\r\n0;x\r\n\r\n":           "ab",
		"1\r\na\r\n0\r\nA: b\r\nC:\r\n\r\n":                "a",
		"0000000000000001\r\n\n\r\n0\r\n\r\n":              "\n",
	} {
		for step := 1; step <= len(in); step++ {
			data, rest, ended, err := decoded(in+"HTTP/1.1 200", step)
			if data != want || rest != "HTTP/1.1 200" || !ended || err != nil {
				t.Fatalf("%q by %d: %q, rest %q, ended %v, %v", in, step, data, rest, ended, err)
			}
		}
		if _, _, ended, err := decoded(in[:len(in)-1], 3); ended || err != nil {
			t.Errorf("%q cut short: ended %v, %v", in, ended, err)
		}
	}
}

func TestChunksThatAreNotPlainlyFramedAreRefused(t *testing.T) {
	for _, in := range []string{
		"\r\n", " 1\r\na\r\n", "g\r\n", "-1\r\n", "+1\r\n", "0x1\r\n", "1\na\r\n", "1\r\na\n", "1\r\nab\r\n", "1\r\na\r\r\n", "1\r\na0\r\n", "1\rx",
		"1;\n", "1;\x00\r\n", "1;a\rb", "1 2\r\n", "1 \n", ";\r\n", "00000000000000001\r\na\r\n", "8000000000000000\r\n", "ffffffffffffffff\r\n",
		"0\r\n\n", "0\r\n\rx", "0\r\n: b\r\n", "0\r\n a: b\r\n", "0\r\na\r\n", "0\r\na b: c\r\n", "0\r\na: b\n", "0\r\na: b\r\r\n", "0\r\na: \x00\r\n", "0\r\na: b\r\n c\r\n",
		"1;" + strings.Repeat("a", maxSizeLine) + "\r\n",
		"0\r\n" + strings.Repeat("a: b\r\n", maxTrail/6+1),
		strings.Repeat("1;"+strings.Repeat("a", 1000)+"\r\na\r\n", 18),
	} {
		for _, step := range []int{1, 5, len(in)} {
			if data, _, ended, err := decoded(in, step); !errors.Is(err, ErrMalformed) || ended {
				t.Errorf("%.60q by %d: %q, ended %v, %v", in, step, data, ended, err)
			}
		}
	}
}

func TestSmallChunksAndShortExtensionsAreNoAttack(t *testing.T) {
	in := strings.Repeat("1;abcdefgh\r\na\r\n", 100_000) + "0\r\n\r\n"
	if data, _, ended, err := decoded(in, 4096); len(data) != 100_000 || !ended || err != nil {
		t.Errorf("%d bytes, ended %v, %v", len(data), ended, err)
	}
}
