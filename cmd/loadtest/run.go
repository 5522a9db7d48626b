package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/live"
	"github.com/foregate/foregate/loadtest/quality"
	"github.com/foregate/foregate/loadtest/virtual"
)

type runCmd struct {
	Scenario string `arg:"" help:"A scenario's file, or a name that loadtest list tells."`

	Live    bool `xor:"kind" help:"Run it against real processes of the gateway. What the scenario says is the default, and it means this when it says nothing."`
	Virtual bool `xor:"kind" help:"Compute it in virtual time."`

	Seed      uint64        `help:"Seed of the load and the language, instead of the scenario's."`
	Seeds     int           `default:"1" help:"Run it with so many seeds from the first on, and print mean and deviation."`
	Case      []string      `sep:"none" help:"Run only the case of this name; may be given again."`
	Duration  time.Duration `help:"For how long conversations begin, instead of the scenario's duration."`
	TimeScale float64       `help:"How many times faster than the profiles a live run goes, instead of the scenario's; with --target 1."`

	JSON bool `name:"json" help:"Print the rows as JSON; nothing else goes to the standard output."`

	Gateway string `placeholder:"PATH" help:"The gateway's binary; default foregate beside this program, then in PATH."`
	Target  string `placeholder:"URL" help:"Send the load to something that runs already; no simulators, no gateway. Implies --live."`
	Model   string `help:"The model to ask --target for; default lab."`
	APIKey  string `name:"api-key" env:"LOADTEST_API_KEY" help:"The bearer key for --target."`
}

// Run makes the measurement and prints it.
func (c *runCmd) Run(e *env) error {
	reports, err := c.reports(e)
	if err != nil {
		return err
	}
	if err := c.print(e, reports); err != nil {
		return err
	}
	if c.Target != "" && !slices.ContainsFunc(reports[0].Results, func(r *loadtest.Result) bool { return r.Row().RequestsPerSecond > 0 }) {
		return fmt.Errorf("%s answered nothing", c.Target)
	}
	return nil
}

// isBase tells whether a URL is one to send requests to.
func isBase(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// reports makes the measurement, once with each seed.
func (c *runCmd) reports(e *env) ([]*loadtest.Report, error) {
	s, err := open(c.Scenario)
	if err != nil {
		return nil, err
	}
	if err := c.check(s); err != nil {
		return nil, err
	}
	cases, err := c.override(s)
	if err != nil {
		return nil, err
	}
	if s.Kind == loadtest.Live && c.Target == "" {
		if c.Gateway, err = gatewayBinary(c.Gateway); err != nil {
			return nil, err
		}
	}
	var reports []*loadtest.Report
	for n := range uint64(c.Seeds) {
		r, err := c.measure(e, s, cases, s.Seed+n)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// check settles the kind of the run, and refuses flags that contradict each other.
func (c *runCmd) check(s *loadtest.Scenario) error {
	switch {
	case c.Virtual:
		s.Kind = loadtest.Virtual
	case c.Live, c.Target != "", c.Gateway != "", c.TimeScale != 0: // these mean it
		s.Kind = loadtest.Live
	}
	switch {
	case c.Virtual && c.Target != "":
		return misuse("--virtual computes everything; it sends nothing to --target %s", c.Target)
	case c.Target != "" && c.Gateway != "":
		return misuse("with --target nothing is started; leave --gateway out")
	case c.Target != "" && !isBase(c.Target):
		return misuse("--target %s: want a URL such as http://gateway:8080", c.Target)
	case c.Target == "" && c.Model != "":
		return misuse("--model is what --target is asked for")
	case c.Virtual && (c.Gateway != "" || c.TimeScale != 0):
		return misuse("--gateway and --time-scale are for --live")
	case c.TimeScale != 0 && !(c.TimeScale >= 0.1 && c.TimeScale <= 1000):
		return misuse("--time-scale %g: want 0.1 to 1000", c.TimeScale)
	case c.Seeds < 1 || c.Seeds > 1000:
		return misuse("--seeds %d: want 1 to 1000", c.Seeds)
	}
	return nil
}

// override puts the flags into the scenario, and returns the cases that are to be
// run.
func (c *runCmd) override(s *loadtest.Scenario) ([]*loadtest.Case, error) {
	if c.Seed != 0 {
		s.Seed = c.Seed
	}
	switch {
	case c.TimeScale != 0:
		s.TimeScale = c.TimeScale
	case c.Target != "":
		s.TimeScale = 1 // what runs there runs in real time
	}
	if c.Duration != 0 {
		s.Duration = c.Duration
	}
	var cases []*loadtest.Case
	for _, name := range c.Case {
		if !slices.Contains(caseNames(s), name) {
			return nil, misuse("%s has no case %s; it has %s", s.Name, name, strings.Join(caseNames(s), ", "))
		}
	}
	for i := range s.Cases {
		if len(c.Case) == 0 || slices.Contains(c.Case, s.Cases[i].Name) {
			cases = append(cases, &s.Cases[i])
		}
	}
	for _, cs := range cases {
		if own := cs.In(s); own.Duration <= own.Warmup {
			return nil, misuse("--duration %v leaves nothing to measure of %s after its warm-up of %v", own.Duration, cs.Name, own.Warmup)
		}
	}
	return cases, nil
}

var errInterrupted = errors.New("interrupted; everything that was started has ended")

// measure runs the cases with one seed.
func (c *runCmd) measure(e *env, s *loadtest.Scenario, cases []*loadtest.Case, seed uint64) (*loadtest.Report, error) {
	r := &loadtest.Report{Scenario: s, Seed: seed, Kind: s.Kind, Command: command(e.args)}
	for _, cs := range cases {
		var res *loadtest.Result
		var err error
		if r.Kind == loadtest.Live {
			res, err = live.Run(e.ctx, c.options(e, s, cs, r))
		} else {
			e.warn("%s: computing\n", cs.Name)
			res, err = virtual.Run(e.ctx, s, cs, seed)
		}
		if errors.Is(err, context.Canceled) {
			return nil, errInterrupted
		}
		if err != nil {
			return nil, err
		}
		r.Results = append(r.Results, res)
	}
	return r, nil
}

// options are those of one live case.
func (c *runCmd) options(e *env, s *loadtest.Scenario, cs *loadtest.Case, r *loadtest.Report) live.Options {
	o := live.Options{
		Scenario: s, Case: cs, Seed: r.Seed, Gateway: c.Gateway,
		Target: c.Target, Model: c.Model, Key: c.APIKey,
		Say: e.warn, Note: func(text string) { r.Notes = append(r.Notes, text) },
	}
	if c.Target == "" { // of another target nobody knows what it should have said
		o.Check = quality.NewJudge(r.Seed, cs).CheckText
	}
	return o
}

// print puts the reports on the standard output.
func (c *runCmd) print(e *env, reports []*loadtest.Report) error {
	if c.JSON {
		out, err := asJSON(reports)
		if err != nil {
			return err
		}
		e.say("%s", out)
		return nil
	}
	e.say("%s", reports[0].Table())
	if len(reports) > 1 {
		e.say("\n%s", spread(reports))
	}
	return nil
}

// command is the command line, so that it can be repeated. A key is not told.
func command(args []string) string {
	words := []string{"loadtest"}
	hide := false
	for _, a := range args {
		switch {
		case hide:
			a, hide = "…", false
		case a == "--api-key":
			hide = true
		case strings.HasPrefix(a, "--api-key="):
			a = "--api-key=…"
		case a == "" || strings.ContainsAny(a, " \t\n'\"\\$`*?[]{}()<>|&;#~!"):
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}
