package loadtest

import (
	"errors"
	"fmt"
	"math"
)

// sane checks by itself what Parse promises of a scenario.
func sane(s *Scenario) error {
	var errs []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	spread := func(name string, x Spread, lo, hi float64) {
		for i := range 101 {
			v := x.quantile((float64(i) + 0.5) / 101)
			must(v >= 0 && !math.IsInf(v, 0) && !math.IsNaN(v) && (x.P50 > 0 || v >= lo && v <= hi), "%s: quantile %d is %v", name, i, v)
		}
	}
	must(s.Duration > 0 && s.Duration <= maxDuration && s.Warmup >= 0 && s.Warmup < s.Duration, "duration %s, warm-up %s", s.Duration, s.Warmup)
	must(s.Deadline > 0 && s.TimeScale > 0, "deadline %s, scale %v", s.Deadline, s.TimeScale)
	must(len(s.Prompts) > 0 && len(s.Tenants) > 0 && len(s.Cases) > 0, "nothing to do")
	for _, p := range s.Prompts {
		must(isID(p.Name) && p.Repeat >= 0 && p.Repeat <= maxRepeat, "prompt %+v", p)
		must(p.Catalogue.Share == 0 || p.Catalogue.Size >= 1 && p.Catalogue.Share <= 1 && p.Repeat == 0, "catalogue %+v", p.Catalogue)
		spread("question", p.Question, 1, maxTokens)
		spread("turns", p.Turns, 1, maxTurns)
		spread("think", p.Think, 0, maxSeconds)
		spread("output", p.Output, 0, maxTokens)
		spread("system", p.System.Tokens, 0, maxTokens)
		spread("context", p.Context.Tokens, 0, maxTokens)
	}
	for _, t := range s.Tenants {
		must(isID(t.ID) && len(t.Priority) > 0, "tenant %+v", t)
	}
	names := map[string]bool{}
	for _, c := range s.Cases {
		must(!names[c.Name] && c.Replicas >= 1 && c.Replicas <= maxReplicas && c.Load > 0, "case %+v", c)
		names[c.Name] = true
		must(c.Target.Profile != "" && c.Target.Count >= 1 && c.Target.Count <= maxBackends, "target %+v", c.Target)
		must(c.Draft == nil || c.Draft.Profile != "" && c.Draft.Count >= 1, "draft %+v", c.Draft)
		must(c.Load*s.Arrivals.PerSecond <= maxPerSecond, "%v per second", c.Load*s.Arrivals.PerSecond)
		must(c.Oracle >= 0 && c.Oracle < 1 && (c.Oracle == 0 || c.Draft != nil && s.Audits > 0), "oracle %v", c.Oracle)
		for _, f := range s.Faults {
			if f.Drift != nil {
				must(f.Pool == "draft" && f.Backend == -1 && f.Drift.Divergence <= 1 && f.Drift.Blind <= 1, "drift %+v", f)
				continue
			}
			must(f.Backend >= -1 && f.Backend < c.backends(f.Pool) && c.backends(f.Pool) > 0, "fault %+v", f)
		}
	}
	switch a := s.Arrivals; a.Kind {
	case Closed:
		must(a.Users >= 1 && a.Users <= maxUsers, "%d users", a.Users)
	case Rate, Poisson:
		must(a.PerSecond > 0, "%v per second", a.PerSecond)
	case Bursts:
		must(a.Burst >= 1 && a.Every > 0, "%+v", a)
	case Day:
		must(a.PerSecond > 0 && a.Lowest >= 0 && a.Lowest <= a.PerSecond && a.Length > 0 && (a.Every > 0) == (a.Burst > 0), "%+v", a)
	default:
		must(false, "arrivals %q", a.Kind)
	}
	return errors.Join(errs...)
}
