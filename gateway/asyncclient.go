package gateway

import (
	"errors"
	"sync"

	"github.com/foregate/foregate/gateway/pipeline"
)

// maxBehind is how far a client may lag behind the other readers of its shared answer, in bytes.
const maxBehind = 1 << 20

// errBehind is the reason why such a client is disconnected.
var errBehind = errors.New("the client is too far behind those who share its answer")

// detached is a client with a goroutine of its own that writes its pending bytes. Write never blocks.
type detached struct {
	sink *sink
	done chan struct{} // closed when the goroutine ends
	more chan struct{} // capacity 1: there is more to write, or the answer is complete

	panicked any   // from the goroutine; read it after done is closed
	bad      error // the answer has no form in the client's API

	mu     sync.Mutex
	behind []byte // bytes that wait to be written
	over   bool   // no more bytes will come
	err    error  // the error that ended the writing
}

var _ pipeline.AsyncClient = (*detached)(nil)

// Detach implements pipeline.Client. Close ends the goroutine.
func (s *sink) Detach() pipeline.AsyncClient {
	d := &detached{sink: s, done: make(chan struct{}), more: make(chan struct{}, 1)}
	go func() {
		defer close(d.done)
		defer func() { d.panicked = recover() }()
		for d.writeOn() {
			<-d.more
		}
	}()
	return d
}

// writeOn writes the pending bytes, and reports whether more may come.
func (d *detached) writeOn() bool {
	for {
		d.mu.Lock()
		p, over, err := d.behind, d.over, d.err
		d.behind = nil
		d.mu.Unlock()
		switch {
		case err != nil:
			return false
		case len(p) == 0:
			return !over
		}
		if err := d.sink.send(p); err != nil {
			d.fail(err)
		}
	}
}

func (d *detached) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
}

// Write implements pipeline.AsyncClient: it queues p for the goroutine.
func (d *detached) Write(p []byte) {
	if d.bad != nil {
		return
	}
	if p, d.bad = d.sink.encode(p); len(p) == 0 {
		return
	}
	d.mu.Lock()
	if d.err == nil && len(d.behind)+len(p) > maxBehind && len(d.behind) > 0 {
		d.err, d.behind = errBehind, nil
	}
	if d.err == nil {
		d.behind = append(d.behind, p...)
	}
	d.mu.Unlock()
	d.signal()
}

func (d *detached) signal() {
	select {
	case d.more <- struct{}{}:
	default:
	}
}

// Close implements pipeline.AsyncClient.
func (d *detached) Close() error {
	d.mu.Lock()
	d.over = true
	d.mu.Unlock()
	d.signal()
	<-d.done
	if d.panicked != nil {
		panic(d.panicked) // it belongs to this request
	}
	if d.err != nil {
		return d.err
	}
	return d.bad
}
