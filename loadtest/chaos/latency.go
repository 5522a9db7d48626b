package chaos

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lookupBudget is the longest that a request may wait for Redis.
const lookupBudget = 15 * time.Millisecond

// addition is latency that a fault added.
type addition struct{ p99, worst, noise time.Duration }

// addedLatency compares the time to the first byte, streams with streams and JSON with
// JSON, with the median before; noise is how far the worst was from it before.
func addedLatency(before, during []Outcome) (a addition) {
	for _, stream := range []bool{true, false} {
		was, is := firsts(before, stream), firsts(during, stream)
		if len(was) == 0 || len(is) == 0 {
			continue
		}
		median := at(was, 50)
		a.p99, a.worst, a.noise = max(a.p99, at(is, 99)-median), max(a.worst, at(is, 100)-median), max(a.noise, at(was, 100)-median)
	}
	return a
}

// fronts are the times that streams took outside the cascade (front door, admission with
// its lookup, the way to the client), in order: what the gateway says of the cascade until
// the first byte is taken off what the client measured.
func fronts(all []Outcome) (out []time.Duration) {
	for _, o := range all {
		_, total, told := strings.Cut(o.Header.Get("Server-Timing"), "total;dur=")
		ms, err := strconv.ParseFloat(total, 64)
		if o.Kind == Answered && o.Stream && told && err == nil {
			out = append(out, max(0, o.First-time.Duration(ms*float64(time.Millisecond))))
		}
	}
	slices.Sort(out)
	return out
}

// at is the percentile of what is in order, 0 of nothing.
func at(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

// firsts are the times to the first byte of what was answered, in order.
func firsts(all []Outcome, stream bool) (out []time.Duration) {
	for _, o := range all {
		if o.Kind == Answered && o.Stream == stream {
			out = append(out, o.First)
		}
	}
	slices.Sort(out)
	return out
}

// p99 is of the time to the first byte.
func p99(all []Outcome) time.Duration {
	times := slices.Concat(firsts(all, true), firsts(all, false))
	slices.Sort(times)
	return at(times, 99)
}

func round(d time.Duration) time.Duration {
	if d < 100*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// withinRedisBudget is a run whose load waits for Redis no longer than one budget, over all that a request asks there.
func withinRedisBudget(run step) step {
	return func(ctx context.Context, w *Testbed) error {
		err := run(ctx, w)
		added, bound := waited(w.Load.Outcomes(Before), w.Load.Outcomes(During), w.TimerLag.Worst())
		w.Note("99 of 100 streams waited %v outside the cascade", round(added))
		w.Check(added <= bound, "99 of 100 streams waited %v outside the cascade, promised %v (on this machine %v)", round(added), lookupBudget, round(bound))
		return err
	}
}

// waited is what 99 of 100 streams took longer outside the cascade than the median before, and what they may: the budget,
// and what the machine adds by itself, which is how late a timer was and how far the slowest was from the median before.
func waited(before, during []Outcome, late time.Duration) (added, bound time.Duration) {
	was, is := fronts(before), fronts(during)
	median := at(was, 50)
	return max(0, at(is, 99)-median), lookupBudget + late + at(was, 100) - median
}
