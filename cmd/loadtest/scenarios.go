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

// folder is where scenarios are looked for that are asked for by name, before the built-in ones: in Foregate's sources
// the file counts, so that a change to it is not lost on a binary that was built before.
var folder = filepath.FromSlash(loadtest.Folder)

// open reads the scenario that is called so: by its file, or by its name.
func open(name string) (*loadtest.Scenario, error) {
	var s *loadtest.Scenario
	var err error
	place := name
	if st, bad := os.Stat(name); strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".yaml") || bad == nil && !st.IsDir() {
		s, err = load(name)
	} else {
		s, err = named(name)
		place = filepath.Join(folder, name+".yaml") + ", and among the built-in ones"
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no scenario %s (looked for %s); loadtest list tells which there are", name, place)
	}
	return s, err
}

// named reads the scenario of a name: the file in the folder, where there is one, else the built-in one.
func named(name string) (*loadtest.Scenario, error) {
	s, err := load(filepath.Join(folder, name+".yaml"))
	if !errors.Is(err, os.ErrNotExist) {
		return s, err
	}
	return supported(loadtest.Named(name))
}

// load reads a scenario and checks the names in it that only the simulator knows.
func load(path string) (*loadtest.Scenario, error) {
	return supported(loadtest.Load(path))
}

// supported refuses a scenario with names that the simulator does not know.
func supported(s *loadtest.Scenario, err error) (*loadtest.Scenario, error) {
	if err != nil {
		return nil, err
	}
	if err := live.Supports(s); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return s, nil
}

type listCmd struct{}

// Run lists what may be run by its name: what is in the folder of scenarios, and what is built in.
func (*listCmd) Run(e *env) error {
	names := loadtest.Names()
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	for _, p := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(p), ".yaml"))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	width := 0
	for _, name := range names {
		width = max(width, len(name))
	}
	broken := false
	for _, name := range names {
		s, err := named(name)
		if err != nil {
			e.warn("%v\n", err)
			broken = true
			continue
		}
		e.say("%-*s  %s\n", width, name, firstSentence(s.About))
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
