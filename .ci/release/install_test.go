package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// root is the repository, from here.
const root = "../.."

// version is what the module is published as for the test.
var version = module.Version{Path: "github.com/foregate/foregate", Version: "v0.1.0"}

// moduleFile is a file of the repository as package zip reads it.
type moduleFile string

func (f moduleFile) Path() string                 { return string(f) }
func (f moduleFile) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(root, string(f))) }
func (f moduleFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(root, string(f))) }

// moduleFiles are the files that git has or would take.
func moduleFiles(t *testing.T) []zip.File {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("no git repository: %v", err)
	}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join(root, name)); err == nil {
			files = append(files, moduleFile(name))
		}
	}
	return files
}

// TestTheModuleCanBePublished: no name that a module's zip forbids, no size above its limits, and no replace
// directive, which go install of a version refuses.
func TestTheModuleCanBePublished(t *testing.T) {
	checked, err := zip.CheckFiles(moduleFiles(t))
	if err != nil || len(checked.Invalid) > 0 || checked.SizeError != nil {
		t.Errorf("%v: %v, %v", err, checked.Invalid, checked.SizeError)
	}
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if mod.Module.Mod.Path != version.Path || len(mod.Replace)+len(mod.Exclude) > 0 {
		t.Errorf("module %s, %d replaced, %d excluded", mod.Module.Mod.Path, len(mod.Replace), len(mod.Exclude))
	}
}

// proxy writes a module proxy with the repository as its only module, and returns its URL.
func proxy(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := filepath.Join(dir, version.Path, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := zip.Create(&archive, version, moduleFiles(t)); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"list": []byte(version.Version + "\n"), version.Version + ".zip": archive.Bytes(), version.Version + ".mod": mod,
		version.Version + ".info": []byte(`{"Version":"` + version.Version + `","Time":"2026-11-22T10:00:00Z"}`),
	} {
		if err := os.WriteFile(filepath.Join(at, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir
}

// TestGoInstallWorksOutsideOfTheRepository installs the programs as a user would who has nothing but Go. Other
// modules come from this machine's cache. Embedded files that the zip lacks would not compile.
func TestGoInstallWorksOutsideOfTheRepository(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make deploycheck RELEASE=yes")
	}
	env := func(name string) string {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	bin, elsewhere := t.TempDir(), t.TempDir()
	goEnv := append(os.Environ(),
		"GOPROXY="+proxy(t)+",file://"+filepath.Join(env("GOMODCACHE"), "cache", "download")+","+env("GOPROXY"),
		"GOFLAGS=-mod=mod -modcacherw -trimpath", "GOSUMDB=off", "GOWORK=off", "GOBIN="+bin, "GOMODCACHE="+t.TempDir())
	install := exec.CommandContext(t.Context(), "go", "install",
		version.Path+"/cmd/foregate@latest", version.Path+"/cmd/loadtest@latest", version.Path+"/cmd/vllmsim@latest")
	install.Dir, install.Env = elsewhere, goEnv
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	foregate := filepath.Join(bin, "foregate")
	out, err := exec.CommandContext(t.Context(), foregate, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), version.Version) {
		t.Errorf("foregate version says %s, %v", out, err)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "loadtest"), "list").CombinedOutput(); err != nil || !strings.Contains(string(out), "cascade") {
		t.Errorf("loadtest list: %v\n%s", err, out)
	}
	file := filepath.Join(elsewhere, "foregate.yaml")
	config := "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npools: {p: {model: m, backends: [\"http://127.0.0.1:1\"]}}\nroutes: [{model: m, target: p}]\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), foregate, "check", file).CombinedOutput(); err != nil {
		t.Errorf("foregate check: %v\n%s", err, out)
	}
}
