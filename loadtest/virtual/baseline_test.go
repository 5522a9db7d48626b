package virtual

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/loadtest"
)

var update = flag.Bool("update", false, "rewrite the baselines")

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
	for _, name := range []string{"agree", "burst", "bursty-multitenant", "cascade", "locality", "overcommit", "repeats"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := loadtest.Load(filepath.Join("..", "scenarios", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			report := &loadtest.Report{Scenario: s, Seed: s.Seed, Kind: loadtest.Virtual}
			for i := range s.Cases {
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
			file := filepath.Join("..", "baselines", name+".json")
			if *update {
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
