package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/foregate/foregate/loadtest/chaos"
	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Options say what to run.
type Options struct {
	Gateway string        // the gateway's binary, with vllmsim beside it
	For     time.Duration // of the load; at least two cycles
	Every   time.Duration // a cycle, with one fault
	Load    float64       // share of the capacity that is sent
	Rate    float64       // requests a second instead of a share of the capacity, which is not measured then; 0 is none
	Seed    uint64        // of the load and of the order of the faults
	Only    []string      // names of faults; empty is all
	Say     func(format string, args ...any)
}

// Choose are the faults that o asks for, and an error that names what is not there.
func Choose(o *Options) ([]Fault, error) {
	all := Faults()
	for _, name := range o.Only {
		if !slices.ContainsFunc(all, func(f Fault) bool { return f.Name == name }) {
			return nil, fmt.Errorf("there is no fault %q; --list tells them", name)
		}
	}
	return slices.DeleteFunc(all, func(f Fault) bool { return len(o.Only) > 0 && !slices.Contains(o.Only, f.Name) }), nil
}

const (
	gateways = 3
	drafts   = 2
	targets  = 3

	faultShare  = 4  // of a cycle: one in so many
	sampleShare = 12 // of a cycle, for the sample at its end

	maxUnderWay = 4096 // requests
	settle      = 15 * time.Second

	// keptFor is cache.ttl and responses.ttl: within a run the answers in Redis come and go. It is shorter than the part of a
	// cycle that follows a fault, so that the keys that a sample counts do not tell of what a frozen Redis did not take.
	keptFor = "20s"
)

// soak is one run.
type soak struct {
	Options
	faults  []Fault
	wreck   *wreck
	ledger  *ledger
	begun   time.Time // of the load
	sent    atomic.Int64
	series  []*Series
	silent  []error     // of samples that could not be taken
	before  []reading   // without any load
	counted map[int]int // requests that gateways had counted before the load
	lines   map[int]int // that they had logged
	cycles  []cycle
}

// cycle is what is known of one beside its requests.
type cycle struct {
	fault     string
	recovered time.Duration // after the fault's end, until all was as before
	late      bool          // it was not, in time
}

// Run runs a soak. An error says that it could not be carried out; [Report.Held] tells what came of one that was.
// Whatever it started has ended when it returns.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	s := &soak{Options: o, ledger: &ledger{byReplica: map[int]*Counts{}}}
	if s.faults, err = Choose(&o); err != nil {
		return nil, err
	}
	w, err := chaos.StartTestbed(ctx, chaos.Options{Gateway: o.Gateway, Scale: 1, Say: o.Say}, setup())
	if err != nil {
		return nil, err
	}
	defer func() {
		words := w.Logs()
		if stopped := w.Stop(); stopped != nil {
			err = errors.Join(err, stopped)
		}
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, words)
		}
	}()
	s.wreck = &wreck{w, rand.New(rand.NewPCG(o.Seed, 1))} //nolint:gosec // faults are no secret
	return s.run(ctx)
}

// setup is the fleet.
func setup() chaos.Setup {
	return chaos.Setup{
		Drafts: drafts, Targets: targets, Processes: true, Proxied: 1, Rate: -1,
		Sim: func(_ string, o *vllmsim.Options) { o.TimeScale, o.MaxNumSeqs, o.BlocksOverride = 2, 6, 128 },
		Config: func(_ *chaos.Testbed, _ int, file map[string]any) {
			file["drain"] = map[string]any{"delay": "1s", "grace": "10s"}
			tenants, _ := file["tenants"].([]any) // made by the testbed
			file["tenants"] = append(tenants, map[string]any{
				"id": limitedTenant, "keys_sha256": []string{chaos.KeyHash(limitedTenant)}, "rpm": limitedRPM, "tpm": 1_000_000, "max_priority": "high",
			})
		},
	}
}

// settings are those in force. Waits are shorter than a client's patience, so that a backend that says nothing is given up
// before its clients give up.
var settings = map[string]string{
	"speculation.mode": "confidence", "cache.ttl": keptFor, "responses.ttl": keptFor,
	"timeout.draft_first_token": "2s", "timeout.target_first_token": "4s", "timeout.stream_idle": "3s",
}

// learn asks engines of both pools for all answers.
func (s *soak) learn(ctx context.Context) error {
	s.ledger.truths = truths{}
	for _, pool := range []string{chaos.DraftPool, chaos.TargetPool} {
		all, err := chaos.Truths(ctx, pool, questions())
		if err != nil {
			return err
		}
		s.ledger.truths[pool] = all
	}
	return nil
}

// run is Run with a fleet that stands.
func (s *soak) run(ctx context.Context) (*Report, error) {
	if err := s.learn(ctx); err != nil {
		return nil, err
	}
	w := s.wreck
	var set []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		set = append(set, name+"="+settings[name])
	}
	if _, err := w.Operator(ctx, append([]string{"settings", "set", "-c", w.Gateways[0].File, "--because", "the soak"}, set...)...); err != nil {
		return nil, err
	}
	w.BalanceBy(chaos.Checks{Every: 200 * time.Millisecond, Falls: 2, Rises: 2, Tries: 1})
	if err := s.warmUp(ctx); err != nil {
		return nil, err
	}
	report := &Report{Seed: s.Seed, Seconds: s.For.Seconds(), Every: s.Every.Seconds(), Share: s.Load, Rate: s.Rate}
	if s.Rate == 0 {
		steps, err := s.calibrate(ctx)
		if err != nil {
			return nil, err
		}
		report.Calibration, report.Capacity = steps, capacity(steps)
		s.Rate = s.Load * report.Capacity
		report.Rate = s.Rate
		s.Say("capacity %.0f requests/s; sending %.0f\n", report.Capacity, s.Rate)
	}
	if err := s.note(ctx); err != nil {
		return nil, err
	}
	load, err := s.drive(ctx)
	if err != nil {
		return nil, err
	}
	load.Stop()
	return report, s.sum(ctx, report, load.Sent())
}

// drive sends the load through all cycles, and returns it under way.
func (s *soak) drive(ctx context.Context) (*chaos.Load, error) {
	s.begun = time.Now()
	s.ledger.enter("", s.begun)
	load := s.wreck.StartLoad(chaos.Traffic{
		Rate: s.Rate, Random: s.Seed, Maximum: maxUnderWay,
		Next: func(n int) chaos.Request { s.sent.Add(1); return request(s.Seed, n) },
		Take: func(o *chaos.Outcome) { s.ledger.take(o) },
	})
	n := int(s.For / s.Every)
	order := schedule(s.faults, n-1, s.wreck.random)
	for i := range n {
		var f *Fault
		if i > 0 {
			f = &order[i-1]
		}
		if err := s.cycle(ctx, i, f); err != nil {
			return nil, err // the testbed stops the load
		}
	}
	return load, nil
}

// cycle makes a fault, waits until all is as before, and samples.
func (s *soak) cycle(ctx context.Context, n int, f *Fault) error {
	c := cycle{}
	end := s.begun.Add(time.Duration(n+1) * s.Every)
	span := s.Every / sampleShare
	if f != nil {
		c.fault = f.Name
		if err := s.fault(ctx, f, &c, end.Add(-span)); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	s.cycles = append(s.cycles, c)
	if err := s.until(ctx, end.Add(-span)); err != nil {
		return err
	}
	at := time.Since(s.begun).Seconds()
	values, err := sample(ctx, s.wreck.Testbed, span*3/4)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil: // it is told at the end
		s.silent = append(s.silent, err)
	default:
		s.series = keep(s.series, at, values)
	}
	s.Say("%s", s.progress(n, &c))
	return s.until(ctx, end)
}

// fault makes a fault for its part of the cycle and waits until all is as before, until a time.
func (s *soak) fault(ctx context.Context, f *Fault, c *cycle, latest time.Time) error {
	began := time.Now()
	s.ledger.enter(f.Name, began)
	defer func() { s.ledger.enter("", time.Now()) }()
	undo, err := f.begin(ctx, s.wreck)
	if err != nil {
		return err
	}
	if err := s.until(ctx, began.Add(s.Every/faultShare)); err != nil {
		return err
	}
	if undo != nil {
		if err := undo(ctx); err != nil {
			return err
		}
	}
	ended := time.Now()
	err = soon(ctx, max(time.Until(latest), 0), func() bool { return s.asBefore(ctx) })
	c.recovered, c.late = time.Since(ended), errors.Is(err, process.ErrNotInTime)
	if c.late {
		err = nil // it is told at the end
	}
	return err
}

// until lets the load go on until a time.
func (s *soak) until(ctx context.Context, t time.Time) error {
	return s.wreck.Hold(ctx, max(0, time.Until(t)))
}

const lookEvery = 100 * time.Millisecond

// soon asks until ok, at most for limit, and less often than [process.Poll]: what is asked takes time itself.
func soon(ctx context.Context, limit time.Duration, ok func() bool) error {
	next := time.Time{}
	return process.Poll(ctx, limit, func() bool {
		if time.Now().Before(next) {
			return false
		}
		well := ok()
		next = time.Now().Add(lookEvery)
		return well
	})
}

// asBefore reports whether no gateway sees a trace of a fault.
func (s *soak) asBefore(ctx context.Context) bool {
	for _, g := range s.wreck.Gateways {
		m, err := g.Metrics(ctx)
		if err != nil || g.OutOfTurn.Load() || !well(m) {
			return false
		}
	}
	return true
}

// well reports whether a gateway shares with all others, and uses all engines.
func well(m process.Metrics) bool {
	return m.Mode() == "shared" && m.Sum("foregate_fleet_replicas") == gateways && m.Sum("foregate_backend_up") == drafts+targets &&
		m.Sum("foregate_breaker_state") == 0 && m.Sum("foregate_backend_suspect") == 0 && m.Sum("foregate_settings_lost") == 0
}

// warmUp sends requests to each gateway, and reads what the gateways hold once nothing is left of them.
func (s *soak) warmUp(ctx context.Context) error {
	const each = 12
	l := s.wreck.StartLoad(chaos.Traffic{})
	var all sync.WaitGroup
	for _, g := range s.wreck.Gateways {
		all.Go(func() {
			for n := range each {
				r := request(s.Seed, -1-n)
				r.Leave = 0
				l.Send(g, r)
			}
		})
	}
	all.Wait()
	l.Stop()
	var err error
	s.before, err = s.idle(ctx)
	return err
}

// idle reads all processes once nothing is under way.
func (s *soak) idle(ctx context.Context) (all []reading, err error) {
	busy := soon(ctx, settle, func() bool {
		all, err = read(ctx, s.wreck.Testbed)
		return err == nil && !slices.ContainsFunc(all, func(r reading) bool { return r.values[inFlight] > 0 })
	})
	if busy != nil {
		return nil, errors.Join(fmt.Errorf("requests are under way %v after the load: %w", settle, busy), err)
	}
	return all, nil
}

// note keeps what gateways have counted and logged before the load.
func (s *soak) note(ctx context.Context) error {
	if _, err := s.idle(ctx); err != nil {
		return err
	}
	s.counted, s.lines = map[int]int{}, map[int]int{}
	for _, g := range s.wreck.Gateways {
		m, err := g.Metrics(ctx)
		if err != nil {
			return err
		}
		s.counted[g.Number], s.lines[g.Number] = requestsOf(m), g.Log.Count()
	}
	return nil
}

// progress is a line about a cycle that is over.
func (s *soak) progress(n int, c *cycle) string {
	all := s.ledger.total()
	what := "no fault"
	if c.fault != "" {
		what = fmt.Sprintf("%s, as before after %v", c.fault, c.recovered.Round(100*time.Millisecond))
	}
	return strings.TrimSpace(fmt.Sprintf("%v: %s; %d sent, %d answered, %d shed, %d failed, %d broken", time.Duration(n+1)*s.Every, what,
		all.Sent, all.Answered, all.Shed, all.Failed, all.Broken)) + "\n"
}
