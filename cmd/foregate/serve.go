package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/stores"
)

type serveCmd struct {
	Config   string        `short:"c" required:"" help:"The configuration file." type:"path"`
	LogLevel zerolog.Level `default:"info" enum:"debug,info,warn,error" help:"Least level that is logged (${enum})."`
}

// Run serves until SIGINT or SIGTERM, then drains; a second one ends it at once. SIGHUP has it read its files again.
func (c *serveCmd) Run(e *env) error {
	f, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // before anything takes time: the default would end the process
	defer signal.Stop(hangups)
	mem := tuneMemory(e.ctx)
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	lines, closeLog := app.NewLogWriter(e.stderr, reg)
	defer closeLog()
	log := zerolog.New(lines).Level(c.LogLevel).With().Timestamp().Logger()
	store, closeStores, err := stores.Open(f.Redis)
	if err != nil {
		return err
	}
	defer closeStores()
	a, err := app.New(e.ctx, app.Options{
		File: f, Path: c.Config, Hangups: hangups, Stores: store, Admin: f.Admin, MaxBodyBytes: mem.bodies, Version: version(),
		Logger: log, Registerer: reg, Gatherer: reg,
	})
	if err != nil {
		return err
	}
	return a.Run(e.ctx)
}
