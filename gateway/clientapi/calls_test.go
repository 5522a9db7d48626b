package clientapi

import (
	"strings"
	"testing"
)

// script writes calls in words.
type script struct{ strings.Builder }

func (s *script) BeginCall(c *CallPart)       { s.WriteString("+" + c.Name) }
func (s *script) MoreOfCall(arguments string) { s.WriteString(arguments) }
func (s *script) EndCall(c *CallPart)         { s.WriteString("-" + c.Name) }

func TestPartsOfCallsGoOutAsTheyComeOneCallAfterTheOther(t *testing.T) {
	part := func(index int, name, arguments string) CallPart {
		return CallPart{Index: index, Name: name, Arguments: arguments}
	}
	for what, c := range map[string]struct {
		parts []CallPart
		want  string // | is written behind each part
	}{
		"one":              {[]CallPart{part(0, "a", `{"x"`), part(0, "", `:1}`)}, `+a{"x"|:1}|-a`},
		"one by one":       {[]CallPart{part(0, "a", `{}`), part(1, "b", `[`), part(1, "", `]`)}, `+a{}|-a+b[|]|-b`},
		"mixed":            {[]CallPart{part(0, "a", `{`), part(1, "b", `[`), part(0, "", `}`), part(1, "", `]`)}, `+a{||}-a+b[|]|-b`},
		"cut by a limit":   {[]CallPart{part(0, "a", `{`), part(1, "b", `[`)}, `+a{||-a+b[-b`},
		"without anything": {[]CallPart{part(0, "a", "")}, `+a|-a`},
	} {
		var calls Calls
		var s script
		for i := range c.parts {
			if err := calls.Add(&c.parts[i], &s); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			s.WriteString("|")
		}
		if calls.End(&s); s.String() != c.want || !calls.Any() {
			t.Errorf("%s: %s, want %s", what, s.String(), c.want)
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
