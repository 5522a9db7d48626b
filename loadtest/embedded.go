package loadtest

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Folder is where Foregate's sources keep the scenarios.
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
func Named(name string) (*Scenario, error) {
	data, err := builtIn.ReadFile("scenarios/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("loadtest: %w", err)
	}
	return Parse(Folder+"/"+name+".yaml", data)
}
