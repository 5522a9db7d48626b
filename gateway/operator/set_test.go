package operator

import (
	"strings"
	"testing"
)

var (
	annsToken = strings.Repeat("a", 32)
	bobsToken = strings.Repeat("b", 32)
	promToken = strings.Repeat("p", 32)
)

// file is one of operators' tokens.
func file(lines ...string) [][]byte { return [][]byte{[]byte(strings.Join(lines, "\n") + "\n")} }

// with is a set of those operators.
func with(t *testing.T, lines ...string) *Set {
	t.Helper()
	s := New()
	if err := s.Apply(file(lines...)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestATokenIsGoodForItsScopesAndOperateForAll(t *testing.T) {
	s := with(t, "ann operate "+annsToken, "bob drain,metrics "+bobsToken, "prom metrics "+promToken)
	for token, want := range map[string]map[Scope]bool{
		annsToken: {Metrics: true, Drain: true, Operate: true},
		bobsToken: {Metrics: true, Drain: true},
		promToken: {Metrics: true},
	} {
		o := s.Authenticate(token)
		if o == nil {
			t.Fatalf("nobody has %s", token)
		}
		for _, scope := range []Scope{Metrics, Drain, Operate, "other"} {
			if got := o.HasScope(scope); got != (want[scope] || o.Name == "ann") {
				t.Errorf("%s may %s: %v", o.Name, scope, got)
			}
		}
	}
	for _, token := range []string{"", "ann", annsToken[1:], annsToken + "a", strings.ToUpper(annsToken)} {
		if o := s.Authenticate(token); o != nil {
			t.Errorf("%q is taken for %s", token, o.Name)
		}
	}
}

func TestAScopeThatIsUnknownIsAnErrorWithItsLine(t *testing.T) {
	s := with(t, "ann operate "+annsToken)
	for lines, want := range map[string]string{
		"ann operate " + annsToken + "\nbob admin " + bobsToken: "line 2: want scopes out of metrics, drain, operate, parted by commas, each of them once",
		"":        `holds no secret; want lines "NAME SCOPES SECRET"`,
		annsToken: `line 1: has 1 words; want "NAME SCOPES SECRET"`,
	} {
		if err := s.Apply(file(lines)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", lines, err, want)
		}
	}
	if s.Authenticate(annsToken) == nil {
		t.Error("a file that was refused changed something")
	}
}
