package operator

import (
	"strings"
	"testing"
	"time"
)

var (
	annsToken = strings.Repeat("a", 32)
	bobsToken = strings.Repeat("b", 32)
	promToken = strings.Repeat("p", 32)
)

// file is one of operators' tokens.
func file(lines ...string) [][]byte { return [][]byte{[]byte(strings.Join(lines, "\n") + "\n")} }

// with is a set of those operators, and its clock.
func with(t *testing.T, lines ...string) (*Set, *time.Time) {
	t.Helper()
	now := time.Unix(1e9, 0)
	s := New(Options{Now: func() time.Time { return now }})
	if err := s.Apply(file(lines...)); err != nil {
		t.Fatal(err)
	}
	return s, &now
}

func TestATokenIsGoodForItsScopesAndOperateForAll(t *testing.T) {
	s, _ := with(t, "ann operate "+annsToken, "bob drain,metrics "+bobsToken, "prom metrics "+promToken)
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
	s, _ := with(t, "ann operate "+annsToken)
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

func TestASessionEndsWithItsTimeAndWithAnyChangeOfItsToken(t *testing.T) {
	const ann = "ann operate "
	for name, c := range map[string]struct {
		lines string
		good  bool
	}{
		"nothing":      {ann + annsToken, true},
		"other tokens": {"bob operate " + bobsToken + "\n" + ann + annsToken + "\nprom metrics " + promToken, true},
		"its secret":   {ann + bobsToken, false},
		"its name":     {"bob operate " + annsToken, false},
		"its scopes":   {"ann drain " + annsToken, false},
		"more scopes":  {"ann drain,operate " + annsToken, false},
		"removed":      {"bob operate " + bobsToken, false},
		"passed on":    {"ann operate " + bobsToken + "\nbob operate " + annsToken, false},
	} {
		s, _ := with(t, ann+annsToken)
		x := s.BeginSession(s.Authenticate(annsToken))
		if err := s.Apply(file(c.lines)); err != nil {
			t.Fatal(err)
		}
		if _, good := s.Session(x.Value); good != c.good {
			t.Errorf("%s changed: the session is good: %v", name, good)
		}
	}
	s, now := with(t, ann+annsToken)
	x := s.BeginSession(s.Authenticate(annsToken))
	*now = now.Add(SessionLifetime - time.Second)
	if y, good := s.Session(x.Value); !good || y.Operator.Name != "ann" || y.CSRF() != x.CSRF() {
		t.Error("a session ends early, or is another")
	}
	*now = now.Add(time.Second)
	if _, good := s.Session(x.Value); good {
		t.Error("a session does not end")
	}
}

func TestASessionWithAnotherByteIsNotBelieved(t *testing.T) {
	s, _ := with(t, "ann operate "+annsToken, "bnn operate "+bobsToken)
	value := s.BeginSession(s.Authenticate(annsToken)).Value
	for i := range value {
		changed := []byte(value)
		changed[i] ^= 1
		if _, good := s.Session(string(changed)); good {
			t.Errorf("byte %d", i)
		}
	}
	for _, value := range []string{"", ".", value + ".", value + "A", value[:len(value)-1], strings.Replace(value, ".", "", 1)} {
		if _, good := s.Session(value); good {
			t.Errorf("%q is good", value)
		}
	}
}

func FuzzSession(f *testing.F) {
	s := New(Options{})
	if err := s.Apply(file("ann operate " + annsToken)); err != nil {
		f.Fatal(err)
	}
	f.Add(".")
	f.Add("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAYW5u.AAAA")
	f.Fuzz(func(t *testing.T, value string) {
		if _, good := s.Session(value); good {
			t.Errorf("%q is good", value)
		}
	})
}
