package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// engine is a simulated vLLM as a process of its own, which can be killed and started again
// at the same address.
type engine struct {
	addr, binary string
	pool         string
	args         []string
	log          *process.Log
	run          *process.Process
}

// startEngines starts n engines of a pool, as its simulators in this process are.
func (w *Testbed) startEngines(pool string, n int) (out []*engine, err error) {
	addrs, err := process.FreeAddrs(n)
	if err != nil {
		return nil, err
	}
	o := vllmsim.Options{TimeScale: usualScale}
	if pool == draftPool {
		o.Divergence = 0.1
	}
	if w.Sim != nil {
		w.Sim(&o)
	}
	for _, addr := range addrs {
		e := &engine{
			addr: addr, pool: pool, binary: filepath.Join(filepath.Dir(w.opts.Gateway), "vllmsim"), log: &process.Log{},
			args: []string{"--listen", addr, "--model", routeModel, "--seed", strconv.Itoa(simSeed),
				"--time-scale", fmt.Sprint(o.TimeScale), "--divergence", fmt.Sprint(o.Divergence)},
		}
		if err := e.start(context.Background()); err != nil { // its wait has an end of its own
			return out, err
		}
		w.Adopt(func() error { e.run.Kill(); return nil })
		out = append(out, e)
	}
	return out, nil
}

// start runs it and waits until it serves.
func (e *engine) start(ctx context.Context) error {
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

// fault has something go wrong at it.
func (e *engine) fault(ctx context.Context, f vllmsim.Fault) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.addr+"/sim/fault", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := process.Client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the status tells
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("a fault of the engine at %s: %s", e.addr, resp.Status)
	}
	return nil
}
