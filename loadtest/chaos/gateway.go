package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/foregate/foregate/loadtest/process"
)

// Gateway is one process of the gateway, which a row may kill, stop and start again at
// the same addresses.
type Gateway struct {
	process.Service
	Number int
	// OutOfTurn keeps the loads away, as a load balancer that has noticed would.
	OutOfTurn atomic.Bool
	// Leaving says that its end is part of the row: it need not live at the end.
	Leaving atomic.Bool

	Base, Admin   string // URLs of its listeners
	File          string // its configuration
	listen, admin string // HOST:PORT
}

// newGateway writes the configuration of number i; nothing runs yet. What is under runs before it in its place: words of a
// shell, such as ulimit -d 262144; the process keeps its id.
func newGateway(o *Options, dir string, i int, file map[string]any, under string) (*Gateway, error) {
	addrs, err := process.FreeAddrs(2)
	if err != nil {
		return nil, err
	}
	g := &Gateway{Number: i, listen: addrs[0], admin: addrs[1], File: filepath.Join(dir, fmt.Sprintf("gateway-%d.yaml", i))}
	g.Base, g.Admin = "http://"+g.listen, "http://"+g.admin
	g.Name, g.Path, g.Args, g.Log = fmt.Sprintf("gateway %d", i), o.Gateway, append([]string{"serve", "-c", g.File}, o.Args...), &process.Log{}
	g.Missing, g.Ready = "run make build, or use --gateway PATH", g.IsReady
	if under != "" {
		binary, err := filepath.Abs(o.Gateway)
		if err != nil {
			return nil, err
		}
		g.Path = filepath.Join(dir, fmt.Sprintf("gateway-%d.sh", i))
		text := "#!/bin/sh\n" + under + "\nexec '" + binary + "' \"$@\"\n"
		if err := os.WriteFile(g.Path, []byte(text), 0o700); err != nil { //nolint:gosec // it is to be run
			return nil, err
		}
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
	return os.WriteFile(g.File, text, 0o600) // it holds a password
}

// IsReady reports whether /readyz says 200.
func (g *Gateway) IsReady(ctx context.Context) bool {
	_, err := process.Fetch(ctx, g.Base+"/readyz")
	return err == nil
}

// Page is a page of its admin listener; it answers 200.
func (g *Gateway) Page(ctx context.Context, path string) (string, error) {
	page, err := process.Fetch(ctx, g.Admin+path)
	if err != nil {
		err = fmt.Errorf("%s: %w", g.Name, err)
	}
	return page, err
}

// read reads a page of JSON into v. One that does not answer leaves it as it is.
func (g *Gateway) read(ctx context.Context, path string, v any) error {
	page, err := g.Page(ctx, path)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(page), v)
}

// Metrics is what /metrics says now; nothing where it does not answer.
func (g *Gateway) Metrics(ctx context.Context) (process.Metrics, error) {
	page, err := g.Page(ctx, "/metrics")
	return process.Metrics(page), err
}

// sum adds up series of its metrics; 0 where it does not answer.
func (g *Gateway) sum(ctx context.Context, name string, words ...string) float64 {
	m, _ := g.Metrics(ctx) // as said
	return m.Sum(name, words...)
}

// inForce are all settings of a gateway, by name.
func (g *Gateway) inForce(ctx context.Context) (map[string]string, error) {
	var reported struct {
		Settings []struct{ Name, Value string }
	}
	err := g.read(ctx, "/admin/settings", &reported)
	out := map[string]string{}
	for _, s := range reported.Settings {
		out[s.Name] = s.Value
	}
	return out, err
}

// Order gives an operator's order to one replica; all must have been told.
func (g *Gateway) Order(ctx context.Context, what, body string) error {
	status, text, err := process.Post(ctx, g.Admin+"/admin/"+what, body)
	if err != nil {
		return err
	}
	var done struct{ Shared bool }
	if err := json.Unmarshal(text, &done); err != nil || status != http.StatusOK || !done.Shared {
		return fmt.Errorf("POST /admin/%s: %d: %s", what, status, text)
	}
	return nil
}
