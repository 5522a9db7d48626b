package gateway

import (
	"strings"
	"testing"
)

var (
	tokenOfAnn  = strings.Repeat("a", 32)
	tokenOfBob  = strings.Repeat("b", 32)
	tokenOfProm = strings.Repeat("p", 32)
)

// tokenFile is one of operators' tokens.
func tokenFile(lines ...string) [][]byte { return [][]byte{[]byte(strings.Join(lines, "\n") + "\n")} }

// operatorsOf is a set of those operators.
func operatorsOf(t *testing.T, lines ...string) *Operators {
	t.Helper()
	s := &Operators{}
	if err := s.Apply(tokenFile(lines...)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestATokenIsGoodForItsScopesAndOperateForAll(t *testing.T) {
	s := operatorsOf(t, "ann operate "+tokenOfAnn, "bob drain,metrics "+tokenOfBob, "prom metrics "+tokenOfProm)
	for token, want := range map[string]map[Scope]bool{
		tokenOfAnn:  {ScopeMetrics: true, ScopeDrain: true, ScopeOperate: true},
		tokenOfBob:  {ScopeMetrics: true, ScopeDrain: true},
		tokenOfProm: {ScopeMetrics: true},
	} {
		o := s.authenticate(token)
		if o == nil {
			t.Fatalf("nobody has %s", token)
		}
		for _, scope := range []Scope{ScopeMetrics, ScopeDrain, ScopeOperate, "other"} {
			if got := o.hasScope(scope); got != (want[scope] || o.name == "ann") {
				t.Errorf("%s may %s: %v", o.name, scope, got)
			}
		}
	}
	for _, token := range []string{"", "ann", tokenOfAnn[1:], tokenOfAnn + "a", strings.ToUpper(tokenOfAnn)} {
		if o := s.authenticate(token); o != nil {
			t.Errorf("%q is taken for %s", token, o.name)
		}
	}
}

func TestAScopeThatIsUnknownIsAnErrorWithItsLine(t *testing.T) {
	s := operatorsOf(t, "ann operate "+tokenOfAnn)
	for lines, want := range map[string]string{
		"ann operate " + tokenOfAnn + "\nbob admin " + tokenOfBob: "line 2: want scopes out of metrics, drain, operate, parted by commas, each of them once",
		"":         `holds no secret; want lines "NAME SCOPES SECRET"`,
		tokenOfAnn: `line 1: has 1 words; want "NAME SCOPES SECRET"`,
	} {
		if err := s.Apply(tokenFile(lines)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", lines, err, want)
		}
	}
	if s.authenticate(tokenOfAnn) == nil {
		t.Error("a file that was refused changed something")
	}
}
