package display

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestATableLosesNothing(t *testing.T) {
	name, why := strings.Repeat("n", 70), strings.TrimSpace(strings.Repeat("because it is so ", 30))
	tab := Table{Indent: 2}
	tab.Add("NAME", "STATE", "WHY")
	tab.Add("short", "up", "fi\x1bne")
	tab.Add(name, "down", why)
	tab.Add("  " + why)
	var b bytes.Buffer
	tab.Write(&b)
	pad := strings.Repeat(" ", 66)
	want := []string{"  NAME" + pad + "  STATE  WHY", "  short" + pad[1:] + "  up     fi?ne", "  " + name + "  down   " + why, "    " + why}
	if got := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
