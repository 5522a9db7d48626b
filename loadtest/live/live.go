package live

import (
	"context"
	"errors"
	"fmt"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Options say what is run against what.
type Options struct {
	Scenario *loadtest.Scenario
	Case     *loadtest.Case // one of the scenario's
	Seed     uint64

	// Gateway is the path of the gateway's binary.
	Gateway string
	// Target is the base URL of something that runs already. Nothing is started
	// then: no simulators, no Redis, no gateway.
	Target string
	Model  string // that Target is asked for; default "lab"
	Key    string // its bearer key; "" is none

	// Check compares an answer with what it should have been. It is called for
	// answered requests, after the answer, by one goroutine; answers that it has
	// not come to when too many wait stay unchecked. Nil checks none.
	Check func(q *loadtest.Request, text string, out *loadtest.Outcome)
	// Say is told every ten seconds how far the run is; nil tells nobody.
	Say func(format string, args ...any)
	// Note is told what a reader must know to trust the result; nil is not.
	Note func(text string)
}

// Run measures one case. It returns when the last answer has come and everything
// that it started has ended; the error tells why there is no result.
func Run(ctx context.Context, o Options) (*loadtest.Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Scenario = o.Case.In(o.Scenario)
	work, err := loadtest.NewWorkload(o.Scenario, o.Case, o.Seed)
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", o.Case.Name, err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	sys := &system{}
	bases := []string{targetBase(o.Target)}
	if o.Target == "" {
		if sys, err = startSystem(ctx, o, fail); err != nil {
			return nil, fmt.Errorf("case %s: %w", o.Case.Name, err)
		}
		defer sys.stop()
		bases = sys.bases()
	}
	r := newRun(&o, sys, work, newClient(&o, bases))
	defer r.client.Close()
	result := r.play(ctx)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("case %s: %w", o.Case.Name, context.Cause(ctx))
	}
	r.notes()
	return result, nil
}

// Supports says whether the simulator knows what the scenario asks of it; a run
// would refuse it in the middle.
func Supports(s *loadtest.Scenario) error {
	for _, c := range s.Cases {
		for _, p := range []*loadtest.Pool{c.Draft, &c.Target} {
			if p == nil {
				continue
			}
			if _, err := vllmsim.ProfileByName(p.Profile); err != nil {
				return fmt.Errorf("case %s: %w", c.Name, err)
			}
		}
	}
	return nil
}

// check refuses what would panic later.
func (o *Options) check() error {
	switch {
	case o.Scenario == nil || o.Case == nil:
		return errors.New("live: Options need a Scenario and a Case")
	case o.Scenario.TimeScale <= 0:
		return fmt.Errorf("live: time scale %v is not above 0", o.Scenario.TimeScale)
	case o.Scenario.Deadline <= 0:
		return fmt.Errorf("live: deadline %v is not above 0", o.Scenario.Deadline)
	case o.Target == "" && o.Gateway == "":
		return errors.New("live: Options need Gateway, the gateway's binary, or a Target")
	case o.Case.Oracle > 0 || len(o.Scenario.Faults) > 0 || o.Case.Target.OOM || o.Case.Draft != nil && o.Case.Draft.OOM:
		return errors.New("live: faults, oom and oracles are for virtual runs; loadtest chaos has faults of real processes")
	case o.Case.Router > 0 || len(o.Scenario.Changes)+len(o.Scenario.Outages) > 0:
		return errors.New("live: router, changes and redis_away are for virtual runs")
	}
	return nil
}
