package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// dashboard is what a test looks at of one.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Annotations struct{ List []struct{ Expr string } }
	Panels      []struct {
		ID                 int
		Type, Title        string
		Description        string
		Datasource         struct{ UID string }
		GridPos            struct{ X, Y, W, H int }
		FieldConfig        struct{ Defaults struct{ Unit string } }
		Targets            []struct{ Expr, RefID string }
		TransformationsRaw json.RawMessage `json:"transformations"`
	}
}

// dashboardsOf are all dashboards by their file's name.
func dashboardsOf(t *testing.T) map[string]dashboard {
	t.Helper()
	all := map[string]dashboard{}
	for _, file := range globbed(t, "grafana/dashboards/*.json") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".json")] = d
	}
	return all
}

func TestDashboardsAreWhatGrafanaTakes(t *testing.T) {
	all := dashboardsOf(t)
	if got, want := slices.Sorted(maps.Keys(all)), []string{"acceptance", "cache", "cost", "engines", "overview", "pools", "shedding"}; !slices.Equal(got, want) {
		t.Errorf("dashboards %v, want %v", got, want)
	}
	for name, d := range all {
		if d.UID != "foregate-"+name || d.Title == "" {
			t.Errorf("%s has the uid %q and the title %q", name, d.UID, d.Title)
		}
		ids, taken := map[int]string{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if other, twice := ids[p.ID]; twice {
				t.Errorf("%s: %q and %q have the id %d", name, p.Title, other, p.ID)
			}
			ids[p.ID] = p.Title
			if g := p.GridPos; g.X < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
				t.Errorf("%s: %q is beside the grid: %+v", name, p.Title, g)
			}
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other, is := taken[[2]int{x, y}]; is && other != p.Title {
						t.Fatalf("%s: %q lies on %q", name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type != "row" && (p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}") {
				t.Errorf("%s: panel %d (%q) lacks a title, a description, a unit, a query or its datasource", name, p.ID, p.Title)
			}
		}
	}
}

func TestDashboardsAreWhatIsMadeOfTheirDescription(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "deploy", "grafana", "dashboards")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(dir, "make")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", tool, "./grafana/make").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), tool)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, file := range globbed(t, filepath.Join(at, "*.json")) {
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("grafana/dashboards", filepath.Base(file)))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is not what its description makes (%v): go run ./deploy/grafana/make", filepath.Base(file), err)
		}
	}
}

// expressions are all queries of rules and dashboards, by where they are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, r := range promRules(t) {
		all["rule "+r.Record+r.Alert] = r.Expr
	}
	for name, d := range dashboardsOf(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				all[fmt.Sprintf("%s, %q, query %s", name, p.Title, q.RefID)] = grafanaless(q.Expr)
			}
		}
		for i, a := range d.Annotations.List {
			all[fmt.Sprintf("%s, annotation %d", name, i)] = grafanaless(a.Expr)
		}
		for _, v := range d.Templating.List {
			if inside, is := strings.CutPrefix(v.Definition, "label_values("); is {
				at := strings.LastIndex(inside, ",")
				all[name+", variable "+v.Name] = fmt.Sprintf("group by (%s) (%s)", strings.Trim(inside[at+1:], " )"), inside[:at])
			}
		}
	}
	return all
}

// grafanaless puts values in the place of Grafana's variables.
func grafanaless(expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "1m")
	return regexp.MustCompile(`"\$[a-z]+"`).ReplaceAllString(expr, `"x"`)
}

func TestEveryQueryParses(t *testing.T) {
	type rule struct{ Record, Expr string }
	type group struct {
		Name  string
		Rules []rule
	}
	all := expressions(t)
	g := group{Name: "queries"}
	for i, where := range slices.Sorted(maps.Keys(all)) {
		if strings.Contains(all[where], "$") && !strings.Contains(all[where], "label_replace") {
			t.Errorf("%s has a variable that is not known: %s", where, all[where])
		}
		g.Rules = append(g.Rules, rule{fmt.Sprintf("query:%d", i), all[where]})
	}
	text, err := yaml.Marshal(map[string][]group{"groups": {g}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// foreign are metrics that others than a replica make, with their labels.
var foreign = map[string][]string{
	"up":                            {"job", "instance"},
	"process_cpu_seconds_total":     {"job", "instance"}, // the Go client's own
	"process_resident_memory_bytes": {"job", "instance"},
	"process_start_time_seconds":    {"job", "instance"},
	"ALERTS":                        {"alertname", "alertstate", "severity"},
}

// scraped are the labels that Prometheus adds to what it reads.
var scraped = []string{"job", "instance"}

func TestEveryMetricOfRulesAndDashboardsIsOneThatAReplicaRegisters(t *testing.T) {
	known := map[string][]string{} // by name, the labels
	maps.Copy(known, foreign)
	for name, labels := range registeredMetrics(t) {
		for _, part := range []string{"", "_bucket", "_sum", "_count"} { // what is registered does not tell which are histograms
			known[name+part] = slices.Concat(labels, scraped, []string{"le"})
		}
	}
	engines := map[string][]string{}
	engineMetrics(t, engines)
	for name, labels := range engines {
		known[name] = append(slices.Clone(labels), scraped...)
	}
	all := expressions(t)
	addRecorded(t, known)
	for where, expr := range all {
		for _, complaint := range complaints(expr, known) {
			t.Errorf("%s: %s\n  %s", where, complaint, expr)
		}
	}
	runbook, err := os.ReadFile("RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\b(?:foregate|llm|router|vllm)[:_][a-z0-9_:]+\b`).FindAllString(string(runbook), -1) {
		if known[name] == nil {
			t.Errorf("the runbook names %s, which no replica shows", name)
		}
	}
}

// complaints are what is wrong with an expression's names.
func complaints(expr string, known map[string][]string) []string {
	var out, there []string
	p := readPromql(expr)
	for _, s := range p.series {
		labels, ok := known[s.name]
		if !ok {
			out = append(out, "no replica shows "+s.name)
			continue
		}
		for _, l := range s.labels {
			if !slices.Contains(labels, l) {
				out = append(out, fmt.Sprintf("%s has no label %s, but %v", s.name, l, labels))
			}
		}
		there = append(there, labels...)
	}
	for _, l := range p.groups {
		if !slices.Contains(there, l) && !slices.Contains(p.made, l) {
			out = append(out, "nothing in it has the label "+l)
		}
	}
	return out
}

// addRecorded adds what recording rules make; their labels are those that their expressions know.
func addRecorded(t *testing.T, known map[string][]string) {
	t.Helper()
	for _, r := range promRules(t) {
		if r.Record == "" {
			continue
		}
		p := readPromql(r.Expr)
		labels := slices.Concat(p.groups, p.made)
		if len(p.series) == 0 {
			labels = append(labels, "route") // an objective, which may be a route's own
		}
		known[r.Record] = append(known[r.Record], labels...)
		if known[r.Record] == nil {
			known[r.Record] = []string{} // one number without labels
		}
	}
}

// registeredMetrics are the metrics of a replica and their labels, as the reference has them: it is made from a replica.
func registeredMetrics(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Metrics\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	all := map[string][]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z_, ]*) \\|").FindAllStringSubmatch(section, -1) {
		all[m[1]] = append(all[m[1]], strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	if len(all) < 50 {
		t.Fatalf("the reference has %d metrics", len(all))
	}
	return all
}

// engineMetrics adds those that engines show.
func engineMetrics(t *testing.T, all map[string][]string) {
	t.Helper()
	s := vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 50})
	apptest.Post(t, s.URL()+"/v1/completions", `{"model":"m","prompt":"x","max_tokens":3}`)
	_, page := apptest.Get(t, s.URL()+"/metrics")
	samplesOf(t, page, all)
}

// samplesOf adds the names of a page's samples, as Prometheus stores them, with their labels.
func samplesOf(t *testing.T, page string, all map[string][]string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			names := []string{name}
			if f.GetType() == dto.MetricType_HISTOGRAM {
				names = []string{name + "_bucket", name + "_sum", name + "_count"}
				labels = append(labels, "le")
			}
			for _, n := range names {
				all[n] = append(all[n], labels...)
				slices.Sort(all[n])
				all[n] = slices.Compact(all[n])
			}
		}
	}
}
