package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options say what to run.
type Options struct {
	// Operations is for the rows of [Operations] instead of those of [Rows].
	Operations bool

	Gateway string   // the gateway's binary
	Args    []string // of gateways, beside the command and its file
	Only    []string // ids, R4 for R4a, R4b … too; empty is all
	Short   bool     // the rows of the short form, with shorter phases
	Part    int      // of those rows, every Parts-th from this one on, counted from 1
	Parts   int      // so many programs share the rows; 0 is 1
	Scale   float64  // of the phases' lengths in the whole form; 0 is 1
	Again   int      // how often a row that broke its promise is tried again: on machines that do other things, too
	Out     io.Writer
	Say     func(format string, args ...any) // progress and last words
	Seen    func(id string, r *Result)       // is told of every try of a row; nil: nobody is
}

const (
	rowPatience = 5 * time.Minute // with one row, times the scale
)

// ErrBroken is Run's when a promise was broken.
var ErrBroken = errors.New("a promise was broken")

// Choose are the rows that o asks for, and an error that names what is not there.
func Choose(o *Options) ([]Row, error) {
	rows, err := o.named()
	if err != nil || o.Parts < 2 {
		return rows, err
	}
	at := -1
	return slices.DeleteFunc(rows, func(Row) bool {
		at++
		return at%o.Parts != o.Part-1
	}), nil
}

// named are the rows that are asked for by their names.
func (o *Options) named() ([]Row, error) {
	all := Rows()
	if o.Operations {
		all = Operations()
	}
	if len(o.Only) == 0 {
		return slices.DeleteFunc(all, func(r Row) bool { return o.Short && !r.Short }), nil
	}
	for _, id := range o.Only {
		if !slices.ContainsFunc(all, func(r Row) bool { return r.is(id) }) {
			return nil, fmt.Errorf("there is no row %q; --list tells them", id)
		}
	}
	return slices.DeleteFunc(all, func(r Row) bool {
		return !slices.ContainsFunc(o.Only, r.is)
	}), nil
}

// Run runs rows one after the other and prints a table line by line. It returns an error
// that wraps [ErrBroken] when a promise was not kept, others when a row could not be
// carried out. Whatever it started has ended when it returns.
func Run(ctx context.Context, o Options) error {
	rows, err := Choose(&o)
	if err != nil {
		return err
	}
	if o.Scale == 0 {
		o.Scale = 1
	}
	head, put := heading, line
	if o.Operations {
		head, put = operationsHeading, operationLine
	}
	if err := head(o.Out); err != nil {
		return err
	}
	var failed []string
	began := time.Now()
	for i := range rows {
		kept, err := tryRow(ctx, &o, &rows[i], put)
		if err != nil {
			return err
		}
		if !kept {
			failed = append(failed, rows[i].ID)
		}
	}
	o.Say("%d rows in %v\n", len(rows), time.Since(began).Round(time.Second))
	if len(failed) > 0 {
		return fmt.Errorf("%w: %s", ErrBroken, strings.Join(failed, ", "))
	}
	return nil
}

// tryRow runs a row until it keeps its promise, or as often as may be; each try has its
// line in the table.
func tryRow(ctx context.Context, o *Options, r *Row, put func(io.Writer, *Row, *Result) error) (kept bool, err error) {
	for range 1 + o.Again {
		seen := runRow(ctx, o, r)
		if o.Seen != nil {
			o.Seen(r.ID, &seen)
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err := put(o.Out, r, &seen); err != nil {
			return false, err
		}
		if len(seen.Failures) == 0 {
			return true, nil
		}
	}
	return false, nil
}

// quiet keeps go-redis from a line for every dial that fails: that is what is wanted here.
type quiet struct{}

// Printf drops the line.
func (quiet) Printf(context.Context, string, ...any) {}

// runRow runs one row in a world of its own.
func runRow(ctx context.Context, o *Options, r *Row) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(float64(rowPatience)*max(1, o.Scale)), errors.New("the row took too long"))
	defer cancel()
	began := time.Now()
	o.Say("%s: %s …\n", r.ID, r.Fault)
	w, err := StartTestbed(ctx, *o, r.Setup)
	if err != nil {
		o.Say("%v\n", err)
		return Result{Failures: []string{"the world did not start"}}
	}
	if err := w.carryOut(ctx, r); err != nil {
		w.Fail("not carried out: %v", err)
	}
	seen := w.seen(r)
	words := w.Logs()
	if err := w.Stop(); err != nil {
		seen.Failures = append(seen.Failures, err.Error())
	}
	o.Say("%s: %v; a timer was late by %v at most\n", r.ID, time.Since(began).Round(100*time.Millisecond), w.TimerLag.Worst().Round(time.Millisecond))
	if len(seen.Failures) > 0 {
		o.Say("%s FAILED: %s\n%s\n%s", r.ID, strings.Join(seen.Failures, "; "), strings.Join(seen.Samples, "\n"), words)
	}
	return seen
}

// carryOut takes the row through its phases.
func (w *Testbed) carryOut(ctx context.Context, r *Row) (err error) {
	if err := w.warmUp(ctx); err != nil {
		return err
	}
	before, after := w.Span(1200*time.Millisecond, 4*time.Second), w.Span(time.Second, 2*time.Second)
	if w.Rate > 0 {
		w.Load = w.StartLoad(w.Rate, w.Setup.Load)
	} else {
		before, after = 0, 0 // the row has loads of its own
	}
	if err := w.Hold(ctx, before); err != nil {
		return err
	}
	if err := r.Run(ctx, w); err != nil {
		return err
	}
	w.Phase(After)
	if err := w.Hold(ctx, after); err != nil {
		return err
	}
	for _, l := range w.loads {
		l.Stop()
	}
	if w.opts.Operations {
		if w.did, err = w.counted(ctx); err != nil {
			return err
		}
	}
	w.invariants(ctx, r.MaxLogLines)
	return nil
}

// warmUps are the requests that each gateway is warmed up with.
const warmUps = 6

// warmUp sends a few requests to each gateway, so that what is made once is made, and
// measures what they hold.
func (w *Testbed) warmUp(ctx context.Context) (err error) {
	l := w.StartLoad(1, nil)
	l.Stop()
	w.loads = nil
	for n := range warmUps {
		for _, g := range w.Gateways {
			l.Send(g, usualLoad(n))
		}
	}
	l.client.CloseIdleConnections()
	w.base, err = w.footprints(ctx)
	return err
}

// seen sums the row up and holds it to its promise.
func (w *Testbed) seen(r *Row) Result {
	s := Result{Errors: map[string]int{}, Recovered: w.recovered, Notes: w.notes, Figure: w.figure, did: w.did}
	for _, l := range w.loads {
		s.count(l.Outcomes())
	}
	var before, during []Outcome
	for _, l := range w.loads {
		before, during = append(before, l.Outcomes(Before)...), append(during, l.Outcomes(During)...)
	}
	added := addedLatency(before, during)
	s.AddedP99, s.AddedWorst = added.p99, added.worst
	if len(before) > 0 {
		s.FrontP99 = max(0, at(fronts(during), 99)-at(fronts(before), 50))
	}
	for kind, n := range s.Errors {
		if !slices.Contains(r.Tolerated, kind) {
			w.Fail("%d × %s", n, kind)
		}
	}
	budget := r.Added
	if budget == 0 {
		budget = lookupBudget
	}
	if bound := w.TimerLag.Bound(budget) + added.noise; budget > 0 && added.worst > bound {
		w.Fail("added %v, promised %v (on this machine %v)", round(added.worst), budget, round(bound))
	}
	if r.Recover > 0 && w.recovered > w.TimerLag.Bound(r.Recover) {
		w.Fail("recovered after %v, promised %v", round(w.recovered), r.Recover)
	}
	s.Failures = w.failures
	return s
}

// lookupBudget is the longest that a request may wait for Redis.
const lookupBudget = 15 * time.Millisecond

// count takes outcomes up.
func (s *Result) count(all []Outcome) {
	for _, o := range all {
		s.Sent++
		if o.Kind == Answered {
			s.Answered++
			continue
		}
		if s.Errors[o.Kind]++; s.Errors[o.Kind] == 1 {
			s.Samples = append(s.Samples, fmt.Sprintf("%s (%s the fault, gateway %d, after %v): %s", o.Kind, o.Phase, o.Gateway, round(o.Total), o.Detail))
		}
	}
}

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
		median := was[len(was)/2]
		a.p99 = max(a.p99, is[len(is)*99/100]-median)
		a.worst = max(a.worst, is[len(is)-1]-median)
		a.noise = max(a.noise, was[len(was)-1]-median)
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

func round(d time.Duration) time.Duration {
	if d < 100*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
