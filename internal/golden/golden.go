// Package golden compares texts with files, for tests. Start at [Check]; its flag -update rewrites the files of testdata. [HasLine]
// holds figures to the tables of the papers.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Updating reports whether the flag -update was given.
func Updating() bool { return *update }

// Check fails the test if got is not what the file holds. With -update it writes the file first.
func Check(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // files of the repository, which all may read
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

// HasLine fails the test unless a file has the line.
func HasLine(t testing.TB, file, line string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n"+line+"\n") {
		t.Errorf("%s lacks the line\n%s", file, line)
	}
}

// Row is a row of a Markdown table: a name, and numbers in a format, with a minus sign, not a hyphen.
func Row(format, name string, values ...float64) string {
	row := "| " + name + " |"
	for _, v := range values {
		row += strings.Replace(fmt.Sprintf(" "+format+" |", v), "-", "−", 1)
	}
	return row
}
