package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

var made = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

// here is a release of this machine's platform alone, from a folder with the sources.
func here(t *testing.T, source string) (options, []string) {
	t.Helper()
	o := options{source: source, out: t.TempDir(), version: "v1.2.3-rc.1+test", revision: strings.Repeat("ab", 20), made: made, platforms: []string{runtime.GOOS + "/" + runtime.GOARCH}}
	files, err := release(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return o, files
}

// copyTree copies what the programs are built from to another place, as another clone would have it.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && rel != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "dist", "testdata", "node_modules"}, d.Name())):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !d.Type().IsRegular() || strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		body, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // somebody's editor was at work
			return nil
		} else if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), body, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// unpack reads an archive, and lays it into a folder.
func unpack(t *testing.T, path string) (heads []*tar.Header, dir string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if !zipped.ModTime.IsZero() || zipped.Name != "" {
		t.Errorf("the archive was zipped at %v from %q", zipped.ModTime, zipped.Name)
	}
	dir = t.TempDir()
	for archive := tar.NewReader(zipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return heads, dir
		} else if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, h)
		body, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, body, fs.FileMode(h.Mode)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAReleaseIsTheSameWhereverItIsBuiltAndItsProgramsRun(t *testing.T) {
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	copied := copyTree(t, source) // what is released must not change meanwhile
	one, files := here(t, copied)
	two, again := here(t, copyTree(t, copied))
	if !slices.Equal(files, again) || len(files) != 3 {
		t.Fatalf("%v, then %v", files, again)
	}
	for _, name := range files {
		if !bytes.Equal(content(t, one, name), content(t, two, name)) {
			t.Errorf("%s is another when it is built elsewhere", name)
		}
	}
	name := "foregate_" + one.version + "_" + runtime.GOOS + "_" + runtime.GOARCH
	checkSums(t, one.out, files)

	heads, dir := unpack(t, filepath.Join(one.out, name+".tar.gz"))
	var names []string
	for _, h := range heads {
		names = append(names, h.Name)
		if !h.ModTime.Equal(made) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s is of %v and user %d %q", h.Name, h.ModTime, h.Uid, h.Uname)
		}
	}
	want := []string{name + "/CHANGELOG.md", name + "/LICENSE", name + "/README.md", name + "/foregate", name + "/loadtest", name + "/vllmsim"}
	if !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	for _, program := range commands {
		bin := filepath.Join(dir, name, program)
		if out, err := exec.CommandContext(t.Context(), bin, "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "Usage: "+program) {
			t.Errorf("%s: %v: %s", program, err, out)
		}
		if bytes.Contains(content(t, options{out: filepath.Dir(bin)}, program), []byte(copied)) {
			t.Errorf("%s tells where it was built", program)
		}
	}
	var told struct{ Version, Revision, Go, Platform string }
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, name, "foregate"), "version", "--json").Output()
	if err != nil || json.Unmarshal(out, &told) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if told.Version != one.version || told.Revision != one.revision || told.Go != goVersion(t) || told.Platform != one.platforms[0] {
		t.Errorf("%+v", told)
	}
	checkSBOM(t, one, name, filepath.Join(dir, name))
}

// goVersion is that of the Go that builds: not that of this test.
func goVersion(t *testing.T) string {
	t.Helper()
	out, err := output(t.Context(), "../..", "go", "env", "GOVERSION")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func content(t *testing.T, o options, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(o.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// checkSums asks the program that people use.
func checkSums(t *testing.T, dir string, files []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sums)
	if _, err := exec.LookPath("sha256sum"); err != nil {
		cmd = exec.CommandContext(t.Context(), "shasum", "-a", "256", "--check", "--strict", sums)
	}
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), ": OK\n") != len(files)-1 {
		t.Errorf("%v: %s", err, out)
	}
}

// checkSBOM holds the list against the programs, and against go.mod.
func checkSBOM(t *testing.T, o options, name, programs string) {
	t.Helper()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(content(t, o, name+".cdx.json")), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != o.version || bom.Metadata.Timestamp != "2026-11-22T10:00:00Z" {
		t.Errorf("the SBOM is of %+v at %s", bom.Metadata.Component, bom.Metadata.Timestamp)
	}
	listed := map[string]cyclonedx.Component{}
	for _, c := range *bom.Components {
		if _, twice := listed[c.BOMRef]; twice {
			t.Errorf("%s is listed twice", c.BOMRef)
		}
		listed[c.BOMRef] = c
	}
	for _, program := range commands {
		want, err := digest(filepath.Join(programs, program))
		if err != nil {
			t.Fatal(err)
		}
		if c := listed[program]; c.Hashes == nil || (*c.Hashes)[0].Value != want {
			t.Errorf("the SBOM has another %s", program)
		}
	}
	mod := string(content(t, options{out: o.source}, "go.mod"))
	found := 0
	for ref, c := range listed {
		if c.Type != cyclonedx.ComponentTypeLibrary {
			continue
		}
		if c.Name == "stdlib" {
			if "go"+c.Version != goVersion(t) {
				t.Errorf("the standard library is %s", c.Version)
			}
			continue
		}
		if !strings.Contains(mod, c.Name+" "+c.Version) {
			t.Errorf("%s is not in go.mod", ref)
		}
		if c.Hashes == nil {
			t.Errorf("%s has no hash", ref)
		}
		found++
	}
	for _, must := range []string{"github.com/go-chi/chi/v5", "github.com/redis/go-redis/v9", "github.com/sony/gobreaker/v2"} {
		if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool { return c.Name == must }) {
			t.Errorf("the SBOM lacks %s", must)
		}
	}
	if found < 10 {
		t.Errorf("only %d modules", found)
	}
	for _, d := range *bom.Dependencies {
		for _, ref := range *d.Dependencies {
			if _, ok := listed[ref]; !ok {
				t.Errorf("%s needs %s, which is not listed", d.Ref, ref)
			}
		}
	}
}

func TestAVersionThatIsNoNameIsRefused(t *testing.T) {
	for _, version := range []string{"", "../v1", "v1 -X main.x=y", "v1/2", strings.Repeat("v", 65)} {
		if _, err := release(t.Context(), options{version: version, revision: "ab", out: t.TempDir()}); err == nil {
			t.Errorf("%q passes", version)
		}
	}
}

func TestOnlyFormerReleasesAreRemoved(t *testing.T) {
	out := t.TempDir()
	for _, name := range []string{"foregate_v1_linux_amd64.tar.gz", "foregate_v1_linux_amd64.cdx.json", "SHA256SUMS", "notes.md"} {
		if err := os.WriteFile(filepath.Join(out, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := clear(out); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 || left[0].Name() != "notes.md" {
		t.Errorf("left are %v", left)
	}
}
