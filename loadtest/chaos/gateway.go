package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/foregate/foregate/loadtest/process"
)

// Gateway is one process of the gateway, which a row may kill, stop and start again at
// the same addresses.
type Gateway struct {
	Number int
	// OutOfTurn keeps the loads away, as a load balancer that has noticed would.
	OutOfTurn atomic.Bool
	// Leaving says that its end is part of the row: it need not live at the end.
	Leaving atomic.Bool

	listen, admin string // HOST:PORT
	binary, file  string
	args          []string
	log           *process.Log

	mu  sync.Mutex
	run *process.Process // nil before the first start
}

// Base is the URL of its public listener, Admin of the other.
func (g *Gateway) Base() string { return "http://" + g.listen }

// Admin is the URL of its admin listener.
func (g *Gateway) Admin() string { return "http://" + g.admin }

// File is its configuration file.
func (g *Gateway) File() string { return g.file }

// NewGateway writes the configuration of number i; nothing runs yet.
func NewGateway(o *Options, dir string, i int, file map[string]any) (*Gateway, error) {
	addrs, err := process.FreeAddrs(2)
	if err != nil {
		return nil, err
	}
	g := &Gateway{
		Number: i, listen: addrs[0], admin: addrs[1], binary: o.Gateway, args: o.Args,
		file: filepath.Join(dir, fmt.Sprintf("gateway-%d.yaml", i)), log: &process.Log{},
	}
	return g, g.Configure(file)
}

// Configure writes its configuration, but for its listeners; it reads that when it starts.
func (g *Gateway) Configure(file map[string]any) error {
	file["listen"], file["admin"] = g.listen, g.admin
	text, err := json.Marshal(file) // JSON is YAML
	if err != nil {
		return err
	}
	return os.WriteFile(g.file, text, 0o600) // it holds a password
}

// Start runs it and waits until it serves; a Redis that is away does not keep it from
// that.
func (g *Gateway) Start(ctx context.Context) error {
	run, err := process.Start(process.Command{
		Name: fmt.Sprintf("gateway %d", g.Number), Log: g.log, Path: g.binary, Args: append([]string{"serve", "-c", g.file}, g.args...),
	})
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no gateway at %s: run make build, or use --gateway PATH", g.binary)
	}
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.run = run
	g.mu.Unlock()
	return run.Serves(ctx, func() bool { return g.Ready(ctx) })
}

// Process is what runs, or ran last.
func (g *Gateway) Process() *process.Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.run
}

// Ready reports whether /readyz says 200.
func (g *Gateway) Ready(ctx context.Context) bool {
	_, err := process.Fetch(ctx, g.Base()+"/readyz")
	return err == nil
}

// Alive reports whether the process has not ended.
func (g *Gateway) Alive() bool { p := g.Process(); return p != nil && p.Alive() }

// PID is the process' id.
func (g *Gateway) PID() int { return g.Process().PID() }

// Kill ends it as a crash would.
func (g *Gateway) Kill() { g.Process().Kill() }

// Terminate asks it to end (SIGTERM) and does not wait; [Gateway.Ended] does.
func (g *Gateway) Terminate() error {
	if err := g.Process().Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("gateway %d: %w", g.Number, err)
	}
	return nil
}

// Ended waits for its end, and tells the status.
func (g *Gateway) Ended(ctx context.Context) error {
	p := g.Process()
	select {
	case <-p.Exited:
		return p.Status()
	case <-ctx.Done():
		return fmt.Errorf("gateway %d has not ended: %w", g.Number, context.Cause(ctx))
	}
}

// Lines is how many lines it has logged that are no access records.
func (g *Gateway) Lines() int { return g.log.Count() }

// Logged reports whether a line that is kept holds the words.
func (g *Gateway) Logged(words string) bool {
	return g.log.Find(func(line string) bool { return strings.Contains(line, words) }) != ""
}

// Page is a page of its admin listener; it answers 200.
func (g *Gateway) Page(ctx context.Context, path string) (string, error) {
	return process.Fetch(ctx, g.Admin()+path)
}

// Metrics is what /metrics says now.
func (g *Gateway) Metrics(ctx context.Context) (Metrics, error) {
	page, err := g.Page(ctx, "/metrics")
	return Metrics(page), err
}

// Metrics is a page of metrics.
type Metrics string

// modeSeries matches the mode in which a gateway is with Redis, on its metrics page.
var modeSeries = regexp.MustCompile(`(?m)^foregate_(?:redis|fleet)_mode\{mode="(\w+)"\} 1$`)

// Mode is the degradation level of the gateway toward Redis, such as "local"; "" when the page does not tell.
func (m Metrics) Mode() string {
	if found := modeSeries.FindStringSubmatch(string(m)); found != nil {
		return found[1]
	}
	return ""
}

// Value is a series' value, by its name with its labels as on the page; false: there is
// none.
func (m Metrics) Value(series string) (float64, bool) {
	for line := range strings.Lines(string(m)) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return v, err == nil
		}
	}
	return 0, false
}

// Sum adds up the series of a name whose labels hold all of the words.
func (m Metrics) Sum(name string, words ...string) (sum float64) {
	sum, _ = process.Sum(string(m), name, words...) // a series that is not there counts 0
	return sum
}
