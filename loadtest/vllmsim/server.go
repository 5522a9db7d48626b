package vllmsim

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// serverVersion is the vLLM release whose wire is imitated.
const serverVersion = "0.28.0"

const fingerprint = "vllm-" + serverVersion + "-51a0c0de"

// Server is one simulated vLLM server. It is an http.Handler; generation needs the engine loop, which Start or Run run.
type Server struct {
	opts            Options
	profile         Profile
	tok             *Tokenizer
	model           *Model
	face            face
	faults          faults
	ids             atomic.Uint64
	active          atomic.Int64 // handlers running
	nonce           uint64
	missingFeatures lacking
	wire            wireIDs
	routes          map[string]route
	engine          *engine
	meter           meter

	mu               sync.Mutex
	seen             map[string]int
	srv              *http.Server
	addr             string
	cancel           context.CancelFunc
	tasks            sync.WaitGroup
	closed           bool
	leaving, closing chan struct{} // closed by Terminate and Close
	leave            sync.Once
}

// New makes a server that does not listen yet.
func New(o Options) (*Server, error) {
	o, p, err := o.Resolve()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, profile: p, tok: DefaultTokenizer(), model: NewDraft(o.Seed, o.Divergence, o.Blind),
		face:  newFace(o.Engine),
		nonce: uint64(time.Now().UnixNano()), missingFeatures: o.Without, wire: newWireIDs(o.Tokenizer),
		seen: map[string]int{}, leaving: make(chan struct{}), closing: make(chan struct{})}
	s.model.answers = o.Answers
	if o.Sentences {
		s.model.sentences = defaultSentences()
	}
	s.routes = s.routeTable()
	sched := NewScheduler(p, SchedulerOptions{Priority: o.Policy == "priority"})
	s.engine = newEngine(sched, o.TimeScale, newMetrics(&s.opts, &s.profile))
	return s, s.SetFault(o.Fault)
}

// Start listens and serves, and runs the engine, until Close.
func (s *Server) Start(listen string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.addr != "" {
		return errors.New("vllmsim: started twice, or closed")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", listen)
	if err != nil {
		return err
	}
	s.srv, s.addr = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       5 * time.Second, // uvicorn's keep-alive
		MaxHeaderBytes:    4 << 20,
		ErrorLog:          log.New(io.Discard, "", 0), // connections die here on purpose
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}, l.Addr().String()
	srv := s.srv
	s.tasks.Go(func() { _ = srv.Serve(l) })
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.tasks.Go(func() { s.engine.run(ctx) })
	return nil
}

type connKey struct{}

// Run drives the engine until ctx ends. Use it when the handler is mounted on a server of one's own.
func (s *Server) Run(ctx context.Context) error {
	s.engine.run(ctx)
	return ctx.Err()
}

// Addr returns the listener's address, or "" before Start.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// URL returns the base URL, without a trailing slash.
func (s *Server) URL() string {
	return "http://" + s.Addr()
}

// Close dies at once: the listener and every connection are closed, requests end unanswered. It may be called again.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	srv, cancel := s.srv, s.cancel
	s.mu.Unlock()
	if srv == nil {
		return nil
	}
	err := srv.Close()
	cancel()
	s.settle()
	return err
}

// Terminate is what SIGTERM does to vLLM: no more connections, requests under way end with finish_reason abort under
// their 200, then the server closes. Who reads so slowly that the answer is not out within grace is cut off, and so are
// those that a fault lets hang.
func (s *Server) Terminate() error {
	s.mu.Lock()
	cancel, srv := s.cancel, s.srv
	s.mu.Unlock()
	if srv != nil {
		cancel()
		s.leave.Do(func() { close(s.leaving) })
		ctx, end := context.WithTimeout(context.Background(), grace)
		defer end()
		_ = srv.Shutdown(ctx) // what it leaves is closed next
	}
	return s.Close()
}

// settle waits for everything that Start and the handlers started, the handlers at most patience.
func (s *Server) settle() {
	for end := time.Now().Add(patience); s.active.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s.tasks.Wait()
}

const (
	// patience bounds how long Close waits for handlers whose connection is dead already.
	patience = 2 * time.Second
	// grace is what Kubernetes gives a process between SIGTERM and SIGKILL. vLLM itself has no limit.
	grace = 30 * time.Second
)

// route is what one path answers, to one method.
type route struct {
	method string
	answer http.HandlerFunc
}

func onGet(h http.HandlerFunc) route { return route{http.MethodGet, h} }

func onPost(h http.HandlerFunc) route { return route{http.MethodPost, h} }

// generate is a route that generates.
func (s *Server) generate(a api) route {
	return onPost(func(w http.ResponseWriter, r *http.Request) { s.serveGenerate(w, r, a) })
}

// routeTable is all that the server answers: the engine's paths and the simulator's own.
func (s *Server) routeTable() map[string]route {
	all := s.face.routes(s)
	all["/sim/state"], all["/sim/fault"] = onGet(s.serveState), onPost(s.serveFault)
	if s.opts.Hosted.on() {
		all["/sim/meter"] = onGet(s.serveMeter)
	}
	s.missingFeatures.close(all)
	return all
}

// ServeHTTP implements http.Handler. Unknown paths and wrong methods get the web framework's answers, not vLLM's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.active.Add(1)
	defer s.active.Add(-1)
	s.count(r.URL.Path)
	if !s.admits(r) {
		writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
		return
	}
	rt, ok := s.routes[r.URL.Path]
	switch {
	case !ok:
		s.face.absent(w, r, false)
	case r.Method != rt.method:
		w.Header().Set("Allow", rt.method)
		s.face.absent(w, r, true)
	default:
		rt.answer(w, r)
	}
}

// vllm reports whether the server has vLLM's own wire.
func (s *Server) vllm() bool { return s.opts.Engine == engineVLLM }

func (s *Server) count(path string) {
	if _, known := s.routes[path]; !known {
		path = "other"
	}
	s.mu.Lock()
	s.seen[path]++
	s.mu.Unlock()
}
