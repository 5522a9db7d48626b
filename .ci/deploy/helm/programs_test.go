package helm

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bin is where the programs are.
var bin string

// TestMain builds the programs that what is rendered is given to.
func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "foregate-deploy")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin = dir
	build := exec.Command("go", "build", "-o", dir, "./cmd/foregate", "./cmd/vllmsim")
	build.Dir = repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

const mounted = "/run/secrets/foregate/"

// onThisMachine is a file of a pod with the paths that are mounted there put under a directory here, in
// which each that it names has a secret.
func onThisMachine(t *testing.T, text string) (path string) {
	t.Helper()
	dir := t.TempDir()
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \n\"',{}[]", c) }) {
		if name, ok := strings.CutPrefix(word, mounted); ok {
			at := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(strings.Repeat("s3cret-", 6)+filepath.Base(at)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	path = filepath.Join(dir, "foregate.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, mounted, dir+"/")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestForegateTakesTheFile(t *testing.T) {
	inEveryVariant(t, func(t *testing.T, _ *deployment, docs []object) {
		text, _ := configFile(t, docs)
		if text == "" {
			return
		}
		if out, err := exec.Command(bin+"/foregate", "check", onThisMachine(t, text)).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\nof\n%s", err, out, text)
		}
	})
}

// process is a program that listens, stopped when the test ends.
func process(t *testing.T, ready string, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if resp, err := http.Get(ready); err == nil {
			_ = resp.Body.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s did not come up", name)
		}
	}
}

// freeAddress is one that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// startGateway runs a gateway with the backends given in its pool draft, and returns its admin listener's URL.
func startGateway(t *testing.T, backends ...string) string {
	t.Helper()
	admin := freeAddress(t)
	file := filepath.Join(t.TempDir(), "foregate.yaml")
	text := fmt.Sprintf("listen: %s\nadmin: %s\npools: {draft: {model: m, backends: [%q]}}\nroutes: [{model: m, target: draft}]\ndrain: {delay: 0s, grace: 1s}\n",
		freeAddress(t), admin, strings.Join(backends, `", "`))
	text = strings.ReplaceAll(text, `\"`, `"`)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process(t, "http://"+admin+"/livez", "foregate", "serve", "-c", file)
	return "http://" + admin
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
