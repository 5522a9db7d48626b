package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/foregate/foregate/loadtest/scale"
)

type scaleCmd struct {
	Seconds  float64 `default:"6" help:"How long each fleet is measured, at least 1."`
	Replicas int     `default:"8" help:"Replicas of the fleet that the arithmetic is compared with (2 to 20)."`
	Backends int     `default:"80" help:"Its backends, in three pools (6 to 200)."`
	Requests float64 `default:"600" help:"Its requests a second (1 to 2000)."`
	JSON     string  `name:"json" placeholder:"FILE" help:"Write all figures to a file, too."`
}

// Run measures small fleets and computes what large ones ask of Redis.
func (c *scaleCmd) Run(e *env) error {
	for _, b := range []struct {
		flag          string
		value, lo, hi float64
	}{{"seconds", c.Seconds, 1, 600}, {"replicas", float64(c.Replicas), 2, 20}, {"backends", float64(c.Backends), 6, 200}, {"requests", c.Requests, 1, 2000}} {
		if !(b.value >= b.lo && b.value <= b.hi) { // NaN is refused, too
			return misuse("--%s must be between %g and %g, but is %g", b.flag, b.lo, b.hi, b.value)
		}
	}
	report, err := scale.Run(e.ctx, scale.Options{
		Window: time.Duration(c.Seconds * float64(time.Second)),
		Check:  scale.Fleet{Replicas: c.Replicas, Pools: 3, Backends: c.Backends, Requests: c.Requests, Limited: true, Cached: true},
		Say:    func(format string, args ...any) { e.warn(format+"\n", args...) },
	})
	if err != nil {
		return fmt.Errorf("scale: %w", err)
	}
	e.say("%s", report.Text())
	if c.JSON == "" {
		return nil
	}
	text, err := report.JSON()
	return errors.Join(err, os.WriteFile(c.JSON, text, 0o644))
}
