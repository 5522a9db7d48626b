package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/gateway/stores"
)

type demoCmd struct {
	Listen      string          `default:"127.0.0.1:8080" help:"Where requests are taken; port 0 picks one."`
	Admin       string          `default:"127.0.0.1:9090" help:"Where metrics and the console are, with a token of this run; port 0 picks one."`
	Replicas    int             `help:"Gateway replicas behind the port (1 to 16); 2 without it, 1 with real engines."`
	Traffic     *bool           `negatable:"" help:"Send varied requests, a few a second; on without it, off with real engines."`
	Redis       config.Endpoint `default:"embedded" help:"\"embedded\", or the URL of a Redis."`
	RedisListen string          `default:"127.0.0.1:6379" help:"Where on loopback the embedded Redis listens, with a password of its own; where that is taken, at a free port."`
	TimeScale   float64         `default:"1" help:"How many times faster than real hardware the simulated pools run."`

	Draft            string  `placeholder:"URL" help:"A real engine for drafts that runs already, such as http://127.0.0.1:8081. With --target: no pools are simulated."`
	Target           string  `placeholder:"URL" help:"A real engine that answers what the draft cannot; the same URL as --draft if it serves both models."`
	DraftModel       string  `placeholder:"NAME" help:"The draft's model, if its engine lists several."`
	TargetModel      string  `placeholder:"NAME" help:"The target's model, if its engine lists several."`
	DraftKeyFile     string  `placeholder:"FILE" help:"A file with the API key of the draft's engine."`
	TargetKeyFile    string  `placeholder:"FILE" help:"A file with the API key of the target's engine."`
	DraftUSDPerHour  float64 `name:"draft-usd-per-hour" default:"0.2" help:"What the draft's engine costs, for the sums of money that are shown."`
	TargetUSDPerHour float64 `name:"target-usd-per-hour" default:"1" help:"What the target's engine costs."`
}

const maxReplicas = 16

// Run brings the whole system up on this machine and reports how it is doing.
func (c *demoCmd) Run(e *env) error {
	pair, err := c.pair(e.ctx)
	if err != nil {
		return err
	}
	replicas, traffic := 2, true
	if pair != nil {
		replicas, traffic = 1, false // each replica asks its engines, which costs a laptop a while
	}
	if c.Replicas != 0 {
		replicas = c.Replicas
	}
	if c.Traffic != nil {
		traffic = *c.Traffic
	}
	if replicas < 1 || replicas > maxReplicas {
		return fmt.Errorf("--replicas must be between 1 and %d, but is %d", maxReplicas, c.Replicas)
	}
	if c.TimeScale <= 0 {
		return fmt.Errorf("--time-scale must be above 0, but is %g", c.TimeScale)
	}
	opened, closeStores, err := stores.Open(config.Redis{URL: c.Redis})
	if err != nil {
		return fmt.Errorf("--redis: %w", err)
	}
	defer closeStores()
	var redisAddr *net.TCPAddr
	if opened.Embedded != nil { // local programs may reach it
		addr, stop, err := opened.Embedded.Listen(e.ctx, c.RedisListen)
		if err != nil {
			return fmt.Errorf("--redis-listen: %w", err)
		}
		defer stop()
		redisAddr = addr
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(e.ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	return demo.Run(e.ctx, demo.Options{
		Listener: ln, Admin: c.Admin, Replicas: replicas, Traffic: traffic, TimeScale: c.TimeScale, Pair: pair,
		Stores: opened, RedisAddr: redisAddr, Version: version(), Stdout: e.stdout, Stderr: e.stderr,
	})
}

// pair returns the real engines of the flags, nil without any.
func (c *demoCmd) pair(ctx context.Context) (*demo.Pair, error) {
	if c.Draft == "" && c.Target == "" {
		if c.DraftModel != "" || c.TargetModel != "" || c.DraftKeyFile != "" || c.TargetKeyFile != "" {
			return nil, errors.New("--draft and --target are missing: models and keys are of real engines")
		}
		return nil, nil
	}
	found, err := demo.Pair{
		Draft:  demo.Engine{URL: c.Draft, Model: c.DraftModel, KeyFile: c.DraftKeyFile, USDPerHour: c.DraftUSDPerHour},
		Target: demo.Engine{URL: c.Target, Model: c.TargetModel, KeyFile: c.TargetKeyFile, USDPerHour: c.TargetUSDPerHour},
	}.Find(ctx)
	return &found, err
}
