package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// prometheusDir is where rules are, and their tests.
const prometheusDir = "prometheus"

// promRule is a rule of either kind.
type promRule struct {
	Record, Alert, Expr string
	For                 string
	Labels, Annotations map[string]string
}

// promRules are all rules of the files.
func promRules(t *testing.T) []promRule {
	t.Helper()
	var all []promRule
	for _, file := range globbed(t, filepath.Join(prometheusDir, "rules", "*.yml")) {
		var f struct {
			Groups []struct {
				Name  string
				Rules []promRule
			}
		}
		readYAML(t, file, &f)
		for _, g := range f.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// globbed are the files of a pattern; a pattern without any fails the test.
func globbed(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return files
}

// promtool runs it, or skips the test.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool (Debian package prometheus) is not in PATH:", err)
	}
	if out, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args[:2], " "), err, out)
	}
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	promtool(t, append([]string{"check", "rules"}, globbed(t, filepath.Join(prometheusDir, "rules", "*.yml"))...)...)
}

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	promtool(t, append([]string{"test", "rules"}, globbed(t, filepath.Join(prometheusDir, "tests", "*.yml"))...)...)
}

func TestPromtoolAcceptsTheConfigurationOfPrometheus(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(prometheusDir, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	const secret = "/run/secrets/token-prometheus" // which promtool looks for
	if !strings.Contains(string(text), secret) {
		t.Errorf("no credentials_file %s", secret)
	}
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "prometheus.yml")
	if err := os.CopyFS(filepath.Join(dir, "rules"), os.DirFS(filepath.Join(prometheusDir, "rules"))); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{token: "x", file: strings.ReplaceAll(string(text), secret, token)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, "check", "config", file)
}

func TestEveryAlertIsTestedToFireAndNotTo(t *testing.T) {
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, file := range globbed(t, filepath.Join(prometheusDir, "tests", "*.yml")) {
		var f struct {
			Tests []struct {
				Alerts []struct {
					Name string `yaml:"alertname"`
					Want []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		readYAML(t, file, &f)
		for _, test := range f.Tests {
			for _, a := range test.Alerts {
				fires[a.Name] = fires[a.Name] || len(a.Want) > 0
				quiet[a.Name] = quiet[a.Name] || len(a.Want) == 0
			}
		}
	}
	for _, r := range promRules(t) {
		if r.Alert != "" && (!fires[r.Alert] || !quiet[r.Alert]) {
			t.Errorf("%s: tested to fire: %t, not to: %t", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
}

func TestEveryAlertHasASectionInTheRunbookAndEverySectionAnAlert(t *testing.T) {
	text, err := os.ReadFile("RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	var sections, alerts []string
	for _, m := range regexp.MustCompile(`(?m)^### (.+)$`).FindAllStringSubmatch(string(text), -1) {
		sections = append(sections, m[1])
	}
	for _, r := range promRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts = append(alerts, r.Alert)
		if want := "deploy/RUNBOOK.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want || r.Annotations["summary"] == "" {
			t.Errorf("%s has the annotations %v, want a summary and the runbook %s", r.Alert, r.Annotations, want)
		}
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s has severity %q", r.Alert, s)
		}
	}
	slices.Sort(sections)
	slices.Sort(alerts)
	if !slices.Equal(sections, alerts) {
		t.Errorf("sections:\n%v\nalerts:\n%v", sections, alerts)
	}
	for _, section := range strings.Split(string(text), "\n### ")[1:] {
		name, _, _ := strings.Cut(section, "\n")
		for _, part := range []string{"**Look**", "**Do**", "**Not**"} {
			if !strings.Contains(section, part) {
				t.Errorf("the section %s has no %s", name, part)
			}
		}
	}
}

func TestTheRunbookNamesNoSettingThatIsNot(t *testing.T) {
	text, err := os.ReadFile("RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	groups := map[string]bool{}
	note := func(name string) {
		known[name] = true
		group, _, _ := strings.Cut(name, ".")
		groups[group] = true
	}
	reference, err := os.ReadFile("../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(reference), -1) {
		note(row[1])
	}
	named := regexp.MustCompile("`([a-z_]+(?:\\[\\])?\\.[A-Za-z_.]+)(?:@[A-Z]+)?(?:=[^`]*)?`")
	found := 0
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		name := m[1]
		if group, _, _ := strings.Cut(name, "."); !groups[group] || strings.HasSuffix(name, ".yml") {
			continue // a file, say
		}
		if found++; !known[name] {
			t.Errorf("there is no setting or field %s", name)
		}
	}
	if found < 20 {
		t.Errorf("only %d settings were found in the runbook", found)
	}
}
