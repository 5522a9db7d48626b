package compose

import (
	"encoding/json"
	"go/version"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// ignored matches what Docker leaves out of the context of a build.
func ignored(t *testing.T) *patternmatcher.PatternMatcher {
	t.Helper()
	f, err := os.Open(filepath.Join(root(t), ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	m, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// buildContext copies what Docker would be sent.
func buildContext(t *testing.T) string {
	t.Helper()
	m, from, to := ignored(t), root(t), t.TempDir()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" {
				return filepath.SkipDir // large, and ignored: the paths below say so
			}
			return nil
		}
		if out, err := m.MatchesOrParentMatches(rel); err != nil || out || !d.Type().IsRegular() {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(rel)), 0o750); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), []byte(read(t, path)), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestSecretsAndHistoryStayOutOfTheBuild(t *testing.T) {
	m := ignored(t)
	for _, path := range []string{".git/config", ".ci/run", "deploy/compose/secrets/admin-tokens", "cmd/foregate/secrets/key",
		"gateway/tls/site.key",
		"gateway/secrets/x.key", "gateway/files/secrets_test.go",
		"cmd/foregate/main_test.go", "bin/foregate", "dist/SHA256SUMS", "deploy/compose/foregate.yaml"} {
		if out, err := m.MatchesOrParentMatches(path); err != nil || !out {
			t.Errorf("%s is sent: %v", path, err)
		}
	}
	for _, path := range []string{"go.mod", "go.sum", "LICENSE", "cmd/foregate/main.go", "gateway/config/config.go",
		"gateway/files/secrets.go"} {
		if out, err := m.MatchesOrParentMatches(path); err != nil || out {
			t.Errorf("%s is not sent: %v", path, err)
		}
	}
}

// The Dockerfile's own command, in what Docker would be sent.
func TestTheImagesBuildFromWhatDockerIsSent(t *testing.T) {
	dockerfile := strings.ReplaceAll(read(t, filepath.Join(root(t), "Dockerfile")), "\\\n", " ")
	m := regexp.MustCompile(`go build (.*?)-ldflags "([^"]*)"\s+-o /out/ (.*)`).FindStringSubmatch(dockerfile)
	if m == nil {
		t.Fatal("the Dockerfile does not build")
	}
	flags := strings.NewReplacer("$VERSION", "v1.2.3", "$REVISION", "0123abc").Replace(m[2])
	bin := t.TempDir() + string(filepath.Separator)
	args := slices.Concat([]string{"build", "-ldflags", flags, "-o", bin}, strings.Fields(m[1]), strings.Fields(m[3]))
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = buildContext(t), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, target := range []string{"foregate", "vllmsim"} {
		if entry := entrypoint(t, target); len(entry) != 1 || entry[0] != "/usr/local/bin/"+target {
			t.Errorf("%s is started as %q", target, entry)
		}
	}
	out, err := exec.CommandContext(t.Context(), bin+"foregate", "version", "--json").Output()
	var told struct{ Version, Revision string }
	if err != nil || json.Unmarshal(out, &told) != nil || told.Version != "v1.2.3" || told.Revision != "0123abc" {
		t.Errorf("%v: %s", err, out)
	}
	for _, name := range []string{"Makefile", ".ci/release/main.go"} { // the other two who build
		for _, x := range []string{"-s -w", "-X main.stampedVersion=", "-X main.stampedRevision="} {
			if !strings.Contains(flags, x) || !strings.Contains(read(t, filepath.Join(root(t), name)), x) {
				t.Errorf("%s or the Dockerfile builds without %s", name, x)
			}
		}
	}
}

func TestTheDockerfileIsPinnedAndNobodyIsRoot(t *testing.T) {
	dockerfile := read(t, filepath.Join(root(t), "Dockerfile"))
	if image := regexp.MustCompile(`(?m)^ARG GO_IMAGE=(.*)$`).FindStringSubmatch(dockerfile); image == nil || !pinned.MatchString(image[1]) {
		t.Errorf("the builder is %q", image)
	}
	stages := regexp.MustCompile(`(?m)^FROM (.*)$`).FindAllStringSubmatch(dockerfile, -1)
	var got []string
	for _, s := range stages {
		got = append(got, s[1])
	}
	want := []string{"--platform=$BUILDPLATFORM ${GO_IMAGE} AS build", "scratch AS vllmsim", "scratch AS foregate"}
	if !slices.Equal(got, want) {
		t.Errorf("stages %q", got)
	}
	if n := strings.Count(dockerfile, "\nUSER 65532:65532\n"); n != 2 {
		t.Errorf("%d of 2 images have a user who is not root", n)
	}
	// Its libraries are in the image: never older than what the tests have run with.
	image := regexp.MustCompile(`GO_IMAGE=golang:([0-9.]+)-`).FindStringSubmatch(dockerfile)
	if image == nil || version.Compare("go"+image[1], runtime.Version()) < 0 {
		t.Errorf("the builder is %q, and the tests run with %s", image, runtime.Version())
	}
	if mod := regexp.MustCompile(`(?m)^go ([0-9.]+)$`).FindStringSubmatch(read(t, filepath.Join(root(t), "go.mod"))); mod == nil ||
		!strings.Contains(dockerfile, "golang:"+strings.Join(strings.Split(mod[1], ".")[:2], ".")) {
		t.Errorf("go.mod wants Go %v", mod)
	}
}
