package loadtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SLO is what a system has to hold, over all requests of a run.
type SLO struct {
	TTFT, E2E map[float64]time.Duration // by share of the answers that are as fast: 0.5, 0.95, 0.99
	Lost      float64                   // largest share of requests without an answer
}

// ParseSLO reads an SLO such as ttft_p99=1s,e2e_p99=30s,lost=0.001. Where lost is not given, no request may be lost.
func ParseSLO(text string) (s SLO, err error) {
	s.TTFT, s.E2E = map[float64]time.Duration{}, map[float64]time.Duration{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if name == "lost" {
			if s.Lost, err = strconv.ParseFloat(value, 64); err != nil || !(s.Lost >= 0 && s.Lost < 1) {
				return s, fmt.Errorf("--slo: lost=%s: want a share from 0 to below 1", value)
			}
			continue
		}
		what, percent, _ := strings.Cut(name, "_p")
		of := map[string]map[float64]time.Duration{"ttft": s.TTFT, "e2e": s.E2E}[what]
		share, known := map[string]float64{"50": 0.5, "95": 0.95, "99": 0.99}[percent]
		if of == nil || !known {
			return s, fmt.Errorf("--slo: %q: want ttft_p50, ttft_p95, ttft_p99, e2e_p50, e2e_p95, e2e_p99 or lost, such as ttft_p99=1s,e2e_p99=30s", name)
		}
		if of[share], err = time.ParseDuration(value); err != nil || of[share] <= 0 {
			return s, fmt.Errorf("--slo: %s=%s: want a duration above 0, such as 1s", name, value)
		}
	}
	if len(s.TTFT)+len(s.E2E) == 0 {
		return s, fmt.Errorf("--slo: want a bound on ttft or e2e, such as ttft_p99=1s")
	}
	return s, nil
}

// bound is one part of an SLO while outcomes come.
type bound struct {
	name    string
	limit   time.Duration // 0: that it is answered
	e2e     bool
	allowed int // requests that may be beyond it
	beyond  int
}

// Verdict counts outcomes until an SLO is decided.
type Verdict struct {
	Failed string // the first part that cannot hold any more; "": all may
	bounds []bound
	warmup time.Duration
}

// Verdict is that of a run with so many requests after its warm-up.
func (s *SLO) Verdict(requests int, warmup time.Duration) *Verdict {
	v := &Verdict{warmup: warmup, bounds: []bound{{name: "lost", allowed: int(s.Lost * float64(requests))}}}
	for what, of := range map[string]map[float64]time.Duration{"ttft": s.TTFT, "e2e": s.E2E} {
		for _, share := range slices.Sorted(maps.Keys(of)) {
			v.bounds = append(v.bounds, bound{
				name: fmt.Sprintf("%s_p%.0f", what, 100*share), limit: of[share], e2e: what == "e2e", allowed: int((1 - share) * float64(requests)),
			})
		}
	}
	return v
}

// Add counts an outcome, and reports whether the SLO cannot hold any more.
func (v *Verdict) Add(o Outcome) (decided bool) {
	if o.At < v.warmup || v.Failed != "" {
		return v.Failed != ""
	}
	for i := range v.bounds {
		b := &v.bounds[i]
		took := o.First - o.At
		if b.e2e {
			took = o.Done - o.At
		}
		if answered := o.End == Answered; b.limit == 0 && !answered || b.limit > 0 && answered && took > b.limit {
			b.beyond++
		}
		if b.beyond > b.allowed {
			v.Failed = b.name
		}
	}
	return v.Failed != ""
}
