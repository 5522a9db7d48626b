package vllmsim

import (
	"context"
	"errors"
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
	model, other    *Model // other: who answers after a swap
	face            *face  // of another engine than vLLM
	faults          faults
	ids             atomic.Uint64
	fresh           atomic.Uint64 // seeds given out, see Options.Fresh
	active          atomic.Int64  // handlers running
	conns           busyConns
	nonce           uint64
	missingFeatures lacking
	wire            wireIDs
	routes          map[string]route
	current         atomic.Pointer[life]

	mu                sync.Mutex
	seen              map[string]int
	past              []EngineState // what each engine counted in the lives before this one
	deaths, oomDeaths int
	downtime          time.Duration // of the next death
	notice            bool
	spot              *time.Timer // the death that the notice is about
	outages           int         // that keep the listener closed
	srv               *http.Server
	listener          net.Listener
	hold              func() // lets go of the port while there is no listener
	addr              string
	cancel            context.CancelFunc
	tasks             sync.WaitGroup
	closed            bool
	leaving, closing  chan struct{} // closed by Terminate and Close
	leave             sync.Once
}

// New makes a server that does not listen yet.
func New(o Options) (*Server, error) {
	o, p, err := o.Resolve()
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, profile: p, tok: DefaultTokenizer(), model: NewDraft(o.Seed, o.Divergence, o.Blind).WithTies(o.Ties),
		other: NewDraft(o.Seed^swappedSeed, o.Divergence, o.Blind), face: newFace(o.Engine),
		nonce: uint64(time.Now().UnixNano()), missingFeatures: newLacking(&o), wire: newWireIDs(o.Tokenizer),
		seen: map[string]int{}, downtime: o.Restart, leaving: make(chan struct{}), closing: make(chan struct{})}
	s.conns.set = map[net.Conn]bool{}
	s.routes = s.routeTable()
	s.faults.set(o.Fault.lasting())
	s.current.Store(s.newLife())
	return s, nil
}

// Start listens and serves, and runs the engine, until Close.
func (s *Server) Start(listen string) error {
	s.mu.Lock()
	if s.closed || s.addr != "" {
		s.mu.Unlock()
		return errors.New("vllmsim: started twice, or closed")
	}
	if err := s.listen(listen); err != nil {
		s.mu.Unlock()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.tasks.Go(func() { _ = s.Run(ctx) }) // ends with ctx
	s.mu.Unlock()
	return s.SetFault(s.opts.Fault)
}

// Addr returns the listener's address, or "" before Start. It stays the same through an outage.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// URL returns the base URL, without a trailing slash.
func (s *Server) URL() string {
	if s.opts.TLS != nil {
		return "https://" + s.Addr()
	}
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
	if s.spot != nil {
		s.spot.Stop()
	}
	if s.hold != nil {
		s.hold()
	}
	s.mu.Unlock()
	if cancel == nil {
		return nil
	}
	var err error
	if srv != nil {
		err = srv.Close()
	}
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
	if cancel != nil {
		cancel()
		s.leave.Do(func() { close(s.leaving) })
	}
	if srv != nil {
		s.drain(srv, grace)
	}
	return s.Close()
}

// settle waits for everything that Start and the handlers started, the handlers at most patience.
func (s *Server) settle() {
	until(patience, func() bool { return s.active.Load() == 0 })
	s.tasks.Wait()
}

const (
	// patience bounds how long Close waits for handlers whose connection is dead already, and a dead engine's process
	// for its clients.
	patience = 2 * time.Second
	// grace is what Kubernetes gives a process between SIGTERM and SIGKILL. vLLM itself has no limit.
	grace = 30 * time.Second
)

// route is what one path answers, by method.
type route struct {
	handlers map[string]http.HandlerFunc
	counted  bool // by the HTTP metrics
}

func onGet(h http.HandlerFunc) route { return route{handlers: map[string]http.HandlerFunc{"GET": h}} }

func onPost(h http.HandlerFunc) route {
	return route{handlers: map[string]http.HandlerFunc{"POST": h}, counted: true}
}

// generate is a route that generates.
func (s *Server) generate(a api) route {
	return onPost(func(w http.ResponseWriter, r *http.Request) { s.serveGenerate(w, r, a) })
}

// routeTable is all that the server answers: the engine's paths and the simulator's own.
func (s *Server) routeTable() map[string]route {
	var all map[string]route
	if s.face != nil {
		all = s.face.routes(s)
	} else {
		all = s.vllmRoutes()
	}
	fault := onPost(s.serveFault)
	fault.counted = false // vLLM has no such route
	all["/sim/state"], all["/sim/fault"] = onGet(s.serveState), fault
	s.missingFeatures.close(all)
	return all
}

func (s *Server) vllmRoutes() map[string]route {
	render := func(a api) route {
		return onPost(func(w http.ResponseWriter, r *http.Request) { s.serveRender(w, r, a) })
	}
	models := onGet(s.serveModels)
	models.counted = true
	ping := onGet(s.serveHealth)
	ping.handlers["POST"] = s.serveHealth
	all := map[string]route{
		"/v1/chat/completions":        s.generate(apiChat),
		"/v1/completions":             s.generate(apiCompletion),
		"/inference/v1/generate":      s.generate(apiTokens),
		"/v1/chat/completions/render": render(apiChat),
		"/v1/completions/render":      render(apiCompletion),
		"/v1/models":                  models,
		"/v1/embeddings":              onPost(s.serveEmbeddings),
		"/tokenize":                   onPost(s.serveTokenize),
		"/detokenize":                 onPost(s.serveDetokenize),
		"/health":                     onGet(s.serveHealth),
		"/ping":                       ping,
		"/version":                    onGet(s.serveVersion),
		"/load":                       onGet(s.serveLoad),
		"/metrics":                    onGet(s.serveMetrics),
	}
	if s.opts.SGLang {
		all["/generate"] = s.generate(apiNative)
	}
	return all
}

// ServeHTTP implements http.Handler. Unknown paths and wrong methods get the web framework's answers, not vLLM's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.active.Add(1)
	defer s.active.Add(-1)
	s.count(r.URL.Path)
	if !s.thawed(r) {
		panic(http.ErrAbortHandler)
	}
	if !s.admits(r) {
		writeJSON(w, http.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
		return
	}
	rt, ok := s.routes[r.URL.Path]
	if !ok {
		s.absent(w, r, false)
		return
	}
	h, ok := rt.handlers[r.Method]
	if !ok {
		for m := range rt.handlers {
			w.Header().Add("Allow", m)
		}
		s.absent(w, r, true)
		return
	}
	if !rt.counted {
		h(w, r)
		return
	}
	sw := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	start := time.Now()
	h(sw, r)
	s.life().http.observe(r, sw, time.Since(start))
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
	writeJSON(w, err.status, s.errorBody(err))
}
