// Package embedded is a Redis inside this process (miniredis), for a demonstration or a single replica. Start at [Open].
// No port is opened, unless [Server.Listen] is called.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/connect"
)

// Server is an embedded Redis. Whoever connects needs its password.
type Server struct {
	Client   redis.UniversalClient
	Password string // of the user default

	hook    server.Hook // sees each command before it runs; nil is none
	mu      sync.Mutex
	mini    *miniredis.Miniredis
	stopped bool // a pool dials in the background, also while it is closed
}

// Open starts a Redis; its first connection starts its goroutines.
func Open() *Server {
	s := start(nil, func(*redis.UniversalOptions) {})
	s.mini.ClockTTL(true)
	return s
}

// start makes a server and its client.
func start(hook server.Hook, change func(*redis.UniversalOptions)) *Server {
	s := &Server{Password: rand.Text(), hook: hook}
	s.empty()
	o := connect.Background(connect.Options{Addrs: []string{"127.0.0.1:0"}, Password: s.Password})
	o.Dialer = s.dial
	change(o)
	s.Client = connect.New(o)
	return s
}

// empty has an empty server take the place of the one before, which it returns.
func (s *Server) empty() (old *miniredis.Miniredis) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, s.mini = s.mini, miniredis.NewMiniRedis()
	s.mini.RequireAuth(s.Password)
	return old
}

func (s *Server) dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, redis.ErrClosed
	}
	c, err := s.mini.Dial()
	if err != nil {
		return nil, err
	}
	if s.hook != nil {
		s.mini.Server().SetPreHook(s.hook)
	}
	return Pipe(c), nil
}

// Stop ends the server and its connections.
func (s *Server) Stop() {
	_ = s.Client.Close() // only connections are lost
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.mini.Close() // which nobody replaces any more
}

// Listen opens the server to programs of this machine that know the password, at an address of loopback. Where its port
// is taken, any free port is used. stop closes the listener; connections end with the server.
func (s *Server) Listen(ctx context.Context, address string) (addr *net.TCPAddr, stop func(), err error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, nil, errors.New("must be on loopback, such as 127.0.0.1:6379")
	}
	if err := s.Client.Ping(ctx).Err(); err != nil { // it runs from its first connection on
		return nil, nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		l, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, nil, err
	}
	srv := s.mini.Server()
	srv.SetPreHook(func(p *server.Peer, name string, _ ...string) bool {
		if name == "COMMAND" { // redis-cli does not understand miniredis' answer
			p.WriteError("ERR unknown command")
		}
		return name == "COMMAND"
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			srv.ServeConn(c)
		}
	}()
	return l.Addr().(*net.TCPAddr), func() { _ = l.Close() }, nil
}

const (
	// maxAnswers and maxAnswerBytes are how many answers are written, at most, before all are forgotten.
	maxAnswers     = 16 << 10
	maxAnswerBytes = 64 << 20
	// passEvery is how often time passes for answers: each passing goes through all that there are.
	passEvery = time.Second
)

// OpenAnswers starts a Redis for cached answers. It is another one than that of coordination, which looks at the time to
// live of everything before each command. miniredis has no bound, and keeps a number for each key that it has ever
// had, so from time to time an empty one takes its place.
func OpenAnswers() (client redis.UniversalClient, stop func()) {
	s, w := newAnswers()
	ctx, cancel := context.WithCancel(context.Background())
	var passing sync.WaitGroup
	passing.Go(func() {
		tick := time.NewTicker(passEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.pass(w)
			}
		}
	})
	return s.Client, func() { cancel(); passing.Wait(); s.Stop() }
}

// written counts what is written with SET and by scripts.
type written struct{ answers, bytes atomic.Int64 }

func newAnswers() (*Server, *written) {
	w := &written{}
	return start(func(_ *server.Peer, name string, args ...string) bool {
		if name == "SET" || name == "EVALSHA" {
			w.answers.Add(1)
			for _, arg := range args {
				w.bytes.Add(int64(len(arg)))
			}
		}
		return false
	}, func(o *redis.UniversalOptions) {
		o.PoolSize, o.MaxActiveConns = 2, 2 // their ends are too few failures for Redis to be left alone
		o.PoolTimeout = o.ReadTimeout
	}), w
}

// pass lets time pass, and forgets all answers if too much was written.
func (s *Server) pass(w *written) {
	s.mini.FastForward(passEvery)
	if w.answers.Load() < maxAnswers && w.bytes.Load() < maxAnswerBytes {
		return
	}
	w.answers.Store(0)
	w.bytes.Store(0)
	s.empty().Close() // its connections end
}
