package display

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares with a file, or rewrites it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got:\n%s", file, diff)
	}
}

func TestATableLosesNothing(t *testing.T) {
	name, why := strings.Repeat("n", 70), strings.TrimSpace(strings.Repeat("because it is so ", 30))
	tab := Table{Indent: 2, MaxWidth: 10}
	tab.Add("NAME", "STATE", "WHY")
	tab.Add("short", "up", "fine")
	tab.Add(name, "down", why)
	tab.Add("  " + why)
	var b bytes.Buffer
	tab.Write(&b)
	want := []string{"  NAME   STATE  WHY", "  short  up     fine", "  " + name + "  down   " + why, "    " + why}
	if got := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
