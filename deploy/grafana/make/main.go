// Command make writes the Grafana dashboards of deploy/grafana/dashboards from the descriptions in
// this package, which are short, so that all boards have the same colours, legends and links:
//
//	go run ./deploy/grafana/make
//
// Start at boards. It imports nothing of the gateway; a test of cmd/foregate asks a running one whether
// it has every metric that is named here.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// dashboards is where they are, from the module's root.
const dashboards = "deploy/grafana/dashboards"

func main() {
	if err := write(dashboards); err != nil {
		fmt.Fprintln(os.Stderr, "make:", err)
		os.Exit(1)
	}
}

// write writes all dashboards into a directory that exists.
func write(dir string) error {
	files, err := made()
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// made are the files by name.
func made() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, b := range boards() {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false) // queries are full of > and <
		e.SetIndent("", " ")
		if err := e.Encode(b.model()); err != nil {
			return nil, err
		}
		files[b.file+".json"] = text.Bytes()
	}
	return files, nil
}

// boards are all dashboards, in the order in which they link to each other.
func boards() []board {
	return []board{overview(), drafts(), answers(), pools(), engines(), shedding(), cost()}
}
