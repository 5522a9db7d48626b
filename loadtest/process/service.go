package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Service is a child that may be killed, stopped and started again. Its methods are safe for concurrent use.
type Service struct {
	Command
	Ready   func(ctx context.Context) bool // it serves
	Missing string                         // what to do where there is no such program

	mu  sync.Mutex
	run *Process // nil before the first start
}

// Start runs it and waits until it serves.
func (s *Service) Start(ctx context.Context) error {
	if s.Log == nil {
		s.Log = &Log{}
	}
	run, err := Start(s.Command)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("there is no %s at %s: %s", s.Name, s.Path, s.Missing)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.run = run
	s.mu.Unlock()
	return run.Serves(ctx, func() bool { return s.Ready(ctx) })
}

// Process is what runs, or ran last; nil before the first start.
func (s *Service) Process() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

// Alive reports whether the process has not ended.
func (s *Service) Alive() bool { p := s.Process(); return p != nil && p.Alive() }

// PID is the process' id.
func (s *Service) PID() int { return s.Process().PID() }

// Kill ends it as a crash would, and waits.
func (s *Service) Kill() { s.Process().Kill() }

// Freeze stops it where it stands.
func (s *Service) Freeze() error { return s.Process().Freeze() }

// Thaw lets it go on.
func (s *Service) Thaw() error { return s.Process().Thaw() }

// Terminate asks it to end (SIGTERM) and does not wait; [Service.Ended] does.
func (s *Service) Terminate() error { return s.Process().Signal(syscall.SIGTERM) }

// Ended waits for its end, and tells the status.
func (s *Service) Ended(ctx context.Context) error {
	p := s.Process()
	select {
	case <-p.Exited:
		return p.Status()
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", s.Name, context.Cause(ctx))
	}
}

// Stop ends it, if it runs, and waits.
func (s *Service) Stop() error {
	if p := s.Process(); p != nil {
		return p.Stop()
	}
	return nil
}
