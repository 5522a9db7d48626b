package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/foregate/foregate/loadtest/process"
)

// The user that the gateways are at Redis. Everything may be done by it until a row
// takes that away.
const (
	redisUser     = "gateway"
	redisPassword = "chaos"
)

// Server is one redis-server that can die, freeze and come back at its address.
type Server struct {
	Addr   string        // its own
	Client *redis.Client // straight to it, as an administrator, with patience

	name string
	dir  string // its folder, kept over restarts
	args []string
	log  *process.Log
	run  *process.Process // nil while it is dead
}

// newServer makes one that does not run yet, with a folder below dir.
func newServer(dir, name, addr string, args ...string) (*Server, error) {
	s := &Server{Addr: addr, name: name, dir: filepath.Join(dir, name), log: &process.Log{}}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	s.args = append([]string{
		"--bind", "127.0.0.1", "--port", process.Port(addr), "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--enable-debug-command", "yes",
	}, args...)
	s.Client = admin(addr)
	return s, nil
}

// dataArgs are those of servers that hold data: the gateways' user, and a replica that
// does not wait for more replicas to come before it copies.
var dataArgs = []string{
	"--user", redisUser, "on", ">" + redisPassword, "~*", "&*", "+@all",
	"--repl-diskless-sync-delay", "0",
}

// admin is a client for the harness itself.
func admin(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Protocol: 2, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		DialTimeout: time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// errNoRedis says what is missing.
var errNoRedis = errors.New("redis-server is not in PATH: install redis-server")

// Start runs it and waits until it answers; what it knew before is gone.
func (s *Server) Start(ctx context.Context) error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return errNoRedis
	}
	if s.run, err = process.Start(process.Command{Name: s.name, Log: s.log, Path: path, Args: s.args}); err != nil {
		return err
	}
	return s.run.Serves(ctx, func() bool { return s.answers(ctx) })
}

// answers reports whether it says anything to PING, be it that it is still loading.
func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := s.Client.Ping(ctx).Err()
	var reported redis.Error
	return err == nil || errors.As(err, &reported)
}

// Process is what runs; nil while it is dead.
func (s *Server) Process() *process.Process { return s.run }

// Kill ends it as a crash would.
func (s *Server) Kill() error {
	if s.run != nil {
		s.run.Kill()
		s.run = nil
	}
	return nil
}

// Freeze stops it where it stands.
func (s *Server) Freeze() error { return s.run.Freeze() }

// Thaw lets it go on.
func (s *Server) Thaw() error { return s.run.Thaw() }

// Config sets parameters of the running server: name, value, name, value …
func (s *Server) Config(ctx context.Context, pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if err := s.Client.ConfigSet(ctx, pairs[i], pairs[i+1]).Err(); err != nil {
			return fmt.Errorf("%s: CONFIG SET %s %s: %w", s.name, pairs[i], pairs[i+1], err)
		}
	}
	return nil
}

// Info is one field of INFO; "" when there is none.
func (s *Server) Info(ctx context.Context, field string) (string, error) {
	page, err := s.Client.Info(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("%s: INFO: %w", s.name, err)
	}
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", nil
}

// Stop ends it and lets go of the connections to it.
func (s *Server) Stop() error {
	_ = s.Client.Close() // only connections are lost
	if s.run == nil {
		return nil
	}
	return s.run.Stop()
}
