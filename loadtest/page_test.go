package loadtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// pageOf is the page of a report.
func pageOf(t *testing.T, r *Report) []byte {
	t.Helper()
	out, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// odd is a report of cases that have next to nothing, and one of very much.
func odd() *Report {
	r := &Report{Results: []*Result{
		{},
		{Case: "no outcomes", Recorder: NewRecorder(0)},
		{Case: "one", Window: time.Second, Recorder: recorded(answer(0, 300*time.Millisecond, time.Second)),
			Samples: []Sample{{At: time.Second, KVUsage: 0.4, Alive: true}}},
		{Case: "refused", Recorder: recorded(Outcome{End: Shed, Done: 1})},
		{Case: "not numbers", Samples: []Sample{{KVUsage: math.NaN(), Alive: true}, {At: -1, KVUsage: math.Inf(1)}},
			Pools: []Usage{{USDPerHour: math.NaN(), Busy: 1}}, Recorder: recorded(answer(0, 0, 0), answer(-5, math.MaxInt64, math.MaxInt64))},
		madeResult("many backends", 0),
	}}
	for b := range 64 {
		r.Results[5].Samples = append(r.Results[5].Samples, madeSamples(newRand(b), "draft", b, 1)...)
	}
	return r
}

// pages are those that must be good whatever is in them, by name.
var pages = sync.OnceValue(func() map[string][]byte {
	out := map[string][]byte{}
	for name, r := range map[string]*Report{"odd": odd(), "nothing": {}, "no case": made(0), "one case": made(1), "eight cases": made(8)} {
		p, err := r.HTML()
		if err != nil {
			panic(err)
		}
		out[name] = p
	}
	return out
})

func TestEveryElementOfAPageIsClosed(t *testing.T) {
	void := []string{"meta", "br", "hr", "link", "img", "!doctype"}
	for name, p := range pages() {
		open, z := []string{}, html.NewTokenizer(bytes.NewReader(p))
		for {
			kind := z.Next()
			if kind == html.ErrorToken {
				break
			}
			tag, _ := z.TagName()
			switch {
			case kind == html.StartTagToken && !slices.Contains(void, string(tag)):
				open = append(open, string(tag))
			case kind == html.EndTagToken:
				if len(open) == 0 || open[len(open)-1] != string(tag) {
					t.Fatalf("%s: </%s> in %v", name, tag, open)
				}
				open = open[:len(open)-1]
			}
		}
		if z.Err() != io.EOF || len(open) > 0 {
			t.Errorf("%s: %v, open: %v", name, z.Err(), open)
		}
	}
}

// scripts are the scripts of a page that run.
func scripts(page string) (code []string, rest string) {
	found := regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	for _, m := range found.FindAllStringSubmatch(page, -1) {
		code = append(code, m[1])
	}
	return code, found.ReplaceAllString(page, "")
}

func TestAPageNeedsNoNetworkAndRunsItsOwnScriptAlone(t *testing.T) {
	for name, p := range pages() {
		code, rest := scripts(string(p))
		for _, bad := range []string{"http://", "https://", "//", "url(", "@import", "src=", "href="} {
			if strings.Contains(strings.ToLower(rest), bad) {
				t.Errorf("%s: %s", name, bad)
			}
		}
		if len(code) != 1 {
			t.Fatalf("%s: %d scripts", name, len(code))
		}
		sum := sha256.Sum256([]byte(code[0]))
		policy := `content="` + html.EscapeString("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") + `"`
		if !strings.Contains(strings.ReplaceAll(rest, "&#43;", "+"), policy) {
			t.Errorf("%s: no %s", name, policy)
		}
	}
}

func TestAPageOfEightCasesIsUnderAMegabyte(t *testing.T) {
	if n := len(pages()["eight cases"]); n > 1_000_000 {
		t.Errorf("%d bytes", n)
	}
}

func TestAPageNamesEveryCaseAndWhatItsRunWas(t *testing.T) {
	p := string(pages()["eight cases"])
	for _, m := range made(8).measured() {
		if n := strings.Count(html.UnescapeString(p), ">"+m.Name+"<"); n < 5 {
			t.Errorf("%s is there %d times", m.Name, n)
		}
	}
	for _, want := range []string{"virtual run, seed 7", "Thirty users", "scenarios/everything.yaml", "Speeds are those"} {
		if !strings.Contains(p, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestEveryNumberOfAPageIsFinite(t *testing.T) {
	for name, p := range pages() {
		_, p := scripts(string(p))
		if m := regexp.MustCompile(`(?i)[^a-z](NaN|[+-]?Inf)[^a-z].{0,40}`).FindString(p); m != "" {
			t.Errorf("%s: %s", name, m)
		}
	}
}

// charts are the charts of a page, as its script reads them.
func charts(t *testing.T, page string) (all []chartText) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?s)<script type="application/json">(.*?)</script>`).FindAllStringSubmatch(page, -1) {
		var c chartText
		if err := json.Unmarshal([]byte(m[1]), &c); err != nil {
			t.Fatalf("%v in %.200s", err, m[1])
		}
		all = append(all, c)
	}
	return all
}

// chartText is a [chart] as it stands in the page.
type chartText struct {
	X, Y   axis
	Series []struct {
		Label, Colour string
		X             []float64
		Y             []*float64
	}
	None string
}

func TestEveryChartCanBeDrawn(t *testing.T) {
	for name, p := range pages() {
		for _, c := range charts(t, string(p)) {
			for _, a := range []axis{c.X, c.Y} {
				if a.Max <= a.Min || a.Log && a.Min <= 0 || a.Name == "" {
					t.Errorf("%s: axis %+v", name, a)
				}
			}
			for _, s := range c.Series {
				if len(s.X) == 0 || len(s.X) != len(s.Y) || !slices.IsSorted(s.X) || s.Label == "" {
					t.Errorf("%s: line %s of %d × %d points", name, s.Label, len(s.X), len(s.Y))
				}
				if !strings.Contains(PageCSS, "--"+s.Colour+":") {
					t.Errorf("%s: no colour %s", name, s.Colour)
				}
			}
			if len(c.Series) == 0 && c.None == "" {
				t.Errorf("%s: a chart without lines or words", name)
			}
		}
	}
}

func TestEveryPictureIsTold(t *testing.T) {
	p := string(pages()["one case"])
	told := len(regexp.MustCompile(`(?:role="img"|class="bars" role="group") aria-label="[^"]{10,}"`).FindAllString(p, -1))
	if pictures := strings.Count(p, "<figure>"); told != pictures || told < 9 {
		t.Errorf("%d pictures, %d told", pictures, told)
	}
}

func TestNamesCannotBreakAPage(t *testing.T) {
	evil := `</title></style><script>alert("1")</script><!--'&`
	res := madeResult(evil, 0)
	res.Recorder.Add(Outcome{At: time.Hour, End: Failed, Detail: evil, Tenant: evil, Priority: evil})
	res.Samples[0].Tier = evil
	p := string(pageOf(t, &Report{
		Scenario: &Scenario{Name: evil, About: evil}, Kind: evil, Command: evil, Notes: []string{evil}, Results: []*Result{res, res},
	}))
	code, rest := scripts(p)
	if len(code) != 1 || strings.Contains(rest, `<script>`) || strings.Contains(rest, "<!--") || strings.Count(rest, "</title></style>") > 0 {
		t.Error("a name was not escaped")
	}
	if all := charts(t, p); !strings.Contains(all[0].Series[0].Label, "</title>") {
		t.Errorf("a name is lost: %s", all[0].Series[0].Label)
	}
}

func TestTheSameReportIsTheSamePage(t *testing.T) {
	r := odd()
	if a, b := pageOf(t, r), pageOf(t, r); !bytes.Equal(a, b) {
		t.Error("two pages")
	}
}

func TestADeathIsMarkedAndLeavesAGap(t *testing.T) {
	b := backend{}
	for i, alive := range []bool{true, true, false, false, true, true} {
		b.samples = append(b.samples, Sample{At: time.Duration(i) * time.Second, KVUsage: 0.1 * float64(i+1), Alive: alive})
	}
	line, deaths := b.line(clock{unit: time.Second}, 100)
	known := []bool{}
	for _, y := range line.Y {
		known = append(known, finite(y) == y)
	}
	if !slices.Equal(known, []bool{true, true, false, true, true}) || len(deaths) != 1 || deaths[0].At != 2*time.Second || deaths[0].KVUsage != 0.2 {
		t.Errorf("%v, deaths %v", line, deaths)
	}
}

func TestALineOfManySamplesKeepsItsPeaks(t *testing.T) {
	b := backend{}
	for i := range 10_000 {
		b.samples = append(b.samples, Sample{At: time.Duration(i) * time.Second, KVUsage: map[bool]float64{true: 0.99, false: 0.2}[i == 7777], Alive: true})
	}
	line, _ := b.line(clock{unit: time.Second}, 100)
	if top := slices.Max(line.Y); len(line.Y) > 100 || top != 0.99 {
		t.Errorf("%d points, the highest %v", len(line.Y), top)
	}
}
