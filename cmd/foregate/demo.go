package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/gateway/stores"
	"github.com/foregate/foregate/internal/redis/embedded"
)

type demoCmd struct {
	Listen      string  `default:"127.0.0.1:8080" help:"Where requests are taken; port 0 picks one."`
	Admin       string  `default:"127.0.0.1:9090" help:"Where metrics are; port 0 picks one."`
	Replicas    int     `default:"2" help:"Gateway replicas behind the port (1 to 16)."`
	Traffic     bool    `default:"true" negatable:"" help:"Send varied requests, a few a second."`
	Redis       string  `default:"embedded" help:"\"embedded\", or the URL of a Redis."`
	RedisListen string  `default:"127.0.0.1:6379" help:"Where on loopback the embedded Redis listens, with a password of its own; where that is taken, at a free port."`
	TimeScale   float64 `default:"1" help:"How many times faster than real hardware the simulated pools run."`
}

const maxReplicas = 16

// Run brings the whole system up on this machine and reports once a second.
func (c *demoCmd) Run(e *env) error {
	if c.Replicas < 1 || c.Replicas > maxReplicas {
		return fmt.Errorf("--replicas must be between 1 and %d, but is %d", maxReplicas, c.Replicas)
	}
	if c.TimeScale <= 0 {
		return fmt.Errorf("--time-scale must be above 0, but is %g", c.TimeScale)
	}
	if err := config.CheckAdmin(c.Admin); err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	opened, closeStores, err := stores.Open(config.Redis{URL: c.Redis})
	if err != nil {
		return fmt.Errorf("--redis: %w", err)
	}
	defer closeStores()
	access, closeAccess, err := c.listenRedis(e.ctx, opened.Embedded)
	if err != nil {
		return err
	}
	defer closeAccess()
	var lc net.ListenConfig
	ln, err := lc.Listen(e.ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	return demo.Run(e.ctx, demo.Options{
		Listener: ln, Admin: c.Admin, Replicas: c.Replicas, Traffic: c.Traffic, TimeScale: c.TimeScale,
		Stores: opened, Redis: access, Version: version(), Stdout: e.stdout, Stderr: e.stderr,
	})
}

// listenRedis lets this machine's programs reach the embedded Redis. A Redis that is elsewhere is left alone.
func (c *demoCmd) listenRedis(ctx context.Context, s *embedded.Server) (access demo.RedisAccess, stop func(), err error) {
	if s == nil {
		return demo.RedisAccess{}, func() {}, nil
	}
	l, err := s.Listen(ctx, c.RedisListen, rand.Text())
	if err != nil {
		return demo.RedisAccess{}, nil, fmt.Errorf("--redis-listen: %w", err)
	}
	return demo.RedisAccess{Addr: l.Addr(), Password: l.Password}, l.Stop, nil
}
