package soak

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/chaos"
	"github.com/foregate/foregate/loadtest/process"
)

const (
	maxFailedShare  = 0.005 // of all requests
	maxOverrunShare = 0.001 // of the answers that were compared

	restPatience = 30 * time.Second // idle connections to backends and to Redis take seconds to go
	restSlack    = 12.0             // a connection of a scrape, of a pool of Redis: the same as in each row of the fault suite

	freeLines     = 10 // of a log, besides access records
	linesPerFault = 10

	warmUpShare = 6 // of the samples of a life: one in so many
)

// sum fills in the report once the load is gone. sent is how many requests the load says it has sent.
func (s *soak) sum(ctx context.Context, r *Report, sent int) error {
	s.ledger.enter("", time.Now()) // ends the last period
	wholes(s.series)
	r.Series, r.Growth = s.series, growths(s.series)
	r.Total, r.Samples, r.Periods = s.ledger.total(), s.ledger.samples, s.ledger.report(s.begun, s.cycles)
	counted, err := s.atRest(ctx, r)
	if err != nil {
		return err
	}
	r.Checks = append(accounting(&r.Total, sent, int(s.sent.Load())), failures(r)...)
	r.Checks = append(r.Checks, answering(s.silent, len(s.cycles)))
	r.Checks = append(r.Checks, counted...)
	r.Checks = append(r.Checks, flatness(r)...)
	return nil
}

// report are the periods of a run with the recoveries of its cycles.
func (l *ledger) report(begun time.Time, cycles []cycle) (out []Period) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := 0
	for _, p := range l.periods[:len(l.periods)-1] { // nothing was sent in the last one
		period := Period{
			Fault: p.fault, At: p.begin.Sub(begun).Seconds(), Seconds: p.end.Sub(p.begin).Seconds(), Counts: p.counts, First: first(p.firsts),
		}
		if p.fault != "" {
			for next < len(cycles) && cycles[next].fault == "" {
				next++
			}
			if next < len(cycles) {
				period.Recovered, period.Late = cycles[next].recovered.Seconds(), cycles[next].late
				next++
			}
		}
		out = append(out, period)
	}
	return out
}

// growths judges the resources of each life. The warm-up of a life is left out; a life that does not last for the whole
// run is judged if it has enough samples for an interval.
func growths(all []*Series) (out []Growth) {
	for _, s := range all {
		warm := max(1, len(s.Samples)/warmUpShare)
		if rest := len(s.Samples) - warm; rest < minSamples || !s.Whole && rest < slopeSamples {
			continue
		}
		from := s.Samples[warm].At
		for _, r := range s.resources() {
			out = append(out, Growth{s.Process, s.Life, r.name, r.unit, judge(s.points(r.name, from), r.limit)})
		}
	}
	return out
}

// atRest reads what the gateways hold without load, and checks what they have counted.
func (s *soak) atRest(ctx context.Context, r *Report) (checks []Check, err error) {
	_ = soon(ctx, restPatience, func() bool { // what is too much then is broken
		var now []reading
		if now, err = read(ctx, s.wreck.Testbed); err != nil {
			return false
		}
		r.Rest = rests(s.before, now)
		for _, rest := range r.Rest {
			if !rest.Held {
				return false
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	for i, g := range s.wreck.Gateways {
		if s.before[i].life != fmt.Sprint(g.PID()) {
			continue // a new life has counted from 0 on
		}
		m, err := g.Metrics(ctx)
		if err != nil {
			return nil, err
		}
		c := s.ledger.byReplica[g.Number]
		if c == nil {
			c = &Counts{}
		}
		checks = append(checks, tally(s.before[i].process, requestsOf(m)-s.counted[g.Number], c),
			quiet(s.before[i].process, g.Log.Count()-s.lines[g.Number], len(s.cycles)-1))
	}
	return checks, nil
}

// requestsOf is how many requests of the route a gateway has counted.
func requestsOf(m process.Metrics) int {
	return int(m.Sum("foregate_requests_total", fmt.Sprintf("route=%q", chaos.RouteModel)))
}

// rests compares what processes hold without load, where they are the same as before.
func rests(before, after []reading) (out []Rest) {
	for i, b := range before {
		if b.process == redisName || after[i].life != b.life {
			continue
		}
		for _, r := range gatewayResources {
			if !r.after {
				continue
			}
			rest := Rest{Process: b.process, Resource: r.name, Before: b.values[r.name], After: after[i].values[r.name]}
			rest.Bound = rest.Before + restSlack
			if r.name == inFlight {
				rest.Bound = 0
			}
			rest.Held = rest.After <= rest.Bound
			out = append(out, rest)
		}
	}
	return out
}

// accounting are the checks of what became of each request.
func accounting(c *Counts, kept, sent int) []Check {
	sum := fmt.Sprintf("%d = %d answered + %d shed + %d limited + %d left + %d failed + %d anything else", sent, c.Answered, c.Shed, c.Limited, c.Left, c.Failed, c.Broken)
	return []Check{
		{"every request is accounted for", sum, "0 anything else", c.accounted() && c.Sent == sent && kept == sent && sent > 0 && c.Broken == 0},
		{
			"answers are what the engine says", fmt.Sprintf("%d of %d compared, %d of them with words beyond max_tokens", c.Compared, c.Answered, c.Overrun),
			fmt.Sprintf("0 others; at most %.1f %% with words beyond", 100*maxOverrunShare), c.Compared > 0 && float64(c.Overrun) <= maxOverrunShare*float64(c.Compared),
		},
	}
}

// failures are the checks of errors: few, and only around faults.
func failures(r *Report) []Check {
	outside, late, worst := 0, 0, 0.0
	for _, p := range r.Periods {
		if p.Fault == "" {
			outside += p.Counts.Failed + p.Counts.Broken
		}
		if p.Late {
			late++
		}
		worst = max(worst, p.Recovered)
	}
	share := float64(r.Total.Failed) / max(1, float64(r.Total.Sent))
	return []Check{
		{"failures are few", fmt.Sprintf("%.3f %%", 100*share), fmt.Sprintf("at most %.1f %%", 100*maxFailedShare), share <= maxFailedShare},
		{"failures without a fault", fmt.Sprint(outside), "0", outside == 0},
		{"faults after which all is as before by the end of their cycle", fmt.Sprintf("all but %d; after %.1f s at most", late, worst), "all", late == 0},
	}
}

// answering is the check of samples: at rest every process answers.
func answering(silent []error, samples int) Check {
	figure := fmt.Sprintf("all of %d times", samples)
	if len(silent) > 0 {
		figure = fmt.Sprintf("all but %d of %d times: %v", len(silent), samples, silent[0])
	}
	return Check{"every process answers when no fault is on", figure, "always", len(silent) == 0}
}

// tally compares what a replica has counted with what its clients sent: those that left may have been gone before they were
// read.
func tally(process string, counted int, c *Counts) Check {
	return Check{
		process + " has counted what was sent", fmt.Sprintf("%d counted, %d sent, %d of them left", counted, c.Sent, c.Left), "sent, less those that left",
		counted <= c.Sent && counted >= c.Sent-c.Left,
	}
}

// quiet is the check of a log.
func quiet(process string, lines, faults int) Check {
	most := freeLines + linesPerFault*faults
	return Check{process + "'s log besides access records", fmt.Sprintf("%d lines", lines), fmt.Sprintf("at most %d", most), lines <= most}
}

// flatness sums up the growth of resources.
func flatness(r *Report) []Check {
	var growing, left []string
	for _, g := range r.Growth {
		if !g.Held {
			growing = append(growing, life(g.Process, g.Life)+" "+g.Resource)
		}
	}
	for _, rest := range r.Rest {
		if !rest.Held {
			left = append(left, rest.Process+" "+rest.Resource)
		}
	}
	figure := func(all []string, n int) string {
		if n == 0 {
			return "too short to tell"
		}
		if len(all) == 0 {
			return fmt.Sprintf("none of %d", n)
		}
		return strings.Join(all, ", ")
	}
	return []Check{
		{"resources that grow", figure(growing, len(r.Growth)), "none", len(growing) == 0},
		{"resources that stay without load", figure(left, len(r.Rest)), "none", len(left) == 0 && len(r.Rest) > 0},
	}
}
