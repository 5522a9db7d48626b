package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Engine is a simulated vLLM as a process of its own, which can be killed and started again
// at the same address.
type Engine struct {
	Pool  string // [DraftPool] or [TargetPool]
	Proxy *Proxy // between the gateways and it; nil: they reach it directly

	addr, binary string
	args         []string
	log          *process.Log
	run          *process.Process
}

// StartEngines starts n engines of a pool, as its simulators in this process are.
func (w *Testbed) StartEngines(pool string, n int) (out []*Engine, err error) {
	addrs, err := process.FreeAddrs(n)
	if err != nil {
		return nil, err
	}
	o := w.simOptions(pool)
	for i, addr := range addrs {
		e := &Engine{
			addr: addr, Pool: pool, binary: filepath.Join(filepath.Dir(w.opts.Gateway), "vllmsim"), log: &process.Log{},
			args: []string{"--listen", addr, "--model", o.Model, "--seed", strconv.FormatUint(o.Seed, 10), "--time-scale", fmt.Sprint(o.TimeScale),
				"--divergence", fmt.Sprint(o.Divergence), "--blocks", strconv.Itoa(o.BlocksOverride), "--max-num-seqs", strconv.Itoa(o.MaxNumSeqs)},
		}
		if err := e.Start(context.Background()); err != nil { // its wait has an end of its own
			return out, err
		}
		w.Adopt(func() error { e.Kill(); return nil })
		if i >= n-w.Proxied {
			if e.Proxy, err = NewProxy(addr); err != nil {
				return out, err
			}
			w.Adopt(func() error { e.Proxy.Close(); return nil })
		}
		out = append(out, e)
	}
	return out, nil
}

// URL is where the gateways reach it.
func (e *Engine) URL() string {
	if e.Proxy != nil {
		return "http://" + e.Proxy.Addr
	}
	return "http://" + e.addr
}

// Start runs it and waits until it serves.
func (e *Engine) Start(ctx context.Context) error {
	run, err := process.Start(process.Command{Name: "engine " + e.addr, Log: e.log, Path: e.binary, Args: e.args})
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no simulator at %s: run make build", e.binary)
	}
	if err != nil {
		return err
	}
	e.run = run
	return run.Serves(ctx, func() bool {
		_, err := process.Fetch(ctx, "http://"+e.addr+"/health")
		return err == nil
	})
}

// Kill ends it as a crash would, and waits.
func (e *Engine) Kill() { e.run.Kill() }

// Freeze stops it where it stands.
func (e *Engine) Freeze() error { return e.run.Freeze() }

// Thaw lets it go on.
func (e *Engine) Thaw() error { return e.run.Thaw() }

// SetFault has something go wrong at it; the zero value heals it.
func (e *Engine) SetFault(ctx context.Context, f vllmsim.Fault) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	status, text, err := post(ctx, "http://"+e.addr+"/sim/fault", string(body))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("a fault of the engine at %s: %d: %s", e.addr, status, text)
	}
	return err
}

// post sends a body to a child and returns the status and the answer.
func post(ctx context.Context, url, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := process.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	answer, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, answer, err
}
