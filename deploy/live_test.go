package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// events are metrics that are there once something has happened that the demo's traffic need not bring about.
var events = map[string]string{
	"ALERTS":                                           "an alert",
	"foregate_audits_dropped_total":                    "an audit that was dropped",
	"foregate_breaker_transitions_total":               "a breaker that opens",
	"foregate_certificate_not_after_timestamp_seconds": "TLS",
	"foregate_fallbacks_total":                         "a route with fallbacks",
	"foregate_file_last_reload_successful":             "a file that is read again",
	"foregate_log_lines_dropped_total":                 "foregate serve, whose log may be slower than it",
	"foregate_queue_wait_seconds_bucket":               "a request that waited",
	"foregate_risk_threshold_nats":                     "a certified threshold",
	"foregate_settings_rejected":                       "a setting that is refused",
	"foregate_settings_unknown":                        "a setting that is not known",
	"foregate_shed_total":                              "a request that was shed",
	"foregate_upstream_failures_total":                 "a call that failed",
	"foregate_verification_seconds_bucket":             "mode verify",
	"foregate_verifications_total":                     "mode verify",
}

// started is a program that runs until the test ends, and what it prints.
func started(t *testing.T, dir, program string, args ...string) *apptest.Log {
	t.Helper()
	log := &apptest.Log{}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the test's context has interrupted it
	return log
}

// liveFleet starts foregate demo with its traffic, and a Prometheus with the project's rules that reads it and its engines. It
// returns the URL of Prometheus.
func liveFleet(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	foregate := filepath.Join(dir, "foregate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", foregate, "../cmd/foregate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said := started(t, dir, foregate, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--redis-listen", "127.0.0.1:0")
	var admin []string
	apptest.Within(t, time.Minute, "the demo says where its console is", func() bool {
		admin = regexp.MustCompile(`console +http://([0-9.:]+)/console/#token=(\w+)\n`).FindStringSubmatch(said.String())
		return admin != nil
	})
	_, page := apptest.Get(t, "http://"+admin[1]+"/admin/backends")
	var engines []string
	for _, m := range regexp.MustCompile(`"url":"http://([0-9.:]+)"`).FindAllStringSubmatch(page, -1) {
		engines = append(engines, m[1])
	}
	rules, err := filepath.Abs(filepath.Join(prometheusDir, "rules"))
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(`
global: {scrape_interval: 5s, evaluation_interval: 5s}
rule_files: [%q]
scrape_configs:
  - {job_name: foregate, authorization: {credentials: %s}, static_configs: [{targets: [%q]}]}
  - {job_name: vllm, static_configs: [{targets: [%s]}]}
`, filepath.Join(rules, "*.yml"), admin[2], admin[1], strings.Join(engines, ", "))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log := started(t, dir, "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0")
	var at []string
	apptest.Within(t, time.Minute, "Prometheus says where it listens", func() bool {
		at = regexp.MustCompile(`Listening on" address=([0-9.:]+)`).FindStringSubmatch(log.String())
		return at != nil
	})
	return "http://" + at[1]
}

// values is how many series a query gives.
func values(t *testing.T, prometheus, query string) int {
	t.Helper()
	code, text := apptest.Get(t, prometheus+"/api/v1/query?query="+url.QueryEscape(query))
	var answer struct {
		Data struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK {
		t.Errorf("%s: %d, %v: %s", query, code, err, text)
	}
	return len(answer.Data.Result)
}

// Every expression of rules and dashboards is asked for; one that is filtered is asked for without its filter, and of an alert
// each metric, because it is silent. It logs what was empty for want of an event: make dashboards-live.
func TestEveryExpressionHasValuesOfALiveFleet(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("FOREGATE_LIVE"))
	if err != nil {
		t.Skip("it takes minutes: make dashboards-live")
	}
	prometheus := liveFleet(t)
	time.Sleep(lasts)
	all := expressions(t)
	for _, where := range slices.Sorted(maps.Keys(all)) {
		query := strings.TrimSuffix(strings.ReplaceAll(all[where], `"x"`, `".*"`), " > 0")
		queries := []string{query}
		named := readPromql(query).series
		if strings.HasPrefix(where, "rule Foregate") {
			queries = nil
			for _, s := range named {
				queries = append(queries, s.name)
			}
		}
		for _, q := range queries {
			if values(t, prometheus, q) > 0 {
				continue
			}
			at := slices.IndexFunc(named, func(s seriesUse) bool { return events[s.name] != "" && strings.Contains(q, s.name) })
			if at < 0 {
				t.Errorf("%s has no values: %s", where, q)
				continue
			}
			t.Logf("%s: there was not %s", where, events[named[at].name])
		}
	}
}
