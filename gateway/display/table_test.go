package display

import (
	"bytes"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// screen is a terminal of this width.
type screen struct {
	bytes.Buffer
	width int
}

func (s *screen) Columns() int { return s.width }

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

// fits writes to a pipe and to terminals: all say the same words, and lines of more than one long word fit a terminal.
func fits(t *testing.T, show func(io.Writer)) {
	t.Helper()
	var pipe bytes.Buffer
	show(&pipe)
	for _, wide := range []int{MinColumns, 80, 100, 220} {
		s := screen{width: wide}
		show(&s)
		if d := cmp.Diff(strings.Fields(pipe.String()), strings.Fields(s.String())); d != "" {
			t.Errorf("%d columns: -pipe +terminal:\n%s", wide, d)
		}
		for line := range strings.Lines(s.String()) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > wide && len(strings.Fields(line)) > 1 {
				t.Errorf("%d columns of %d: %s", n, wide, line)
			}
		}
	}
}

func TestATableLosesNothing(t *testing.T) {
	name, why := strings.Repeat("n", 70), strings.TrimSpace(strings.Repeat("because it is so ", 30))
	show := func(w io.Writer) {
		tab := Table{Indent: 2, MaxWidth: 10}
		tab.Add("NAME", "STATE", "WHY")
		tab.Add("short", "up", "fine")
		tab.Add(name, "down", why)
		tab.Add("  " + why)
		tab.Write(w)
	}
	var pipe bytes.Buffer
	show(&pipe)
	want := []string{"  NAME   STATE  WHY", "  short  up     fine", "  " + name + "  down   " + why, "    " + why}
	if got := strings.Split(strings.TrimSuffix(pipe.String(), "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	fits(t, show)
}

func TestTextGoesOnBelowWhereItBegan(t *testing.T) {
	for _, c := range []struct {
		text string
		hang int
		want []string
	}{
		{"key  one two three four five six seven eight nine", 5, []string{"key  one two three four five six seven", "     eight nine"}},
		{strings.Repeat("x", 50) + " a bc", 2, []string{strings.Repeat("x", 50), "  a bc"}},
		{"a " + strings.Repeat("x", 50), 2, []string{"a", "  " + strings.Repeat("x", 50)}},
		{strings.Repeat(" ", 44) + "a b", 60, []string{strings.Repeat(" ", 44) + "a", strings.Repeat(" ", 20) + "b"}},
		{strings.Repeat("ü", 40) + "   ", 2, []string{strings.Repeat("ü", 40)}},
		{"", 2, []string{""}},
	} {
		if got := fold(c.text, c.hang, 40); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q", c.text, got)
		}
	}
	if got := fold(strings.Repeat("ab ", 99), 2, 0); len(got) != 1 {
		t.Errorf("without a terminal: %q", got)
	}
}
