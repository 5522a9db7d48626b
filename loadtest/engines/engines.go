// Package engines starts real engines, vLLM and llama.cpp on the CPU, for tests and for the lab, and puts a TCP proxy
// before them that cuts, stalls and records. Engines and weights are in the cache that .ci/need-engines fills. Start at
// [Start] for an engine of a test's own, at [Run] without a test, at [NewProxy] for the proxy.
//
// The tests of this package are the suite that compares the gateway with the engines. Their pairs are started once
// for all tests:
//
//	make engines ENGINES="llamacpp vllm" RUN=Pattern
//
// or, at engines that run already (make engines-up), with go test and this in the environment:
//
//	FOREGATE_ENGINES_RUNNING="llamacpp-draft=http://127.0.0.1:8012 llamacpp-target=http://127.0.0.1:8011"
//
// A test begins with each(t, func(t *testing.T, p pair)), which runs it for every pair that is there, and asks
// serve(t, p, …) for a gateway in front of it. go test -short is the short form.
package engines

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

// Kinds of engines, as in the gateway's configuration.
const (
	LlamaCpp = "llamacpp"
	VLLM     = "vllm"
)

// Models of the pairs, in the home of the engines. llama.cpp has one draft; those of vLLM are near, worse and bad.
const (
	LlamaTarget = "smol-q4_1.gguf"
	LlamaDraft  = "smol-q4_1-draft.gguf"
	VLLMTarget  = "smol-target"
	VLLMDraft   = "smol-draft-0.3"
)

const (
	maxQuiet = 3 * time.Minute  // without a line of its log, while an engine starts; two cores are slow at times
	maxStart = 15 * time.Minute // in all
)

// Options describe an engine.
type Options struct {
	Kind  string   // LlamaCpp or VLLM
	Model string   // a file or folder in the home's models
	Name  string   // that it serves; "" is "target"
	Flags []string // of .ci/engines/llama_server.py (--slots, --window, --threads, --template), of vllm serve
	Env   []string // NAME=VALUE
}

// Engine is an engine on loopback. Its methods that change the process are for those that [Run] or [Start] began.
type Engine struct {
	Kind, URL, Model string // the model as it serves it

	options Options
	process *process.Process // nil: it runs elsewhere
}

// Home is where .ci/need-engines puts the engines.
func Home() (string, error) {
	if home := os.Getenv("FOREGATE_ENGINES_HOME"); home != "" {
		return home, nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "foregate", "engines"), err
}

// Need skips a test whose kind of engine is not set up. It fails it where FOREGATE_ENGINES names the kind, as make engines does.
// vLLM takes a minute to start, so it is used only where it is named.
func Need(t testing.TB, kind string) {
	t.Helper()
	home, err := Home()
	if err == nil {
		_, err = os.Stat(filepath.Join(home, kind+".ready"))
	}
	switch {
	case err != nil && named(kind):
		t.Fatalf("%s is not set up (.ci/need-engines %s): %v", kind, kind, err)
	case err != nil, !named(kind) && (kind == VLLM || os.Getenv("FOREGATE_ENGINES") != ""):
		t.Skipf("without %s: make engines ENGINES=%s", kind, kind)
	}
}

// named tells whether FOREGATE_ENGINES names a kind.
func named(kind string) bool {
	return slices.Contains(strings.Fields(os.Getenv("FOREGATE_ENGINES")), kind)
}

// Start starts an engine, and stops it with the test; see [Need] for where there is none.
func Start(t testing.TB, o Options) *Engine {
	t.Helper()
	Need(t, o.Kind)
	e, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Stop)
	return e
}

// Run starts an engine and waits until it serves: for as long as its log goes on, at most 15 minutes.
func Run(ctx context.Context, o Options) (*Engine, error) {
	addrs, err := process.FreeAddrs(1)
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = "target"
	}
	e := &Engine{Kind: o.Kind, URL: "http://" + addrs[0], Model: o.Name, options: o}
	return e, e.start(ctx)
}

func (e *Engine) start(ctx context.Context) error {
	root, err := root()
	if err != nil {
		return err
	}
	args := append(append([]string(nil), e.options.Env...), filepath.Join(root, ".ci", "engines", "start"), e.Kind, e.options.Model, process.Port(e.URL[len("http://"):]), e.Model)
	e.process, err = process.Start(process.Command{Name: e.Kind + " " + e.options.Model, Path: "env", Args: append(args, e.options.Flags...)})
	if err != nil {
		return err
	}
	if err := e.serves(ctx); err != nil {
		e.Stop()
		return err
	}
	return nil
}

// serves waits while the engine makes progress.
func (e *Engine) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxStart)
	defer cancel()
	for lines := -1; ; {
		err := process.Poll(ctx, maxQuiet, func() bool {
			_, err := process.Fetch(ctx, e.URL+"/health")
			return err == nil || !e.process.Alive() || e.process.Log.Count() > lines
		})
		switch {
		case !e.process.Alive():
			return e.process.Died()
		case err != nil:
			return fmt.Errorf("%s does not come up: %w; its last words:\n%s", e.process.Name, err, e.process.Log.Last(10))
		}
		if _, err := process.Fetch(ctx, e.URL+"/health"); err == nil {
			return nil
		}
		lines = e.process.Log.Count()
	}
}

// root is the folder of the repository: engines are for tests and tools that run within it.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".ci", "engines", "start")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("engines: not within the repository")
		}
	}
}

// PID is the process' id, 0 for an engine that runs elsewhere.
func (e *Engine) PID() int {
	if e.process == nil {
		return 0
	}
	return e.process.PID()
}

// signal reaches the engine with its own children: vLLM computes in one.
func (e *Engine) signal(s syscall.Signal) {
	if e.process != nil && e.process.Alive() {
		_ = syscall.Kill(-e.process.PID(), s) // one that has ended needs none
	}
}

// Kill ends it as a crash would, and waits.
func (e *Engine) Kill() {
	e.signal(syscall.SIGKILL)
	if e.process != nil {
		e.process.Kill()
	}
}

// Freeze stops it where it stands: its sockets stay open and say nothing.
func (e *Engine) Freeze() { e.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (e *Engine) Thaw() { e.signal(syscall.SIGCONT) }

// Stop ends it, frozen or not. It may be called again. An engine has nothing to save, so it is not asked.
func (e *Engine) Stop() { e.Kill() }

// Restart starts it again at its address, and waits until it serves.
func (e *Engine) Restart(ctx context.Context) error {
	e.Kill()
	return e.start(ctx)
}

// Gauge is what the engine's own metrics say of a family: the sum of its samples. A family that it has not is an error.
func (e *Engine) Gauge(ctx context.Context, family string) (sum float64, err error) {
	page, err := process.Fetch(ctx, e.URL+"/metrics")
	if err != nil {
		return 0, err
	}
	if sum, err = process.Metrics(page).Total(family); err != nil {
		return 0, fmt.Errorf("%s %s: %s: %w", e.Kind, e.URL, family, err)
	}
	return sum, nil
}

// busy are the families of requests that an engine works on, and that wait for it.
var busy = map[string][2]string{
	LlamaCpp: {"llamacpp:requests_processing", "llamacpp:requests_deferred"},
	VLLM:     {"vllm:num_requests_running", "vllm:num_requests_waiting"},
}

// Busy is how many requests the engine works on, and how many wait, by its own gauges.
func (e *Engine) Busy(ctx context.Context) (running, waiting int, err error) {
	r, err := e.Gauge(ctx, busy[e.Kind][0])
	if err != nil {
		return 0, 0, err
	}
	w, err := e.Gauge(ctx, busy[e.Kind][1])
	return int(r), int(w), err
}

// client asks engines and gateways. It has no limit of its own: whoever asks gives one by a context. llama.cpp closes connections
// that it might keep, in the moment in which the next request comes, so each request has its own.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
