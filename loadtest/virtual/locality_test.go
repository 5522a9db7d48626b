package virtual

import (
	"path/filepath"
	"testing"

	"github.com/foregate/foregate/loadtest"
)

// TestEverySeedOfLocalityFindsItsPrefixes runs a fleet whose caches have room for four
// contexts each and hardly a block more: a context that is sent where it is not warm
// pushes another one out, and that one the next.
func TestEverySeedOfLocalityFindsItsPrefixes(t *testing.T) {
	if slow {
		t.Skip("left out under the race detector")
	}
	s, err := loadtest.Load(filepath.Join("..", "scenarios", "locality.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Cases {
		if s.Cases[i].Name != "fit" {
			continue
		}
		for seed := uint64(2); seed <= 5; seed++ { // the first is a baseline
			if testing.Short() && seed != 3 { // which was the hardest
				continue
			}
			r, err := Run(t.Context(), s, &s.Cases[i], seed)
			if err != nil {
				t.Fatal(err)
			}
			if row := r.Row(); row.PrefixHitRate < 0.97 {
				t.Errorf("seed %d: %.3f of the prompts' tokens are found, want 0.97", seed, row.PrefixHitRate)
			}
		}
	}
}

// TestAColdFleetAtItsLimitFindsBackToItsPrefixes holds the committed rows: from cold, with
// as many requests as it can bear when it is warm.
func TestAColdFleetAtItsLimitFindsBackToItsPrefixes(t *testing.T) {
	for scenario, names := range map[string][]string{"locality": {"fit", "fit 1 replica"}, "repeats": {"fit", "fit 2.7"}} {
		rows := baseline(t, scenario)
		for _, name := range names {
			if row := rows[name]; row.PrefixHitRate < 0.97 || row.Errors+row.Shed > 0 {
				t.Errorf("%s, %s: %.3f of the prompts' tokens are found, want 0.97; %d lost", scenario, name, row.PrefixHitRate, row.Errors+row.Shed)
			}
		}
	}
}
