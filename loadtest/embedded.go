package loadtest

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Folder is where Foregate's sources keep the scenarios, and what names of built-in ones are relative to.
const Folder = "loadtest/scenarios"

//go:embed scenarios/*.yaml
var builtIn embed.FS

// Names returns the names of the built-in scenarios, sorted.
func Names() []string {
	files, err := fs.Glob(builtIn, "scenarios/*.yaml") // sorted
	if err != nil {
		panic(err) // the pattern is not well formed
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(path.Base(file), ".yaml")
	}
	return files
}

// Named reads a built-in scenario; an error that is [fs.ErrNotExist] says that there is none of this name.
// A trace that it names is looked for as by [Load] in [Folder].
func Named(name string) (*Scenario, error) {
	data, err := builtIn.ReadFile("scenarios/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("loadtest: %w", err)
	}
	return parseAt(filepath.Join(filepath.FromSlash(Folder), name+".yaml"), data)
}

// parseAt reads a scenario of a file and says where its trace is to be opened.
func parseAt(file string, data []byte) (*Scenario, error) {
	s, err := Parse(file, data)
	if err != nil {
		return nil, err
	}
	if t := &s.Arrivals.Trace; t.Path != "" {
		t.Path = locate(t.Path, filepath.Dir(file), os.Getenv(tracesFolder))
	}
	return s, nil
}
