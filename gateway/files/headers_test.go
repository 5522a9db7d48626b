package files

import (
	"slices"
	"strings"
	"testing"
)

func TestAHeadersFileThatIsNoneIsRefusedWithoutRepeatingIt(t *testing.T) {
	for _, text := range []string{
		"", "# none\n", "name value\n", "a b: c\n", "a: b\x01\n", ": c\n", strings.Repeat("a: b\n", 1<<13),
		"a: value\nA: other-value\n", "Content-Length: 3\n", "host: value\n", "Transfer-Encoding: chunked\n", "Connection: x-value\n",
		many(maxHeaders + 1),
	} {
		if h, err := Headers([]byte(text)); err == nil {
			t.Errorf("%.20q is read as %v", text, h)
		} else if strings.Contains(err.Error(), "value") {
			t.Errorf("%v", err)
		}
	}
}

// many is a file with so many headers.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("x-" + strings.Repeat("y", i+1) + ": z\n")
	}
	return b.String()
}

func TestHeadersAreReadInTheOrderOfTheFileUnderTheirCanonicalNames(t *testing.T) {
	got, err := Headers([]byte("# for the proxy\n\nx-api-key:  a b \r\nX-Team: c:d\n"))
	if want := []Header{{"X-Api-Key", "a b"}, {"X-Team", "c:d"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := Headers([]byte(many(maxHeaders))); err != nil || len(got) != maxHeaders {
		t.Errorf("%d headers: %d, %v", maxHeaders, len(got), err)
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add([]byte("x-api-key: a\n"))
	f.Add([]byte("a: b\r\nc: d\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Headers(data)
		if err != nil {
			return
		}
		for _, h := range list {
			if h.Name == "" || connection[h.Name] || strings.ContainsAny(h.Name+h.Value, "\r\n\x00") {
				t.Errorf("a header that splits a request: %q", h)
			}
		}
	})
}
