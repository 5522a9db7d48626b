package loadtest

import (
	"bytes"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
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

func TestAPageNeedsNoNetworkAndNoScript(t *testing.T) {
	for name, p := range pages() {
		p := strings.ToLower(string(p))
		for _, bad := range []string{"http://", "https://", "//", "<script", "url(", "@import", "src=", "href="} {
			if strings.Contains(p, bad) {
				t.Errorf("%s: %s", name, bad)
			}
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
		if n := strings.Count(p, ">"+html.EscapeString(m.Name)+"<"); n < 5 {
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
		if m := regexp.MustCompile(`(?i)[^a-z](NaN|[+-]?Inf)[^a-z].{0,40}`).Find(p); m != nil {
			t.Errorf("%s: %s", name, m)
		}
	}
}

func TestEverythingIsDrawnWithinItsPicture(t *testing.T) {
	picture := regexp.MustCompile(`(?s)viewBox="0 0 (\S+) (\S+)">(.*?)</svg>`)
	place := regexp.MustCompile(`[ML]([-\d.]+) ([-\d.]+)|translate\(([-\d.]+) ([-\d.]+)\)| x="([-\d.]+)" y="([-\d.]+)"`)
	number := func(s string) float64 { v, _ := strconv.ParseFloat(s, 64); return v }
	for name, p := range pages() {
		for _, svg := range picture.FindAllStringSubmatch(string(p), -1) {
			for _, at := range place.FindAllStringSubmatch(svg[3], -1) {
				x, y := number(at[1]+at[3]+at[5]), number(at[2]+at[4]+at[6])
				if strings.HasPrefix(at[0], "M-") {
					continue // a sign around its place
				}
				if x < 0 || x > number(svg[1]) || y < 0 || y > number(svg[2]) {
					t.Errorf("%s: %s is outside of %s × %s", name, at[0], svg[1], svg[2])
				}
			}
		}
	}
}

func TestEveryPictureIsTold(t *testing.T) {
	p := string(pages()["one case"])
	pictures := strings.Count(p, "<svg ")
	told := len(regexp.MustCompile(`<svg role="img" aria-label="[^"]{20,}"`).FindAllString(p, -1))
	if keys := strings.Count(p, `aria-hidden="true"`); told+keys != pictures || told < 9 {
		t.Errorf("%d pictures, %d told, %d of legends", pictures, told, keys)
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
	if strings.Contains(p, "<script") || strings.Contains(p, "<!--") || strings.Count(p, "</title></style>") > 0 {
		t.Error("a name was not escaped")
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
	points, deaths := b.line(clock{unit: time.Second}, 100)
	gaps := []bool{}
	for _, p := range points {
		gaps = append(gaps, p.gap)
	}
	if !slices.Equal(gaps, []bool{true, false, true, false}) || len(deaths) != 1 || deaths[0].At != 2*time.Second || deaths[0].KVUsage != 0.2 {
		t.Errorf("%v, deaths %v", points, deaths)
	}
}

func TestALineOfManySamplesKeepsItsPeaks(t *testing.T) {
	b := backend{}
	for i := range 10_000 {
		b.samples = append(b.samples, Sample{At: time.Duration(i) * time.Second, KVUsage: map[bool]float64{true: 0.99, false: 0.2}[i == 7777], Alive: true})
	}
	points, _ := b.line(clock{unit: time.Second}, 100)
	top := slices.MaxFunc(points, func(a, b point) int { return int(1e6 * (a.y - b.y)) })
	if len(points) > 100 || top.y != 0.99 {
		t.Errorf("%d points, the highest %v", len(points), top)
	}
}

func TestTicksAreRoundAndWithinTheScale(t *testing.T) {
	for _, c := range []struct {
		s    scale
		n    int
		want string
	}{
		{scale{hi: 1}, 5, "0 0.2 0.4 0.6 0.8 1"},
		{scale{hi: 15}, 5, "0 5 10 15"},
		{scale{lo: 3, hi: 17}, 6, "5 10 15"},
		{scale{lo: 20, hi: 2000, log: true}, 5, "20 50 100 200 500 1000 2000"},
		{scale{lo: 1, hi: 5000, log: true}, 4, "1 10 100 1000"},
		{scale{lo: 0.001, hi: 1e7, log: true}, 4, "0.001 1 1000 1e+06"},
	} {
		got := []string{}
		for _, v := range c.s.ticks(c.n) {
			got = append(got, strconv.FormatFloat(math.Round(v*1e6)/1e6, 'g', -1, 64))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, want %s", c.s, got, c.want)
		}
	}
}

func TestRangesHoldTheirValuesAndAreNeverEmpty(t *testing.T) {
	for _, v := range [][2]float64{{1, 1}, {0, 0}, {math.Inf(1), 0}, {0.003, 7e6}, {12, 13}, {5, 5}, {1, math.Inf(1)}} {
		lo, hi := logRange(v[0], v[1])
		if finite(hi) != hi || lo <= 0 || hi <= lo || v[0] > 0 && finite(v[1]) == v[1] && v[0] <= v[1] && (lo > v[0] || hi < v[1]) {
			t.Errorf("%v: %v to %v", v, lo, hi)
		}
		if top := upTo(v[1]); top <= 0 || finite(v[1]) == v[1] && top < v[1] {
			t.Errorf("up to %v: %v", v[1], top)
		}
	}
}
