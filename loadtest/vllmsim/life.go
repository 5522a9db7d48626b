package vllmsim

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// life is one process of the simulated server, from its start to its death: what a restart loses.
type life struct {
	engine *engine
	over   chan struct{} // closed when the process exits: whatever hangs lets go
}

func (s *Server) newLife() *life {
	sched := NewScheduler(s.profile, SchedulerOptions{Priority: s.opts.Policy == "priority", OOM: s.opts.OOM})
	l := &life{over: make(chan struct{}), engine: newEngine(sched, s.opts.TimeScale, newMetrics(&s.opts, &s.profile))}
	now := s.faults.get()
	l.engine.ail(&now)
	return l
}

// life is the process that runs now, or the one that ran last.
func (s *Server) life() *life { return s.current.Load() }

// Run drives the engine until ctx ends. Use it when the handler is mounted on a server of one's own: after a death, the
// handler then answers as one whose engine is dead, until the restart.
func (s *Server) Run(ctx context.Context) error {
	for {
		// Even when ctx has ended before the engine was ever run: it must turn away whoever has come in.
		l := s.life()
		l.engine.run(ctx)
		if l.engine.dead() {
			s.restart(ctx, l)
		}
		if l == s.life() {
			return ctx.Err()
		}
	}
}

// restart is what follows a death: the clients are told, the process exits, its address refuses connections, and another
// process comes up with everything at zero.
func (s *Server) restart(ctx context.Context, l *life) {
	s.mu.Lock()
	s.deaths++
	if l.engine.outOfMemory() {
		s.oomDeaths++
	}
	s.mu.Unlock()
	close(l.over)
	s.hangUp()
	s.pause(ctx, s.opts.Restart)
	if ctx.Err() != nil {
		return // it stays dead: nobody would run another
	}
	s.mu.Lock()
	s.bury(l)
	s.current.Store(s.newLife())
	s.mu.Unlock()
	s.comeBack(ctx)
}

// pause waits for a stretch of the profile's time.
func (s *Server) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(time.Duration(float64(d) / s.opts.TimeScale))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-s.closing:
	}
}

// hangUp closes the listener, but keeps its port, and the connections when the answers under way are delivered.
func (s *Server) hangUp() {
	s.mu.Lock()
	s.away = true
	srv, l := s.srv, s.listener
	s.srv, s.listener = nil, nil
	if l != nil {
		_ = l.Close()
		s.hold = holdPort(s.addr)
	}
	s.mu.Unlock()
	if srv == nil {
		return
	}
	s.drain(srv, patience)
	_ = srv.Close()
}

// drain takes no more connections and waits until no request is under way on any, at most limit: what is then left is
// for the caller to cut off.
func (s *Server) drain(srv *http.Server, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = srv.Shutdown(ctx) // what it leaves is closed next
}

// comeBack listens again. The port may have been lent to somebody for a moment.
func (s *Server) comeBack(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = false
	for s.addr != "" && !s.closed && ctx.Err() == nil {
		if s.listen(s.addr) == nil {
			return
		}
		s.mu.Unlock()
		s.pause(ctx, time.Duration(float64(50*time.Millisecond)*s.opts.TimeScale))
		s.mu.Lock()
	}
}

// listen opens the listener and serves on it; s.mu is held.
func (s *Server) listen(addr string) error {
	if s.listener != nil {
		return nil // and what else was to come back did not
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return err
	}
	if s.hold != nil {
		s.hold()
		s.hold = nil
	}
	srv := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       5 * time.Second, // uvicorn's keep-alive
		MaxHeaderBytes:    4 << 20,
		ErrorLog:          log.New(io.Discard, "", 0), // connections die here on purpose
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	s.srv, s.listener, s.addr = srv, l, l.Addr().String()
	s.tasks.Go(func() { _ = srv.Serve(l) })
	return nil
}

type connKey struct{}
