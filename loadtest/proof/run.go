package proof

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/cost"
	"github.com/foregate/foregate/loadtest/fleets"
	"github.com/foregate/foregate/loadtest/virtual"
)

// Options say what to measure.
type Options struct {
	Claims  []Claim
	Tables  bool // the scenarios that the page shows whole, too
	Seeds   int  // runs of each case, from seed 1 on
	Workers int  // runs at a time; 0: one for each processor

	Faults func(ctx context.Context, rows []string) (map[string]float64, error) // one round of rows of the fault suite; nil: not measured
	Rounds int                                                                  // of the rows of the fault suite
	Fleets []fleets.Found                                                       // what searches found, of which some are run again
	Costs  *cost.Report                                                         // what the benchmark of the gateway's cost found; nil: not measured

	Say func(format string, args ...any) // progress
}

// Run measures. One of the workers measures first what is live, so that at least a processor has nothing else to do then.
func Run(ctx context.Context, o Options) (*Results, error) {
	r := &Results{Virtual: map[string][]Pair{}, Live: map[string][]Pair{}, Tables: map[string]map[string]tableCells{}}
	r.TakeCosts(o.Claims, o.Costs)
	r.TakeRents(o.Claims, o.Fleets)
	for n := range uint64(o.Seeds) {
		r.Seeds = append(r.Seeds, n+1)
	}
	all, err := o.compute(ctx, func() error { return o.faults(ctx, r) })
	if err != nil {
		return nil, err
	}
	if r.Changed, err = o.fleetsAgain(ctx); err != nil {
		return nil, err
	}
	for i := range o.Claims {
		c := &o.Claims[i]
		if s, ok := c.Source.(Cases); ok {
			for _, seed := range r.Seeds {
				r.Virtual[c.ID] = append(r.Virtual[c.ID], s.Of(all[runKey{s.Scenario, seed}]))
			}
		}
	}
	for _, t := range o.tables() {
		r.Tables[t.Scenario] = t.cells(all, r.Seeds)
	}
	return r, nil
}

// tables are those that are wanted.
func (o *Options) tables() []table {
	if !o.Tables {
		return nil
	}
	return tables()
}

// faults runs the rows of the fault suite that claims need.
func (o *Options) faults(ctx context.Context, r *Results) error {
	ids := map[string]string{} // claims by row
	for i := range o.Claims {
		if f, ok := o.Claims[i].Source.(Fault); ok {
			ids[f.Row] = o.Claims[i].ID
		}
	}
	if o.Faults == nil || len(ids) == 0 {
		return nil
	}
	for n := range o.Rounds {
		o.Say("faults: round %d of %d", n+1, o.Rounds)
		took, err := o.Faults(ctx, slices.Sorted(maps.Keys(ids)))
		if err != nil {
			return err
		}
		for row, seconds := range took {
			r.Live[ids[row]] = append(r.Live[ids[row]], Pair{Foregate: seconds})
		}
	}
	return nil
}

// run is one run in virtual time.
type run struct {
	scenario *loadtest.Scenario
	spec     *loadtest.Case
	seed     uint64
}

// runKey names the rows of a scenario with one seed.
type runKey struct {
	scenario string
	seed     uint64
}

// plan are the runs that claims and tables need, each once.
func (o *Options) plan() ([]run, error) {
	needed := map[string][]string{} // cases by scenario
	for i := range o.Claims {
		if s, ok := o.Claims[i].Source.(Cases); ok {
			needed[s.Scenario] = append(needed[s.Scenario], s.needed()...)
		}
	}
	for _, t := range o.tables() {
		needed[t.Scenario] = append(needed[t.Scenario], t.Cases...)
	}
	var out []run
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		s, err := loadtest.Named(name)
		if err != nil {
			return nil, err
		}
		for i := range s.Cases {
			if !slices.Contains(needed[name], s.Cases[i].Name) {
				continue
			}
			for n := range uint64(o.Seeds) {
				out = append(out, run{s, &s.Cases[i], n + 1})
			}
		}
		for _, want := range needed[name] {
			if !slices.ContainsFunc(s.Cases, func(c loadtest.Case) bool { return c.Name == want }) {
				return nil, fmt.Errorf("scenario %s has no case %q", name, want)
			}
		}
	}
	return out, nil
}

// compute makes the runs, several at a time; the first worker does something else before. A failure ends all.
func (o *Options) compute(ctx context.Context, before func() error) (map[runKey]rows, error) {
	plan, err := o.plan()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := computed{rows: map[runKey]rows{}, total: len(plan), say: o.Say}
	queue := make(chan run, len(plan))
	for _, r := range plan {
		queue <- r
	}
	close(queue)
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			if i == 0 {
				if err := before(); err != nil {
					cancel(err)
					return
				}
			}
			for r := range queue {
				if ctx.Err() != nil {
					return
				}
				row, err := r.row(ctx)
				if err != nil {
					cancel(fmt.Errorf("%s: %w", r, err))
					return
				}
				out.add(r, row)
			}
		})
	}
	wg.Wait()
	return out.rows, context.Cause(ctx)
}

// computed are the rows that runs have made so far.
type computed struct {
	mu    sync.Mutex
	rows  map[runKey]rows
	done  int
	total int
	say   func(format string, args ...any)
}

func (c *computed) add(r run, row loadtest.Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := runKey{r.scenario.Name, r.seed}
	if c.rows[key] == nil {
		c.rows[key] = rows{}
	}
	c.rows[key][r.spec.Name] = row
	c.done++
	c.say("%d of %d runs: %s", c.done, c.total, r)
}

// String names a run.
func (r run) String() string {
	return fmt.Sprintf("%s, %s, seed %d", r.scenario.Name, r.spec.Name, r.seed)
}

// row makes one run. A panic of the lab is its error.
func (r run) row(ctx context.Context) (row loadtest.Row, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	result, err := virtual.Run(ctx, r.scenario, r.spec, r.seed)
	if err != nil {
		return loadtest.Row{}, err
	}
	return result.Row(), nil
}
