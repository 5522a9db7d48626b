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
	opts    Options
	profile Profile
	tok     *Tokenizer
	model   *Model
	engine  *engine
	met     *metrics
	http    *httpStats
	faults  faults
	ids     atomic.Uint64
	active  atomic.Int64 // handlers running
	nonce   uint64
	routes  map[string]route

	mu       sync.Mutex
	seen     map[string]int
	srv      *http.Server
	listener net.Listener
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	closed   bool
	closing  chan struct{}
}

// New makes a server that does not listen yet.
func New(o Options) (*Server, error) {
	o, p, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, profile: p, tok: DefaultTokenizer(), model: NewModel(o.Seed, o.Divergence),
		nonce: uint64(time.Now().UnixNano()), seen: map[string]int{}, closing: make(chan struct{})}
	s.met = newMetrics(&s.opts, &p)
	s.http = newHTTPStats(s.met.reg)
	s.engine = newEngine(NewScheduler(p, o.Policy == "priority"), o.TimeScale, s.met)
	s.routes = s.routeTable()
	return s, nil
}

// Run drives the engine until ctx ends. Use it when the handler is mounted on a server of one's own.
func (s *Server) Run(ctx context.Context) error {
	s.engine.run(ctx)
	return ctx.Err()
}

// Start listens and serves, and runs the engine, until Close.
func (s *Server) Start(listen string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.srv != nil {
		return errors.New("vllmsim: started twice, or closed")
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", listen)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.listener, s.cancel = l, cancel
	s.srv = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       5 * time.Second, // uvicorn's keep-alive
		MaxHeaderBytes:    4 << 20,
		ErrorLog:          log.New(io.Discard, "", 0), // connections die here on purpose
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	s.tasks.Go(func() { s.engine.run(ctx) })
	s.tasks.Go(func() { _ = s.srv.Serve(l) })
	return nil
}

type connKey struct{}

// Addr returns the listener's address, or "" before Start.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// URL returns the base URL, without a trailing slash.
func (s *Server) URL() string { return "http://" + s.Addr() }

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

// Terminate is what SIGTERM does to vLLM: requests under way end with finish_reason abort under their 200, then the
// server closes.
func (s *Server) Terminate() error {
	s.mu.Lock()
	cancel := s.cancel
	s.mu.Unlock()
	if cancel != nil {
		cancel()
		s.settleHandlers()
	}
	return s.Close()
}

// settle waits for everything that Start and the handlers started, at most patience.
func (s *Server) settle() {
	s.settleHandlers()
	s.tasks.Wait()
}

// settleHandlers waits until no handler runs, at most patience.
func (s *Server) settleHandlers() {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.active.Load() > 0 {
		select {
		case <-limit.C:
			return
		case <-tick.C:
		}
	}
}

// patience bounds how long Close waits for handlers whose connection is dead already.
const patience = 2 * time.Second

// route is what one path answers, by method.
type route struct {
	handlers map[string]http.HandlerFunc
	counted  bool // by the HTTP metrics
}

func (s *Server) routeTable() map[string]route {
	get := func(h http.HandlerFunc) route { return route{handlers: map[string]http.HandlerFunc{"GET": h}} }
	post := func(h http.HandlerFunc) route {
		return route{handlers: map[string]http.HandlerFunc{"POST": h}, counted: true}
	}
	models := get(s.serveModels)
	models.counted = true
	ping := get(s.serveHealth)
	ping.handlers["POST"] = s.serveHealth
	return map[string]route{
		"/v1/chat/completions": post(func(w http.ResponseWriter, r *http.Request) { s.serveGenerate(w, r, true) }),
		"/v1/completions":      post(func(w http.ResponseWriter, r *http.Request) { s.serveGenerate(w, r, false) }),
		"/v1/models":           models,
		"/v1/embeddings":       post(s.serveEmbeddings),
		"/tokenize":            post(s.serveTokenize),
		"/detokenize":          post(s.serveDetokenize),
		"/health":              get(s.serveHealth),
		"/ping":                ping,
		"/version":             get(s.serveVersion),
		"/load":                get(s.serveLoad),
		"/metrics":             get(s.serveMetrics),
		"/sim/state":           get(s.serveState),
		"/sim/fault":           post(s.serveFault),
	}
}

// ServeHTTP implements http.Handler. Unknown paths and wrong methods get the web framework's answers, not vLLM's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.active.Add(1)
	defer s.active.Add(-1)
	s.count(r.URL.Path)
	rt, ok := s.routes[r.URL.Path]
	if !ok {
		writeJSON(w, http.StatusNotFound, []byte(`{"detail":"Not Found"}`))
		return
	}
	h, ok := rt.handlers[r.Method]
	if !ok {
		for m := range rt.handlers {
			w.Header().Add("Allow", m)
		}
		writeJSON(w, http.StatusMethodNotAllowed, []byte(`{"detail":"Method Not Allowed"}`))
		return
	}
	if !rt.counted {
		h(w, r)
		return
	}
	sw := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	start := time.Now()
	h(sw, r)
	s.http.observe(r, sw.status, time.Since(start))
}

func (s *Server) count(path string) {
	if _, known := s.routes[path]; !known {
		path = "other"
	}
	s.mu.Lock()
	s.seen[path]++
	s.mu.Unlock()
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

func (s *Server) writeError(w http.ResponseWriter, err *apiError) {
	writeJSON(w, err.status, err.body(s.flatErrors()))
}

func (s *Server) flatErrors() bool { return s.opts.FlatErrors || s.faults.get().FlatErrors }
