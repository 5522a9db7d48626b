package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
)

// What the linker stamps (make build, make release, the Dockerfile); empty in a program
// that go build or go install made without them.
var (
	stampedVersion  string // -X main.stampedVersion=v1.2.3
	stampedRevision string // -X main.stampedRevision=COMMIT
)

// build says what program this is.
type build struct {
	Version  string `json:"version"`  // as it was stamped, else the module's
	Revision string `json:"revision"` // the commit that it was built from; "" is not known
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: stampedVersion, Revision: stampedRevision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		b.Version = cmp.Or(b.Version, "unknown")
		return b
	}
	b.Version = cmp.Or(b.Version, info.Main.Version, "unknown")
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = cmp.Or(b.Revision, s.Value)
		}
	}
	return b
}

// version names the program in one line: its version, and the revision it was built from.
func version() string {
	b := thisBuild()
	if b.Revision == "" {
		return b.Version
	}
	return b.Version + " " + b.Revision
}

type versionCmd struct {
	JSON bool `help:"As JSON."`
}

// Run prints what program this is.
func (c versionCmd) Run(e *env) error {
	b := thisBuild()
	if c.JSON {
		return json.NewEncoder(e.stdout).Encode(b)
	}
	_, err := fmt.Fprintf(e.stdout, "foregate %s\nrevision  %s\ngo        %s\nplatform  %s\n",
		b.Version, cmp.Or(b.Revision, "unknown"), b.Go, b.Platform)
	return err
}
