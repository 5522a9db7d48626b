package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Engine is a simulated vLLM as a process of its own, which can be killed and started again
// at the same address.
type Engine struct {
	process.Service
	Pool  string         // [DraftPool] or [TargetPool]
	Proxy *process.Proxy // between the gateways and it; nil: they reach it directly

	addr string
}

// startEngines starts n engines of a pool, as its simulators in this process are.
func (tb *Testbed) startEngines(pool string, n int) error {
	addrs, err := process.FreeAddrs(n)
	if err != nil {
		return err
	}
	o := tb.simOptions(pool)
	for i, addr := range addrs {
		e := &Engine{addr: addr, Pool: pool}
		e.Name, e.Missing, e.Path = "engine "+addr, "run make build", filepath.Join(filepath.Dir(tb.opts.Gateway), "vllmsim")
		e.Args = []string{
			"--listen", addr, "--model", o.Model, "--seed", strconv.FormatUint(o.Seed, 10), "--time-scale", fmt.Sprint(o.TimeScale),
			"--divergence", fmt.Sprint(o.Divergence), "--blocks", strconv.Itoa(o.BlocksOverride), "--max-num-seqs", strconv.Itoa(o.MaxNumSeqs),
		}
		e.Ready = func(ctx context.Context) bool {
			_, err := process.Fetch(ctx, "http://"+addr+"/health")
			return err == nil
		}
		if err := e.Start(context.Background()); err != nil { // its wait has an end of its own
			return err
		}
		tb.Engines = append(tb.Engines, e)
		tb.Adopt(func() error { e.Kill(); return nil })
		if i >= n-tb.Proxied {
			if e.Proxy, err = process.NewProxy(addr, nil); err != nil {
				return err
			}
			tb.Adopt(func() error { e.Proxy.Close(); return nil })
		}
	}
	return nil
}

// URL is where the gateways reach it.
func (e *Engine) URL() string {
	if e.Proxy != nil {
		return "http://" + e.Proxy.Addr
	}
	return "http://" + e.addr
}

// SetFault has something go wrong at it; the zero value heals it.
func (e *Engine) SetFault(ctx context.Context, f vllmsim.Fault) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	status, text, err := process.Post(ctx, "http://"+e.addr+"/sim/fault", string(body))
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("a fault of the engine at %s: %d: %s", e.addr, status, text)
	}
	return err
}

// state is what an engine's simulator says of itself.
func (e *Engine) state(ctx context.Context) (st vllmsim.State, err error) {
	page, err := process.Fetch(ctx, "http://"+e.addr+"/sim/state")
	if err == nil {
		err = json.Unmarshal([]byte(page), &st)
	}
	return st, err
}

// asked is how many requests of users and continuations came.
func asked(st *vllmsim.State) int { return st.Requests[chatPath] + st.Requests[completionsPath] }
