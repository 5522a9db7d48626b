package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes what the programs in bin are made of, as the linker noted it in them: the modules that
// are really in these programs, not all that go.mod knows of.
func writeSBOM(o options, bin, name string) error {
	bom, err := sbomOf(o, bin)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(o.out, name+".cdx.json"))
	if err != nil {
		return err
	}
	e := cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	if err := e.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		_ = f.Close() // the first error is the cause
		return err
	}
	return f.Close()
}

func sbomOf(o options, bin string) (*cyclonedx.BOM, error) {
	var programs, libraries []cyclonedx.Component
	modules := map[string]*debug.Module{}
	var dependencies []cyclonedx.Dependency
	var main debug.Module
	for _, c := range commands {
		info, err := buildinfo.ReadFile(filepath.Join(bin, c))
		if err != nil {
			return nil, err
		}
		sum, err := digest(filepath.Join(bin, c))
		if err != nil {
			return nil, err
		}
		main = info.Main
		program := cyclonedx.Component{
			BOMRef: c, Type: cyclonedx.ComponentTypeApplication, Name: c, Version: o.version,
			Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}},
		}
		programs = append(programs, program)
		needs := []string{}
		for _, m := range append(info.Deps, &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}) {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[purl(m)] = m
			needs = append(needs, purl(m))
		}
		slices.Sort(needs)
		dependencies = append(dependencies, cyclonedx.Dependency{Ref: c, Dependencies: &needs})
	}
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		library, err := component(modules[ref])
		if err != nil {
			return nil, err
		}
		libraries = append(libraries, library)
	}
	whole := cyclonedx.Component{
		BOMRef: "release", Type: cyclonedx.ComponentTypeApplication, Name: "foregate", Version: o.version,
		PackageURL: "pkg:golang/" + main.Path + "@" + o.version,
		Licenses:   &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		Properties: &[]cyclonedx.Property{{Name: "revision", Value: o.revision}},
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: o.made.Format(time.RFC3339), Component: &whole}
	bom.Components = new(append(programs, libraries...))
	bom.Dependencies = &dependencies
	return bom, nil
}

// component is a module as CycloneDX lists it.
func component(m *debug.Module) (cyclonedx.Component, error) {
	c := cyclonedx.Component{BOMRef: purl(m), Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m)}
	if m.Sum == "" {
		return c, nil
	}
	// h1 is the SHA-256 of the list of the module's files, each with its own; go.sum has it.
	sum, ok := strings.CutPrefix(m.Sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(sum)
	if !ok || err != nil {
		return c, cmp.Or(err, fmt.Errorf("%s: sum %q is of no known kind", m.Path, m.Sum))
	}
	c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	return c, nil
}

func purl(m *debug.Module) string { return "pkg:golang/" + m.Path + "@" + m.Version }
