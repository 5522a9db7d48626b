package clientapi

import (
	"strings"
	"testing"
	"time"
)

// script writes calls in words.
type script struct{ strings.Builder }

func (s *script) Texts(*Part) error           { return nil }
func (s *script) BeginCall(c *CallPart)       { s.WriteString("+" + c.Name) }
func (s *script) MoreOfCall(arguments string) { s.WriteString(arguments) }
func (s *script) EndCall(c *CallPart, last bool) error {
	s.WriteString("-" + c.Name)
	if last {
		s.WriteString(".")
	}
	return nil
}

func TestPartsOfCallsGoOutAsTheyComeOneCallAfterTheOther(t *testing.T) {
	part := func(index int, name, arguments string) CallPart {
		return CallPart{Index: index, Name: name, Arguments: arguments}
	}
	for what, c := range map[string]struct {
		parts []CallPart
		want  string // | is written behind each part
	}{
		"one":                     {[]CallPart{part(0, "a", `{"x"`), part(0, "", `:1}`)}, `+a{"x"|:1}|-a.`},
		"one by one":              {[]CallPart{part(0, "a", `{}`), part(1, "b", `[`), part(1, "", `]`)}, `+a{}|-a+b[|]|-b.`},
		"mixed":                   {[]CallPart{part(0, "a", `{`), part(1, "b", `[`), part(0, "", `}`), part(1, "", `]`)}, `+a{||}-a+b[|]|-b.`},
		"brackets in strings":     {[]CallPart{part(0, "a", `{"x":"}\"`), part(1, "b", `1`), part(0, "", `}"}`)}, `+a{"x":"}\"||}"}-a+b1|-b.`},
		"cut by a limit":          {[]CallPart{part(0, "a", `{`), part(1, "b", `[`)}, `+a{||-a+b[-b.`},
		"without anything":        {[]CallPart{part(0, "a", "")}, `+a|-a.`},
		"without arguments":       {[]CallPart{part(0, "a", ""), part(1, "b", ""), part(1, "", "{}"), part(2, "c", "{}")}, `+a||-a+b{}|-b+c{}|-c.`},
		"named before all others": {[]CallPart{part(0, "a", ""), part(1, "b", ""), part(0, "", "{}"), part(1, "", "[]")}, `+a||{}-a+b|[]|-b.`},
	} {
		var calls Calls
		var s script
		for i := range c.parts {
			if err := calls.Add(&c.parts[i], &s); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			s.WriteString("|")
		}
		if err := calls.End(&s); err != nil || s.String() != c.want || !calls.Any() {
			t.Errorf("%s: %s, want %s (%v)", what, s.String(), c.want, err)
		}
	}
}

func TestACallThatGoesOnBehindItsEndIsRefused(t *testing.T) {
	var calls Calls
	var s script
	for _, p := range []CallPart{{Index: 0, Arguments: "{}"}, {Index: 1, Arguments: "{"}, {Index: 0, Arguments: "\n"}} {
		if err := calls.Add(&p, &s); err != nil {
			t.Fatal(err)
		}
	}
	if err := calls.Add(&CallPart{Index: 0, Arguments: "x"}, &s); err == nil {
		t.Error("it is written nowhere, and nobody hears of it")
	}
}

// TestCallsThatDifferOnlyInTheirIDsAreTwo has engines that write no index, and one that writes an id on every part.
func TestCallsThatDifferOnlyInTheirIDsAreTwo(t *testing.T) {
	for want, parts := range map[string][]CallPart{
		"+a{}-a+b[1]-b.": {{ID: "x", Name: "a", Arguments: "{}"}, {ID: "y", Name: "b", Arguments: "["}, {Arguments: "1]"}},
		"+a{}-a+a{}-a.":  {{ID: "x", Name: "a", Arguments: "{"}, {Arguments: "}"}, {ID: "y", Name: "a", Arguments: "{}"}},
		"+a{}-a+b[2]-b.": {{ID: "x", Name: "a", Arguments: "{"}, {ID: "y", Name: "b", Arguments: "["}, {ID: "x", Arguments: "}"}, {ID: "y", Arguments: "2]"}},
		"+a{\"x\":3}-a.": {{ID: "x", Name: "a", Arguments: "{"}, {ID: "z", Arguments: `"x":`}, {ID: "x", Name: "a", Arguments: "3}"}},
	} {
		var calls Calls
		var s script
		for i := range parts {
			if err := calls.Add(&parts[i], &s); err != nil {
				t.Fatalf("%s: %v", want, err)
			}
		}
		if err := calls.End(&s); err != nil || s.String() != want {
			t.Errorf("%s, want %s (%v)", s.String(), want, err)
		}
	}
}

// TestEveryByteOfACallIsReadOnce has very many parts of a call wait for a long one: reading that again for each takes minutes.
func TestEveryByteOfACallIsReadOnce(t *testing.T) {
	const parts, enough = 200_000, 5 * time.Second
	var calls Calls
	var s script
	began := time.Now()
	for i := range parts + 1 {
		p := CallPart{Index: 1, Arguments: "1"}
		if i == 0 {
			p = CallPart{Arguments: `{"x":"` + strings.Repeat("y", 50<<10)}
		}
		if err := calls.Add(&p, &s); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > enough {
		t.Errorf("it takes %v", took)
	}
}

func TestCallsKeepNoMoreThanTheirBound(t *testing.T) {
	for _, p := range []CallPart{{Arguments: "0123456789"}, {Name: "f"}} {
		calls := Calls{Bound: NewBound(1 << 20)}
		var s script
		var err error
		parts := 0
		for ; err == nil && parts < 1<<20; parts++ {
			if p.Name != "" {
				p.Index = parts
			}
			err = calls.Add(&p, &s)
		}
		if err == nil {
			t.Errorf("%+v: %d parts are kept", p, parts)
		}
	}
}
