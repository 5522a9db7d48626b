package docs_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The list in SECURITY.md is between these.
const (
	licencesBegin = "<!-- licences: written by make docs -->\n"
	licencesEnd   = "<!-- end of licences -->\n"
)

// licences are told by a phrase that only their text has; the first that fits counts.
var licences = []struct{ name, phrase string }{
	{"Apache-2.0", "Apache License"},
	{"BSD", "Redistribution and use in source and binary forms"},
	{"MIT", "Permission is hereby granted, free of charge"},
}

// licenceOf reads the licence of a module in a folder.
func licenceOf(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "[LC][IO][CP][EY]*")) // LICENSE, LICENSE.txt, COPYING
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("%s has no licence: %w", dir, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return "", err
	}
	for _, l := range licences {
		if strings.Contains(strings.Join(strings.Fields(string(text)), " "), l.phrase) {
			return l.name, nil
		}
	}
	return "", fmt.Errorf("%s is none of the licences that are known", files[0])
}

// TestPackagesLicencesAreListed holds the list in SECURITY.md to what is linked into the three programs.
func TestPackagesLicencesAreListed(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./cmd/...")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	by := map[string][]string{}
	for _, line := range slices.Compact(slices.Sorted(strings.Lines(string(out)))) {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, err := licenceOf(dir)
		if err != nil {
			t.Errorf("%s: %v", module, err)
		}
		by[name] = append(by[name], module)
	}
	var want strings.Builder
	for _, name := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(&want, "- **%s** (%d): %s\n", name, len(by[name]), strings.Join(by[name], ", "))
	}
	const file = "../SECURITY.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), licencesBegin)
	is, after, closed := strings.Cut(rest, licencesEnd)
	if !ok || !closed {
		t.Fatalf("%s has no place for licences", file)
	}
	if is == want.String() {
		return
	}
	if !*update {
		t.Fatalf("the licences in %s are not those of the modules: make docs writes them", file)
	}
	if err := os.WriteFile(file, []byte(before+licencesBegin+want.String()+licencesEnd+after), 0o644); err != nil { //nolint:gosec // a paper
		t.Fatal(err)
	}
}
