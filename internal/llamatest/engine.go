package llamatest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Options describe an engine.
type Options struct {
	Model   Model
	Slots   int           // requests that generate at once; 0 is 2
	Window  int           // context of a request in tokens, a multiple of 256; 0 is 1024
	Pause   time.Duration // after each token, for tests that leave in mid-answer; whole milliseconds
	Metrics bool          // llama-server's --metrics
}

// Engine is a running engine.
type Engine struct {
	URL   string
	Model string // that it serves
}

// Slot is what GET /slots says of a place for a request.
type Slot struct {
	Processing bool `json:"is_processing"`
	Task       int  `json:"id_task"` // of the last request; -1: none yet
	Next       []struct {
		Decoded int `json:"n_decoded"`
	} `json:"next_token"`
}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 5 * time.Second
)

// Start starts an engine, and stops it with the test. Without Node or without the npm package it skips the test; with
// FOREGATE_LLAMA=require, as in make llama, it fails it.
func Start(t testing.TB, o Options) *Engine {
	t.Helper()
	in, err := find()
	switch {
	case err != nil && os.Getenv("FOREGATE_LLAMA") == "require":
		t.Fatalf("no real engine: %v", err)
	case err != nil:
		t.Skipf("no real engine: %v; make llama installs it", err)
	}
	url, err := in.start(t, o)
	if err != nil {
		t.Fatalf("the engine does not start: %v", err)
	}
	return &Engine{URL: url, Model: o.Model.Name}
}

// Slots asks the engine for its slots.
func (e *Engine) Slots(t testing.TB) (slots []Slot) {
	t.Helper()
	client := http.Client{Timeout: stopTimeout}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL+"/slots", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&slots); err != nil {
		t.Fatal(err)
	}
	return slots
}

// installation says where the engine's parts are.
type installation struct{ node, server, modules string }

// find looks for Node, for our server and for the npm package that .ci/need-llama installs.
func find() (in installation, err error) {
	if in.node, err = exec.LookPath("node"); err != nil {
		return in, errors.New("node is not in PATH")
	}
	root, err := os.Getwd()
	if err != nil {
		return in, err
	}
	for ; !exists(filepath.Join(root, "go.mod")); root = filepath.Dir(root) {
		if root == filepath.Dir(root) {
			return in, errors.New("the test does not run within the repository")
		}
	}
	folder := filepath.Join(root, ".ci", "clients", "llama")
	in.server = filepath.Join(folder, "server.mjs")
	home, err := homeOf(filepath.Join(folder, "package.json"))
	if err != nil {
		return in, err
	}
	in.modules = filepath.Join(home, "node_modules")
	if !exists(filepath.Join(home, "installed")) {
		return in, fmt.Errorf("llama.cpp is not in %s", home)
	}
	return in, nil
}

// homeOf is where .ci/need-llama puts the version of the engine that a package.json names.
func homeOf(file string) (string, error) {
	if home := os.Getenv("FOREGATE_LLAMA_HOME"); home != "" {
		return home, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var about struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(text, &about); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "foregate", "llama-"+about.Dependencies["@node-llama-cpp/linux-x64"]), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// start writes the model and starts the server. It returns the server's URL.
func (in installation) start(t testing.TB, o Options) (url string, err error) {
	folder := t.TempDir()
	model, chat := filepath.Join(folder, "model.gguf"), filepath.Join(folder, "template.jinja")
	if err := o.Model.Write(model); err != nil {
		return "", err
	}
	if err := os.WriteFile(chat, []byte(template), 0o600); err != nil {
		return "", err
	}
	args := []string{in.server, "--modules", in.modules, "--model", model, "--template", chat, "--alias", o.Model.Name}
	for flag, value := range map[string]int{"--slots": o.Slots, "--context": o.Window, "--pause": int(o.Pause.Milliseconds())} {
		if value > 0 {
			args = append(args, flag, strconv.Itoa(value))
		}
	}
	if o.Metrics {
		args = append(args, "--metrics")
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), in.node, args...) // it outlives the test's context
	cmd.Stderr = os.Stderr
	life, err := cmd.StdinPipe() // the server ends when it is closed, also with a test process that was killed
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	t.Cleanup(func() {
		_ = life.Close()
		kill := time.AfterFunc(stopTimeout, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait() // how it ends is of no interest
	})
	return listening(out, cmd)
}

// listening waits until the server says where it is. One that stays silent is killed.
func listening(out io.Reader, cmd *exec.Cmd) (url string, err error) {
	kill := time.AfterFunc(startTimeout, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		return "", fmt.Errorf("it said %q (%w)", line, err)
	}
	return url, nil
}
