package vllmsim

import (
	"net/http"
)

// call is one generation request on its way: its sequences in the engine and what came of them.
type call struct {
	s      *Server
	engine *engine // that has its sequences
	req    *request
	fault  Fault
	w      http.ResponseWriter
	r      *http.Request
	box    *mailbox
	jobs   []*job

	came int   // tokens that were generated for it so far
	told spend // what it has told of them; zero before
}

// serveGenerate answers the routes that generate.
func (s *Server) serveGenerate(w http.ResponseWriter, r *http.Request, a api) {
	body, err := readBody(r)
	fault := s.nextFault(body)
	if fault.Hang == "headers" {
		s.hang(r)
		panic(http.ErrAbortHandler)
	}
	w = withCut(w, r, &fault)
	if fault.Score == scoreError {
		s.writeError(w, errEngine)
		return
	}
	if fault.Status != 0 {
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		s.writeError(w, statusError(fault.Status))
		return
	}
	if s.limited(w) {
		return
	}
	var req *request
	if err == nil {
		req, err = s.parse(body, intake{api: a, header: r.Header.Get})
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	c := &call{s: s, engine: s.engine, req: req, fault: fault, w: w, r: r, box: newMailbox()}
	defer c.charge()
	if req.stream {
		c.stream()
		return
	}
	c.answer()
}

// submit hands the request's sequences to the engine.
func (c *call) submit() {
	for i := range c.req.specs {
		spec := &c.req.specs[i]
		spec.abortAfter = c.fault.AbortAfterTokens
		prompt := c.req.prompts[i/c.req.n]
		g := newGenerator(c.s.model, prompt, spec, i)
		q := &Seq{Prompt: prompt, Priority: c.req.priority, Salt: c.req.salt, NoCacheRead: c.req.noCacheRead,
			ScoreFrom: c.req.scoreFrom, Source: g}
		c.jobs = append(c.jobs, &job{seq: q, gen: g, box: c.box})
	}
	c.engine.add(c.jobs)
}

// wait returns the next outputs, or false when the client has left. Whoever leaves early aborts what is still running.
func (c *call) wait(spare []event) ([]event, bool) {
	for {
		if got := c.box.take(spare); len(got) > 0 {
			for i := range got {
				if got[i].id >= 0 {
					c.came++
				}
				c.s.wire.event(&got[i])
			}
			return got, true
		}
		select {
		case <-c.box.notify:
		case <-c.r.Context().Done():
			return nil, false
		}
	}
}

// abort takes the request out of the engine.
func (c *call) abort() { c.engine.abort(c.jobs) }

// stalled ends a request that a fault silences: it hangs until the client goes, and then never ends the body.
func (c *call) stalled() {
	c.s.hang(c.r)
	panic(http.ErrAbortHandler)
}
