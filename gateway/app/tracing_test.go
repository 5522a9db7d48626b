package app

import (
	"strings"
	"testing"
)

func TestAHeadersFileThatIsNoneIsRefusedWithoutRepeatingIt(t *testing.T) {
	for _, text := range []string{"", "# none\n", "name value\n", "a b: c\n", "a: b\x01\n", ": c\n", strings.Repeat("a: b\n", 1<<13)} {
		if h, err := parseHeaders([]byte(text)); err == nil {
			t.Errorf("%.20q is read as %v", text, h)
		} else if strings.Contains(err.Error(), "value") {
			t.Errorf("%v", err)
		}
	}
}
