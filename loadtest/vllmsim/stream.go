package vllmsim

import "net/http"

// streamer writes one event stream.
type streamer struct {
	*call
	rc      *http.ResponseController
	buf     []byte
	cached  int     // of the first sequence to answer
	waiting []chunk // per choice: what the next chunk will say
	open    int
	total   int  // outputs so far
	sent    bool // the headers are out
}

// stream serves a request as events. vLLM's headers go out before the request is queued.
func (c *call) stream() {
	st := &streamer{call: c, rc: http.NewResponseController(c.w)}
	if c.s.vllm() {
		st.head200("text/event-stream; charset=utf-8")
		if st.rc.Flush() != nil {
			return
		}
	}
	if c.req.lazy != nil {
		st.fail(c.req.lazy)
		return
	}
	if c.fault.Hang == "stream" && c.fault.AfterTokens == 0 {
		c.stalled()
	}
	c.submit()
	defer c.abort()
	st.open, st.waiting = len(st.jobs), make([]chunk, len(st.jobs))
	for i := range st.waiting {
		st.waiting[i] = chunk{first: true, end: ending{prompt: c.req.prompts[i/c.req.n]}}
	}
	var events []event
	for st.open > 0 {
		var ok bool
		if events, ok = c.wait(events); !ok {
			return
		}
		st.buf = st.buf[:0]
		for i := range events {
			st.event(&events[i])
			if st.strikes() {
				return
			}
		}
		if !st.flush() {
			return
		}
	}
	st.buf = st.buf[:0]
	st.end()
	st.flush()
}

// head200 sends the headers of a stream, once.
func (st *streamer) head200(contentType string) {
	if st.sent {
		return
	}
	st.sent = true
	st.w.Header().Set("Content-Type", contentType)
	st.w.WriteHeader(http.StatusOK)
}

func (st *streamer) flush() bool {
	if len(st.buf) == 0 {
		return true
	}
	st.head200("text/event-stream")
	if _, err := st.w.Write(st.buf); err != nil {
		return false
	}
	return st.rc.Flush() == nil
}

// strikes plays the faults that come after some tokens; it reports that the stream is over.
func (st *streamer) strikes() bool {
	f := &st.fault
	switch {
	case f.Hang == "stream" && st.total >= f.AfterTokens:
		st.flush()
		st.abort()
		st.stalled()
	case f.CleanEOFAfterTokens > 0 && st.total >= f.CleanEOFAfterTokens:
		st.flush()
		return true
	case f.ErrorEventAfterTokens > 0 && st.total >= f.ErrorEventAfterTokens:
		st.flush()
		st.fail(errEngine)
		return true
	}
	return false
}

// fail ends the stream with an error event.
func (st *streamer) fail(err *apiError) {
	if !st.sent { // nothing was said yet
		st.s.writeError(st.w, err)
		return
	}
	st.buf = st.buf[:0]
	st.put(st.s.face.fail(err))
	if st.s.vllm() {
		st.done()
	}
	st.flush()
}

// event takes in one output and writes its chunks.
func (st *streamer) event(ev *event) {
	st.total++
	if st.total == 1 {
		st.cached = ev.cached
		st.put(st.s.face.opened(st.call)...)
	}
	c := &st.waiting[ev.choice]
	c.take(ev)
	st.put(st.s.face.chunk(st.call, c)...)
	c.clear()
	if ev.finish != "" {
		st.open--
	}
}

// put writes events.
func (st *streamer) put(list ...any) {
	for _, v := range list {
		st.buf = append(st.buf, "data: "...)
		st.buf = append(append(st.buf, encode(v)...), "\n\n"...)
	}
}

func (st *streamer) done() { st.buf = append(st.buf, "data: [DONE]\n\n"...) }

// chunk is what one chunk says of a choice: an output, and what came before it.
type chunk struct {
	event
	end    ending
	first  bool // of its choice
	tokens int  // of the choice so far
	offset int  // characters of the choice's tokens before it
}

func (c *chunk) take(ev *event) {
	c.event = *ev
	if ev.id >= 0 {
		c.tokens++
		c.end.ids = []int32{ev.id}
	}
	if ev.lp != nil {
		c.end.lps = []*tokenLogprob{ev.lp}
	}
	c.end.finish, c.end.stop = ev.finish, ev.stop
}

// clear makes room for the next one.
func (c *chunk) clear() {
	for _, lp := range c.end.lps {
		c.offset += len([]rune(lp.text))
	}
	*c = chunk{tokens: c.tokens, offset: c.offset, end: ending{prompt: c.end.prompt}}
}

// end writes the usage chunk, if it was asked for, and the terminator.
func (st *streamer) end() {
	if st.req.usage {
		t := spend{prompt: st.promptTokens(), cached: st.cached}
		for i := range st.waiting {
			t.generated += st.waiting[i].tokens
		}
		a := st.s.face.head(st.call, true)
		st.s.face.usage(st.call, a, t)
		st.told = t
		st.put(a)
	}
	st.done()
}
