package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Row is one line of the table: a fault and what is promised under it.
type Row struct {
	ID, Fault, Promise string

	Short bool // part of the short form
	Setup Setup

	// Added is the latency that the fault may add to any request; 0 is the 15 ms budget of
	// a lookup, below 0 is not checked.
	Added time.Duration
	// Recover is how long after the fault's end all is as before; 0 is not checked.
	Recover time.Duration
	// Tolerated are kinds of outcomes, beside [Answered], that break no promise.
	Tolerated []string

	// Run makes the fault, once the load runs and its latency before is known, and checks
	// what is particular to the row with [Testbed.Fail] and [Testbed.Until]. An error means
	// that the row could not be carried out. Run leaves the world healed.
	Run step
}

// step is a part of a row.
type step func(ctx context.Context, w *Testbed) error

// is reports whether an id names the row: R4 names R4a, R4b and so on.
func (r *Row) is(id string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(r.ID), strings.ToLower(id))
	return ok && (rest == "" || len(rest) == 1 && rest[0] >= 'a' && rest[0] <= 'z')
}

// Rows are all rows, in the order of the table. A file adds its rows here.
func Rows() []Row {
	return slices.Concat(redisRows(), failoverRows(), lostRows(), verifyRows(),
		[]Row{heavyRow(), breakerRow(), killedRow(), hotRow(), overloadRow(), riskRow()}, operationRows())
}

// Result is what came of a row.
type Result struct {
	Sent, Answered int
	Errors         map[string]int // by kind
	Samples        []string       // a detail of each kind
	// Added latency: the time to the first byte during the fault beyond the median before.
	AddedP99, AddedWorst time.Duration
	FrontP99             time.Duration // the same for the part outside the cascade, of streams
	Recovered            time.Duration
	Notes, Failures      []string
	Figure               time.Duration // what a row measures beside its promise; 0 is nothing
}

// Options say what to run.
type Options struct {
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

// rowPatience is that with one row, times the scale.
const rowPatience = 5 * time.Minute

// ErrBroken is Run's when a promise was broken.
var ErrBroken = errors.New("a promise was broken")

// Choose are the rows that o asks for, and an error that names what is not there.
func Choose(o *Options) ([]Row, error) {
	all := Rows()
	for _, id := range o.Only {
		if !slices.ContainsFunc(all, func(r Row) bool { return r.is(id) }) {
			return nil, fmt.Errorf("there is no row %q; --list tells them", id)
		}
	}
	all = slices.DeleteFunc(all, func(r Row) bool {
		if len(o.Only) == 0 {
			return o.Short && !r.Short
		}
		return !slices.ContainsFunc(o.Only, r.is)
	})
	at := -1
	return slices.DeleteFunc(all, func(Row) bool {
		at++
		return o.Parts > 1 && at%o.Parts != o.Part-1
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
	if err := heading(o.Out); err != nil {
		return err
	}
	var failed []string
	began := time.Now()
	for i := range rows {
		kept, err := tryRow(ctx, &o, &rows[i])
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
func tryRow(ctx context.Context, o *Options, r *Row) (kept bool, err error) {
	for range 1 + o.Again {
		seen := runRow(ctx, o, r)
		if o.Seen != nil {
			o.Seen(r.ID, &seen)
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err := line(o.Out, r, &seen); err != nil {
			return false, err
		}
		if len(seen.Failures) == 0 {
			return true, nil
		}
	}
	return false, nil
}

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
	w.sumUp(r)
	words := w.Logs()
	if err := w.Stop(); err != nil {
		w.Fail("%v", err)
	}
	o.Say("%s: %v; a timer was late by %v at most\n", r.ID, time.Since(began).Round(100*time.Millisecond), w.TimerLag.Worst().Round(time.Millisecond))
	if len(w.Failures) > 0 {
		o.Say("%s FAILED: %s\n%s\n%s", r.ID, strings.Join(w.Failures, "; "), strings.Join(w.Samples, "\n"), words)
	}
	return w.Result
}

// carryOut takes the row through its phases.
func (tb *Testbed) carryOut(ctx context.Context, r *Row) (err error) {
	if err := tb.warmUp(ctx); err != nil {
		return err
	}
	before, after := tb.Span(1200*time.Millisecond, 4*time.Second), tb.Span(time.Second, 2*time.Second)
	if tb.Rate > 0 {
		tb.Load = tb.StartLoad(Traffic{Rate: tb.Rate, Next: tb.Setup.Load})
	} else {
		before, after = 0, 0 // the row has loads of its own
		tb.Load = tb.StartLoad(Traffic{})
	}
	if err := tb.Hold(ctx, before); err != nil {
		return err
	}
	if err := r.Run(ctx, tb); err != nil {
		return err
	}
	tb.Phase(After)
	if err := tb.Hold(ctx, after); err != nil {
		return err
	}
	for _, l := range tb.loads {
		l.Stop()
	}
	if tb.Accounted {
		if err := tb.account(ctx); err != nil {
			return err
		}
	}
	tb.invariants(ctx)
	return nil
}

// warmUps are the requests that each gateway is warmed up with.
const warmUps = 6

// logWritten is how long the lines of a start may take until they are in a gateway's log: it writes every half second.
const logWritten = time.Second

// warmUp sends a few requests to each gateway, so that what is made once is made, and
// measures what they hold.
func (tb *Testbed) warmUp(ctx context.Context) error {
	l := tb.StartLoad(Traffic{})
	tb.loads = nil
	for n := range warmUps {
		for _, g := range tb.Gateways {
			l.Send(g, usualLoad(n))
		}
	}
	l.Stop()
	if err := tb.Hold(ctx, logWritten); err != nil {
		return err
	}
	for _, g := range tb.Gateways {
		f, err := footprintOf(ctx, g)
		if err != nil {
			return err
		}
		tb.base = append(tb.base, f)
	}
	return nil
}

// all are the outcomes of all loads.
func (tb *Testbed) all(phases ...string) (out []Outcome) {
	for _, l := range tb.loads {
		out = append(out, l.Outcomes(phases...)...)
	}
	return out
}

// sumUp counts what became of the requests and holds the row to its promise.
func (tb *Testbed) sumUp(r *Row) {
	tb.count(tb.all())
	before, during := tb.all(Before), tb.all(During)
	added := addedLatency(before, during)
	tb.AddedP99, tb.AddedWorst = added.p99, added.worst
	if len(before) > 0 {
		tb.FrontP99 = max(0, at(fronts(during), 99)-at(fronts(before), 50))
	}
	for _, kind := range slices.Sorted(maps.Keys(tb.Errors)) {
		tb.Check(slices.Contains(r.Tolerated, kind), "%d × %s", tb.Errors[kind], kind)
	}
	budget := r.Added
	if budget == 0 {
		budget = lookupBudget
	}
	bound := tb.TimerLag.Bound(budget) + added.noise
	tb.Check(budget < 0 || added.worst <= bound, "added %v, promised %v (on this machine %v)", round(added.worst), budget, round(bound))
	if r.Recover > 0 {
		tb.Within("recovered after", tb.Recovered, r.Recover)
	}
}

// count takes outcomes up.
func (r *Result) count(all []Outcome) {
	r.Errors = map[string]int{}
	for _, o := range all {
		r.Sent++
		if o.Kind == Answered {
			r.Answered++
			continue
		}
		if r.Errors[o.Kind]++; r.Errors[o.Kind] == 1 {
			r.Samples = append(r.Samples, fmt.Sprintf("%s (%s the fault, gateway %d, after %v): %s", o.Kind, o.Phase, o.Gateway, round(o.Total), o.Detail))
		}
	}
}
