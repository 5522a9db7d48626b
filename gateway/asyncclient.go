package gateway

import (
	"cmp"
	"errors"
	"sync"

	"github.com/foregate/foregate/tiers"
)

// maxBehind is how far a client may lag behind the other readers of its shared answer, in bytes.
const maxBehind = 1 << 20

// errBehind is the reason why such a client is disconnected.
var errBehind = errors.New("the client is too far behind those who share its answer")

// detached is a client with a goroutine of its own that writes its pending bytes. Write never blocks.
type detached struct {
	sink     *sink
	bad      error         // the answer has no form in the client's API
	done     chan struct{} // closed when the goroutine ends
	panicked any           // from the goroutine; read it after done is closed

	mu     sync.Mutex
	more   *sync.Cond // one of the next has changed
	behind []byte     // bytes that wait to be written
	over   bool       // no more bytes will come
	err    error      // the error that ended the writing
}

var _ tiers.AsyncClient = (*detached)(nil)

// Detach implements tiers.Client. Close ends the goroutine.
func (s *sink) Detach() tiers.AsyncClient {
	d := &detached{sink: s, done: make(chan struct{})}
	d.more = sync.NewCond(&d.mu)
	go func() {
		defer close(d.done)
		defer func() { d.panicked = recover() }()
		for p := d.pending(); len(p) > 0; p = d.pending() {
			if err := s.send(p); err != nil {
				d.mu.Lock()
				d.err = cmp.Or(d.err, err)
				d.mu.Unlock()
			}
		}
	}()
	return d
}

// pending waits for bytes to be written, and takes them; it returns none at the end.
func (d *detached) pending() (p []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.behind) == 0 && !d.over && d.err == nil {
		d.more.Wait()
	}
	if d.err == nil {
		p, d.behind = d.behind, nil
	}
	return p
}

// Write implements tiers.AsyncClient: it queues p for the goroutine.
func (d *detached) Write(p []byte) {
	if d.bad != nil {
		return
	}
	if p, d.bad = d.sink.encode(p); len(p) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil && len(d.behind)+len(p) > maxBehind && len(d.behind) > 0 {
		d.err, d.behind = errBehind, nil
	}
	if d.err == nil {
		d.behind = append(d.behind, p...)
	}
	d.more.Signal()
}

// Close implements tiers.AsyncClient.
func (d *detached) Close() error {
	d.mu.Lock()
	d.over = true
	d.more.Signal()
	d.mu.Unlock()
	<-d.done
	if d.panicked != nil {
		panic(d.panicked) // it belongs to this request
	}
	return cmp.Or(d.err, d.bad)
}
