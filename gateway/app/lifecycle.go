package app

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/foregate/foregate/internal/panics"
)

// component is a part of a replica that works in the background, until its context ends.
type component struct {
	name string
	run  func(context.Context) error
	end  func() // cancels its context and waits, at most endWait; set by Start
}

// endWait bounds how long a component may take to end. What it waits for itself, such as Redis, has shorter bounds.
const endWait = 5 * time.Second

// components are what works in the background, in the order of the start. What is above is used by what is below, and
// ends after it.
func (a *App) components() []*component {
	list := []*component{
		{name: "files", run: a.files.Run},
		{name: "settings", run: a.Settings.Run},
		{name: "fleet", run: a.Fleet.Run},
		{name: "breakers", run: a.Breakers.Run},
		{name: "pools", run: a.runPools},
		{name: "engine connections", run: a.upstream.Run},
		{name: "probe", run: a.prober.Run},
		{name: "ledger", run: a.Ledger.Run},
		{name: "usage", run: a.Ledger.RunUsage},
		{name: "cache", run: a.Cache.Run},
		{name: "evidence", run: a.Evidence.Run},
		{name: "refits", run: a.refits.Run},
		{name: "cascade", run: a.cascade.Run},
	}
	add := func(name string, exists bool, run func() func(context.Context) error) {
		if exists {
			list = append(list, &component{name: name, run: run()})
		}
	}
	add("responses", a.Conversations != nil, func() func(context.Context) error { return a.Conversations.Run })
	add("traces", a.tracer != nil, func() func(context.Context) error { return a.tracer.Run })
	add("console", a.console != nil, func() func(context.Context) error { return a.console.Run })
	add("signals", a.Hangups != nil, func() func(context.Context) error { return a.reloadOnSignals })
	return list
}

// start runs a component in a goroutine. If it returns or panics before its end, that is logged, and it is started again
// after a pause that grows.
func (a *App) start(c *component) {
	log := a.Logger.With().Str("component", c.name).Logger()
	ctx, cancel := context.WithCancel(panics.OnPanic(context.Background(), func(err error) {
		a.gateway.CountPanic()
		if e, ok := errors.AsType[*panics.Error](err); ok {
			log.Error().Interface("panic", e.Value).Bytes("stack", e.Stack).Msg("a background goroutine panicked")
		}
	}))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		panics.Supervise(ctx, func(ctx context.Context) error {
			if err := c.run(ctx); err != nil || ctx.Err() != nil {
				return err
			}
			return errors.New("it returned before its end")
		}, func(err error, pause time.Duration) {
			log.Error().Err(err).Dur("again_in", pause).Msg("a background component failed")
		})
	}()
	c.end = func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(endWait):
			log.Error().Dur("waited", endWait).Msg("a background component does not end")
		}
	}
}

// Start starts the components in their order, and then serves. It returns when requests are accepted, or with nothing
// running.
func (a *App) Start() error {
	a.running = a.components()
	for _, c := range a.running {
		a.start(c)
	}
	err := a.gateway.Start()
	if err != nil {
		a.endComponents()
	}
	return err
}

// Stop drains: it accepts no new work, waits for requests in progress, which ctx bounds, and ends the components, the
// last one first. A second call does nothing.
func (a *App) Stop(ctx context.Context) {
	a.gateway.Stop(ctx)
	a.endComponents()
}

// endComponents ends what Start has started, once.
func (a *App) endComponents() {
	a.stopping.Do(func() {
		for i := range a.running {
			a.running[len(a.running)-1-i].end()
		}
	})
}

// Run serves until ctx ends or a listener fails, and then drains as the file's drain section says.
func (a *App) Run(ctx context.Context) error {
	log, drain := a.Logger, a.File.Drain
	if err := a.Start(); err != nil {
		return err
	}
	log.Info().Stringer("listen", a.Addr()).Stringer("admin", a.AdminAddr()).Msg("serving")
	var err error
	select {
	case <-ctx.Done():
	case err = <-a.gateway.Failed():
	}
	log.Info().Dur("delay", drain.Delay).Dur("grace", drain.Grace).Msg("draining")
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain.Delay+drain.Grace+time.Second)
	defer cancel()
	a.Stop(stopping)
	log.Info().Msg("stopped")
	return err
}

// Addr is the public listener's address, after Start.
func (a *App) Addr() net.Addr { return a.gateway.Addr() }

// AdminAddr is the address of the admin listener, after Start; nil without one.
func (a *App) AdminAddr() net.Addr { return a.gateway.AdminAddr() }
