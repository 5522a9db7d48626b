package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/foregate/foregate/loadtest/soak"
)

type soakCmd struct {
	For     time.Duration `default:"30m" help:"How long the load lasts: at least two cycles, at most 24h."`
	Every   time.Duration `default:"1m" help:"A cycle: the time from one fault to the next (1s to 10m). A fault lasts a quarter of it."`
	Load    float64       `default:"0.7" help:"The share of the capacity that is sent (0.05 to 1)."`
	Rate    float64       `help:"Send so many requests a second (1 to 2000), and do not measure the capacity."`
	Seed    uint64        `default:"1" help:"Of the requests, their times and the order of the faults."`
	Only    []string      `placeholder:"FAULT,…" help:"Only these faults."`
	List    bool          `help:"List the faults and make none."`
	Gateway string        `placeholder:"PATH" help:"The gateway's binary, with vllmsim beside it; default foregate beside this program, then in PATH."`
	JSON    string        `name:"json" placeholder:"FILE" help:"Write all figures and samples to a file, too."`
}

// Run soaks a fleet and prints what came of it.
func (c *soakCmd) Run(e *env) error {
	o, err := c.options(e)
	if err != nil {
		return usageError{err}
	}
	if c.List {
		faults, err := soak.Choose(&o)
		for _, f := range faults {
			e.say("%-18s %s\n", f.Name, f.Text)
		}
		return err
	}
	if o.Gateway, err = gatewayBinary(c.Gateway); err != nil {
		return err
	}
	report, err := soak.Run(e.ctx, o)
	if err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	e.say("%s", report.Text())
	if c.JSON != "" {
		text, err := report.JSON()
		if err := errors.Join(err, os.WriteFile(c.JSON, text, 0o644)); err != nil {
			return err
		}
	}
	if !report.Held() {
		for _, sample := range report.Samples {
			e.warn("%s\n", sample)
		}
		return errors.New("soak: a check is broken")
	}
	return nil
}

// options are what the flags say, or a mistake in them.
func (c *soakCmd) options(e *env) (o soak.Options, err error) {
	o = soak.Options{For: c.For, Every: c.Every, Load: c.Load, Rate: c.Rate, Seed: c.Seed, Only: c.Only, Say: e.warn}
	switch {
	case c.Every < time.Second || c.Every > 10*time.Minute:
		return o, fmt.Errorf("--every must be between 1s and 10m, but is %v", c.Every)
	case c.For < 2*c.Every || c.For > 24*time.Hour:
		return o, fmt.Errorf("--for must be between %v, which is two cycles, and 24h, but is %v", 2*c.Every, c.For)
	case !(c.Load >= 0.05 && c.Load <= 1): // NaN is refused, too
		return o, fmt.Errorf("--load must be between 0.05 and 1, but is %g", c.Load)
	case c.Rate != 0 && !(c.Rate >= 1 && c.Rate <= 2000):
		return o, fmt.Errorf("--rate must be between 1 and 2000, but is %g", c.Rate)
	}
	_, err = soak.Choose(&o)
	return o, err
}
