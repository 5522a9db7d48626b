package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/live"
)

// folder is where scenarios are that are asked for by name.
var folder = filepath.Join("loadtest", "scenarios")

// open reads the scenario that is called so: by its file, or by its name.
func open(name string) (*loadtest.Scenario, error) {
	path := name
	if !strings.ContainsRune(name, '/') && !strings.HasSuffix(name, ".yaml") {
		if _, err := os.Stat(name); err != nil || isDir(name) {
			path = filepath.Join(folder, name+".yaml")
		}
	}
	s, err := load(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no scenario %s (looked for %s); loadtest list tells which there are", name, path)
	}
	return s, err
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// load reads a scenario and checks the names in it that only the simulator knows.
func load(path string) (*loadtest.Scenario, error) {
	s, err := loadtest.Load(path)
	if err != nil {
		return nil, err
	}
	if err := live.Supports(s); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

type listCmd struct{}

// Run lists what is in the folder of scenarios.
func (*listCmd) Run(e *env) error {
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("there are no scenarios in %s; run it where Foregate's sources are", folder)
	}
	slices.Sort(paths)
	broken := false
	width := 0
	for _, p := range paths {
		width = max(width, len(filepath.Base(p))-len(".yaml"))
	}
	for _, p := range paths {
		s, err := load(p)
		if err != nil {
			e.warn("%v\n", err)
			broken = true
			continue
		}
		e.say("%-*s  %s\n", width, s.Name, firstSentence(s.About))
	}
	if broken {
		return errSilent
	}
	return nil
}

// firstSentence is the text up to the first full stop that ends one, on one line.
func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if at := strings.Index(text, ". "); at >= 0 {
		text = text[:at+1]
	}
	return text
}

type checkCmd struct {
	Files []string `arg:"" name:"file" help:"Scenario files." type:"path"`
}

// Run checks every file, and tells of all mistakes.
func (c *checkCmd) Run(e *env) error {
	broken := false
	for _, path := range c.Files {
		s, err := load(path)
		if err != nil {
			e.warn("%v\n", err)
			broken = true
			continue
		}
		e.say("%s: sound; cases: %s\n", path, strings.Join(caseNames(s), ", "))
	}
	if broken {
		return errSilent
	}
	return nil
}

func caseNames(s *loadtest.Scenario) []string {
	var names []string
	for _, c := range s.Cases {
		names = append(names, c.Name)
	}
	return names
}
