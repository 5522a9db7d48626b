package loadtest

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestABuiltInScenarioIsThatOfItsFile(t *testing.T) {
	files, err := filepath.Glob("scenarios/*.yaml")
	if err != nil || len(files) != len(Names()) {
		t.Fatalf("%d files, %d names, %v", len(files), len(Names()), err)
	}
	for _, name := range Names() {
		got, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Load(filepath.Join("scenarios", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if p := &want.Arrivals.Trace; p.Path != "" {
			p.Path = filepath.Join("loadtest", p.Path) // as from the top of the sources
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(Scenario{})); d != "" {
			t.Errorf("%s: (-file +built in)\n%s", name, d)
		}
	}
	for _, name := range []string{"", "nothing", "../doc", "smoke.yaml"} {
		if _, err := Named(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
