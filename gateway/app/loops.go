package app

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/panics"
)

// loop is a task of a component. It runs while the replica does.
type loop struct {
	name string // in the log
	run  func(context.Context) error
}

// loops are the loops of all components.
func (a *App) loops() []loop {
	loops := []loop{
		{"pools", a.runPools},
		{"files", a.files.Run},
		{"settings", a.Settings.Run},
		{"cascade", a.cascade.Run},
		{"engine connections", a.upstream.Run},
		{"probe", a.prober.Run},
		{"evidence", a.evidence.Run},
		{"states of the evidence", a.risks.Run},
		{"refits", a.refits.Run},
		{"breakers", a.runBreakers},
		{"fleet", a.Fleet.Run},
		{"ledger", a.Ledger.Run},
		{"usage", a.Ledger.RunUsage},
		{"lines", a.queues.Run},
		{"cache", a.Cache.Run},
	}
	if a.Conversations != nil {
		loops = append(loops, loop{"responses", a.Conversations.Run})
	}
	if a.console != nil {
		loops = append(loops, loop{"console", a.console.Run})
	}
	if a.Options.Hangups != nil {
		loops = append(loops, loop{"signals", a.reloadOnSignals})
	}
	if a.tracer != nil {
		loops = append(loops, loop{"traces", a.tracer.Run})
	}
	return loops
}

// The pause before a loop that has ended is started again doubles up to maxPause. It is minPause again after a run of
// healthyRun.
const (
	minPause   = time.Second
	maxPause   = 30 * time.Second
	healthyRun = 5 * time.Minute
)

// supervisor runs loops.
type supervisor struct {
	log      zerolog.Logger
	panicked func() // is called after each panic
}

// start starts loops. stop ends them, and returns when all have ended.
func (s supervisor) start(loops []loop) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, l := range loops {
		running.Go(func() { s.supervise(ctx, l) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// supervise runs a loop until ctx ends, and starts it again after a pause if it ends earlier, fails or panics.
func (s supervisor) supervise(ctx context.Context, l loop) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		began := time.Now()
		err := s.run(ctx, l)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= healthyRun {
			pause = minPause
		}
		s.log.Error().Err(err).Str("loop", l.name).Dur("again_in", pause).Msg("background loop ended")
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// run runs a loop to its end; a panic is an error.
func (s supervisor) run(ctx context.Context, l loop) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked()
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return l.run(panics.OnPanic(ctx, func(err error) {
		s.panicked()
		s.log.Error().Err(err).Str("loop", l.name).Msg("a goroutine of a background loop panicked")
	}))
}
