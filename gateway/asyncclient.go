package gateway

import (
	"errors"
	"sync"

	"github.com/foregate/foregate/gateway/pipeline"
)

// maxBehind is how much a client may be behind the others who share its answer, in bytes.
const maxBehind = 1 << 20

// errBehind is why such a client is cut off.
var errBehind = errors.New("the client is too far behind those who share its answer")

// detached is a client that nobody waits for: a goroutine of its own writes what is held for it.
type detached struct {
	sink *sink
	done chan struct{} // closed when the goroutine ends
	more chan struct{} // there is more to write, or no more comes; holds one

	panicked any // of the goroutine, when done is closed

	mu     sync.Mutex
	behind []byte // what the client is still to take
	over   bool   // no more comes
	err    error  // why it takes no more
}

var _ pipeline.AsyncClient = (*detached)(nil)

// Detach implements pipeline.Client. The goroutine ends with Close.
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

// writeOn writes what there is, and reports whether more may come.
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
		if err := d.sink.Write(p); err != nil {
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

// Write implements pipeline.AsyncClient: it sets aside what the goroutine is to write.
func (d *detached) Write(p []byte) {
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
		panic(d.panicked) // it is this request's
	}
	return d.err
}
