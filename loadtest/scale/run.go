package scale

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"
)

// Options say how long is measured, and what the arithmetic is compared with.
type Options struct {
	Window time.Duration // measured of each fleet, at least a second
	Check  Fleet         // the fleet that the arithmetic is compared with
	Say    func(format string, args ...any)
}

// Report is what was measured and what follows from it.
type Report struct {
	Window    float64     `json:"window_seconds"`
	Model     Model       `json:"model"`
	Fits      []Measured  `json:"fits"`
	Check     Check       `json:"check"`
	Scrape    Scrape      `json:"scrape"`
	Failures  []Converged `json:"convergence"`
	Forecasts []Forecast  `json:"forecasts"`
	Ends      []End       `json:"ends"`
}

// Check compares the arithmetic with a fleet that is larger than those it comes from.
type Check struct {
	Fleet     Fleet `json:"fleet"`
	Predicted Cost  `json:"predicted"`
	Measured  Cost  `json:"measured"`
}

// Share is the share of the predicted CPU time that the fleet took. It may be above 1.
func (c Check) Share() float64 { return c.Measured.Busy / c.Predicted.Busy }

// Scrape is what it costs to read the engines' metrics. A backend has one owner, so it does not grow with the replicas.
type Scrape struct {
	Interval float64 `json:"interval_seconds"` // the setting scrape.interval in force
	Bytes    int     `json:"bytes"`            // of one engine's page
}

// PerSecond is the scrapes of a fleet, and their bytes.
func (s Scrape) PerSecond(f Fleet) (scrapes, bytes float64) {
	scrapes = float64(f.Backends) / s.Interval
	return scrapes, scrapes * float64(s.Bytes)
}

// Forecast is what a fleet takes.
type Forecast struct {
	Fleet   Fleet   `json:"fleet"`
	Parts   Parts   `json:"parts"`
	Total   Cost    `json:"total"`
	ByCheck string  `json:"topology"`          // with the CPU time that the fleet of the check took
	ByFits  string  `json:"topology_at_worst"` // with that of the small fleets
	Scrapes float64 `json:"scrapes_per_second"`
	Scraped float64 `json:"scraped_bytes_per_second"`
}

// growing are the fleets that are forecast, up to the largest, which comes last without limits, without the cache and without
// both.
func growing() []Fleet {
	f := func(replicas, pools, backends int, requests float64) Fleet {
		return Fleet{Replicas: replicas, Pools: pools, Backends: backends, Requests: requests, Limited: true, Cached: true}
	}
	limited, cached, neither := largest, largest, largest
	limited.Cached, cached.Limited, neither.Limited, neither.Cached = false, false, false, false
	return []Fleet{
		f(2, 2, 8, 200), f(3, 2, 20, 500), f(5, 4, 50, 1500), f(10, 4, 100, 4000), f(20, 6, 200, 8000), f(35, 8, 350, 14_000),
		largest, limited, cached, neither,
	}
}

// Run measures the fleets of a fit and the one of the check, and forecasts growing fleets. It needs redis-server in PATH.
func Run(ctx context.Context, o Options) (*Report, error) {
	dir, err := os.MkdirTemp("", "foregate-scale-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // Redis keeps nothing in it
	r := &Report{Window: o.Window.Seconds()}
	var costs [fits]Cost
	for i, f := range plans() {
		if costs[i], err = measured(ctx, f, dir, o); err != nil {
			return nil, err
		}
		r.Fits = append(r.Fits, Measured{f, costs[i]})
	}
	r.Model = Fit(costs)
	if err := r.check(ctx, dir, o); err != nil {
		return nil, err
	}
	for _, f := range growing() {
		r.Forecasts = append(r.Forecasts, r.forecast(f))
	}
	r.Ends = r.Model.Ends(r.Check.Share())
	return r, nil
}

// forecast computes what a fleet takes.
func (r *Report) forecast(f Fleet) Forecast {
	parts := r.Model.Predict(f)
	scrapes, bytes := r.Scrape.PerSecond(f)
	return Forecast{
		Fleet: f, Parts: parts, Total: parts.Total(), ByCheck: parts.Topology(r.Check.Share()), ByFits: parts.Topology(1), Scrapes: scrapes, Scraped: bytes,
	}
}

// measured runs a fleet and measures it.
func measured(ctx context.Context, f Fleet, dir string, o Options) (Cost, error) {
	o.Say("%d replicas, %d pools, %d backends, %.0f requests/s", f.Replicas, f.Pools, f.Backends, f.Requests)
	g, err := start(ctx, f, dir)
	if err != nil {
		return Cost{}, err
	}
	defer g.stop()
	cost, rate, err := g.measure(ctx, o.Window)
	if err == nil && math.Abs(rate-f.Requests) > maxRateError*f.Requests {
		err = fmt.Errorf("%.1f requests/s were answered, not %.1f: the machine is too busy", rate, f.Requests)
	}
	return cost, err
}

// maxRateError is how far the requests of a fit may be from what they should be.
const maxRateError = 0.1

// check measures the fleet of the check, and how soon its replicas agree about changes.
func (r *Report) check(ctx context.Context, dir string, o Options) error {
	f := o.Check
	o.Say("%d replicas, %d pools, %d backends, %.0f requests/s, to compare", f.Replicas, f.Pools, f.Backends, f.Requests)
	g, err := start(ctx, f, dir)
	if err != nil {
		return err
	}
	defer g.stop()
	if r.Scrape, err = g.scrape(ctx); err != nil {
		return err
	}
	cost, rate, err := g.measure(ctx, o.Window)
	if err != nil {
		return err
	}
	f.Requests = rate // what the machine carried
	r.Check = Check{Fleet: f, Predicted: r.Model.Predict(f).Total(), Measured: cost}
	r.Failures, err = g.converge(ctx)
	return err
}

// scrape reads the page of one engine, as replicas do, and the interval in force.
func (g *rig) scrape(ctx context.Context) (s Scrape, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.engines[0].URL()+"/metrics", http.NoBody)
	if err != nil {
		return s, err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	page, err := io.ReadAll(resp.Body)
	s.Bytes, s.Interval = len(page), g.replicas[0].Settings.Snapshot().Global().Pressure.Interval.Seconds()
	return s, err
}

// worst is the larger of the relative errors of commands and bytes of a check: 0.1 is a tenth too many or too few.
func (c Check) worst() float64 {
	worst := 0.0
	for _, p := range [][2]float64{{c.Predicted.Commands, c.Measured.Commands}, {c.Predicted.In, c.Measured.In}, {c.Predicted.Out, c.Measured.Out}} {
		worst = max(worst, math.Abs(p[0]/p[1]-1))
	}
	return worst
}

// count formats a number with a unit of thousands or millions where that is shorter.
func count(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', 1, 64) + " M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', 1, 64) + " k"
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
