package proof

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/proof.md and the README's table by the committed figures")

// The page and the README say what the committed figures say.
func TestThePapersAreOfTheCommittedFigures(t *testing.T) {
	root := filepath.Join("..", "..")
	d, err := Committed()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := d.Write(root); err != nil {
			t.Fatal(err)
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := d.intoReadme(string(readme))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(readme)); diff != "" {
		t.Errorf("README.md (-figures +page); go test ./loadtest/proof -update writes it:\n%s", diff)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "proof.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d.Markdown(), string(page)); diff != "" {
		t.Errorf("docs/proof.md (-figures +page); go test ./loadtest/proof -update writes it:\n%s", diff)
	}
}
