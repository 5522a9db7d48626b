package flame

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
)

// of makes a profile of stacks, "outermost>…>innermost", with their samples.
func of(stacks map[string]int64) *profile.Profile {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples"}, {Type: "cpu"}}}
	for stack, n := range stacks {
		s := &profile.Sample{Value: []int64{1, n}}
		names := strings.Split(stack, ">")
		for i := len(names) - 1; i >= 0; i-- {
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: names[i]}}}})
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

func TestEveryFunctionIsAsWideAsItsShare(t *testing.T) {
	svg := SVG(of(map[string]int64{"main.main>a/b.serve>syscall.write": 750, "main.main>a/b.serve": 200, "main.main>a/c/v9.Map[a/b.T]": 49, "main.main>rare.one": 1}), "a <title>")
	for _, want := range []string{"<title>main.main, 100.0 %</title>", "<title>b.serve, 95.0 %</title>", "<title>syscall.write, 75.0 %</title>", "<title>c.Map, 4.9 %</title>", "a &lt;title&gt;", `width="900.0"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("it lacks %q:\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "rare.one") || strings.Contains(svg, "<script") {
		t.Errorf("%s", svg)
	}
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnEmptyProfileIsDrawn(t *testing.T) {
	if svg := SVG(&profile.Profile{}, "nothing"); !strings.Contains(svg, "nothing") || strings.Contains(svg, "NaN") {
		t.Error(svg)
	}
}

func TestTheInnermostKnownFunctionDecidesWhatTimeWentTo(t *testing.T) {
	got := Shares(of(map[string]int64{
		"net/http.(*conn).serve>internal/poll.(*FD).Write>syscall.write": 40, "net/http.(*conn).serve>bufio.(*Reader).Peek": 30, "x.y>runtime.mallocgc>memclr": 20, "who.knows": 10,
	}))
	want := []Share{{"system calls", 0.4}, {"net/http server", 0.3}, {"allocation and garbage collection", 0.2}, {"others", 0.1}}
	if diff := cmp.Diff(want, got[:4]); diff != "" {
		t.Error(diff)
	}
}
