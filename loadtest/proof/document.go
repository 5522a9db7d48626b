package proof

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Document is the page: claims, what was measured of them, and what other commands measured.
type Document struct {
	Claims  []Claim
	Results *Results
	Parts   Parts
}

// folder has the committed figures, from the repository's root.
const folder = "loadtest/proof/results"

//go:embed results
var embedded embed.FS

// Committed is the page as it was committed when this program was built.
func Committed() (*Document, error) {
	d := &Document{Claims: Claims(), Results: &Results{}}
	parts, err := readParts()
	d.Parts = parts
	if err := errors.Join(readPart("claims.json", d.Results), err); err != nil {
		return nil, err
	}
	d.Results.TakeCosts(d.Claims, parts.Overhead) // of more rounds than make proof has the time for
	d.Results.TakeRents(d.Claims, parts.Fleets)
	return d, nil
}

// readPart reads a committed file.
func readPart(name string, to any) error {
	text, err := embedded.ReadFile("results/" + name)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", folder, name, err)
	}
	return nil
}

// Write puts the claims' figures, docs/proof.md and the README's table into the repository at root.
func (d *Document) Write(root string) error {
	readme := filepath.Join(root, "README.md")
	text, err := os.ReadFile(readme)
	if err != nil {
		return fmt.Errorf("not in the repository's root: %w", err)
	}
	edited, err := d.intoReadme(string(text))
	if err != nil {
		return err
	}
	figures, err := json.MarshalIndent(d.Results, "", " ")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		filepath.Join(root, folder, "claims.json"): string(figures) + "\n",
		filepath.Join(root, "docs", "proof.md"):    d.Markdown(),
		readme:                                     edited,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // papers that everybody may read
			return err
		}
	}
	return nil
}

// The README's table stands between these lines.
const (
	tableBegin = "<!-- claims: written by make proof -->\n"
	tableEnd   = "<!-- end of claims -->\n"
)

// intoReadme puts the table of claims into the README's text.
func (d *Document) intoReadme(text string) (string, error) {
	before, rest, ok := strings.Cut(text, tableBegin)
	_, after, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		return "", fmt.Errorf("README.md has no place for the claims: want the lines %q and %q", strings.TrimSpace(tableBegin), strings.TrimSpace(tableEnd))
	}
	return before + tableBegin + "\n" + d.Summary() + "\n" + tableEnd + after, nil
}
