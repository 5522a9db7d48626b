package virtual

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/internal/golden"
	"github.com/foregate/foregate/loadtest"
)

var day = flag.Bool("day", false, "run the baselines that take minutes, too")

// longScenarios take more than ten seconds of a processor each. Of each kind of scenario a
// shorter one stays in make test.
var longScenarios = []string{"burst", "bursty-multitenant", "cascade", "cascade-long-prompt", "cascade-price-b", "first-hour", "repeats"}

// dayScenarios take minutes. A smaller one stands in for each: risk-hour and everything-live.
var dayScenarios = []string{"everything", "risk-day"}

// shortCases are the cases that make test runs of scenarios that take seconds. The rest is left to make test-long.
var shortCases = map[string]string{"cascade-low-acceptance": "auto", "risk-hour": "risk"}

// TestTheBaselinesAreWhatThisTreeComputes holds the committed rows against a run of
// each scenario: any change of a decision of the gateway, or of the simulator,
// shows here as a changed row, to be looked at before it is committed.
func TestTheBaselinesAreWhatThisTreeComputes(t *testing.T) {
	if slow {
		t.Skip("left out under the race detector; make baselines runs it without")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("other processors round the last digit differently (fused multiply-add)")
	}
	for _, name := range []string{
		"agree", "burst", "bursty-multitenant", "cascade", "cascade-long-prompt", "cascade-low-acceptance", "cascade-price-b", "churn", "everything", "everything-live", "first-hour",
		"locality", "overcommit", "repeats", "repeats-live", "risk-day", "risk-hour",
	} {
		t.Run(name, func(t *testing.T) {
			if slices.Contains(dayScenarios, name) && !*day {
				t.Skipf("minutes; go test ./loadtest/virtual -run Baselines/%s$ -day", name)
			}
			if testing.Short() && slices.Contains(longScenarios, name) {
				t.Skip("a long test: make test-long")
			}
			t.Parallel()
			s, err := loadtest.Load(filepath.Join("..", "scenarios", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			report := &loadtest.Report{Scenario: s, Seed: s.Seed, Kind: loadtest.Virtual}
			only, part := shortCases[name]
			part = part && testing.Short() && !golden.Updating()
			for i := range s.Cases {
				if part && s.Cases[i].Name != only {
					continue
				}
				r, err := Run(t.Context(), s, &s.Cases[i], s.Seed)
				if err != nil {
					t.Fatal(err)
				}
				report.Results = append(report.Results, r)
			}
			got, err := report.JSON()
			if err != nil {
				t.Fatal(err)
			}
			if part {
				if diff := cmp.Diff(baseline(t, name)[only], rows(t, got)[only]); diff != "" {
					t.Errorf("%s.json, %s (-want +got); run make golden and read what changed:\n%s", name, only, diff)
				}
				return
			}
			file := filepath.Join("..", "baselines", name+".json")
			if golden.Updating() {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s.json (-want +got); run make golden and read what changed:\n%s", name, diff)
			}
		})
	}
}

// baseline is a scenario's committed rows by their names.
func baseline(t *testing.T, name string) map[string]loadtest.Row {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "baselines", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return rows(t, data)
}

// rows are those of a report in JSON by their names.
func rows(t *testing.T, data []byte) map[string]loadtest.Row {
	t.Helper()
	var report struct{ Rows []loadtest.Row }
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	rows := map[string]loadtest.Row{}
	for _, r := range report.Rows {
		rows[r.Name] = r
	}
	return rows
}

// TestRepeatsGainWhatIsPublished holds the committed rows to the published figures for repeats:
// a baseline that is rewritten must still say so.
func TestRepeatsGainWhatIsPublished(t *testing.T) {
	rows := baseline(t, "repeats")
	before, after, more := rows["round_robin"], rows["fit cache"], rows["fit cache 2.7"]
	if after.CacheHitRate < 0.38 || more.CacheHitRate < 0.38 {
		t.Errorf("%v and %v of the answers are from the cache, want 38 %%", after.CacheHitRate, more.CacheHitRate)
	}
	if after.TTFT99 == 0 || before.TTFT99 < 4.3*after.TTFT99 {
		t.Errorf("P99 of the time to first token is %v ms, and was %v: less than 4.3 times lower", after.TTFT99, before.TTFT99)
	}
	if more.RequestsPerSecond < 2.6*before.RequestsPerSecond || more.TTFT99 > before.TTFT99 || more.Errors+more.Shed > 0 {
		t.Errorf("%v answers a second at %v ms, %d lost; want 2.6 times %v within %v ms", more.RequestsPerSecond, more.TTFT99, more.Errors+more.Shed, before.RequestsPerSecond, before.TTFT99)
	}
}
