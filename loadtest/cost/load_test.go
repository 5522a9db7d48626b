package cost

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// session is one client connection.
type session struct {
	conn    net.Conn
	wire    *wire
	from    *byte  // the request that is in scratch
	scratch []byte // a copy of it, into which numbers are written
}

// timing is when the parts of an answer came, since the request was sent.
type timing struct{ first, last time.Duration }

// maxWait bounds any exchange.
const maxWait = 30 * time.Second

// numbers are those of the prompts: no two requests of a run are equal.
var numbers atomic.Uint64

func init() { numbers.Store(1e6) } // smaller ones are those of repeated requests

// connectTo connects to a process.
func connectTo(addr string) (*session, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &session{conn: c, wire: newWire(c)}, nil
}

// send sends a request.
func (s *session) send(x *exchange) error {
	request := x.request
	if x.number > 0 {
		if s.from != &request[0] {
			s.from, s.scratch = &request[0], append(s.scratch[:0], request...)
		}
		request = s.scratch
		putNumber(request[x.number:], numbers.Add(1))
	}
	if err := s.conn.SetDeadline(time.Now().Add(maxWait)); err != nil {
		return err
	}
	_, err := s.conn.Write(request)
	return err
}

// do sends a request and reads and checks the answer.
func (s *session) do(x *exchange) (timing, error) {
	sent := time.Now()
	if err := s.send(x); err != nil {
		return timing{}, err
	}
	m, err := s.wire.head()
	if err != nil {
		return timing{}, unexpected(err)
	}
	var t timing
	d, err := s.wire.body(m, func() { t.first = time.Since(sent) })
	t.last = time.Since(sent)
	if err == nil {
		err = x.verify(m, d)
	}
	return t, err
}

// begin sends a request and waits for the first bytes of the answer's body.
func (s *session) begin(x *exchange) error {
	if err := s.send(x); err != nil {
		return err
	}
	m, err := s.wire.head()
	if err != nil {
		return unexpected(err)
	}
	if !bytes.HasPrefix(m.first, []byte("HTTP/1.1 200")) {
		return fmt.Errorf("status line %q", m.first)
	}
	_, err = s.wire.in.Peek(1)
	return err
}

// load is what the connections of a process do at the same time.
type load struct {
	each     []exchange    // of the connections in turn
	lasts    time.Duration // no request begins later; 0 is no limit
	requests int           // of each connection; 0 is no limit
	stagger  time.Duration // between the first requests of the connections
}

// apply puts p under load and returns how many requests it answered, all of them rightly.
func (p *party) apply(l load) (int, error) {
	var wg sync.WaitGroup
	var count atomic.Int64
	errs := make([]error, len(p.sessions))
	began := time.Now()
	for i, s := range p.sessions {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * l.stagger)
			x := &l.each[i%len(l.each)]
			for n := 0; l.requests == 0 || n < l.requests; n++ {
				if l.lasts > 0 && time.Since(began) >= l.lasts {
					return
				}
				if _, errs[i] = s.do(x); errs[i] != nil {
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return 0, fmt.Errorf("%s: %d of %d connections failed, the first: %s", p.name, strings.Count(err.Error(), "\n")+1, len(errs), first)
	}
	return int(count.Load()), nil
}

// sample is what a load cost a process, per unit.
type sample struct{ cpu, mallocs float64 } // µs, objects

const (
	// warmUp is how many requests each connection sends before a load is measured, so that the connections to the engine exist.
	warmUp = 3

	// settling is how long a process has after a load for what it does behind the requests, such as writing to Redis.
	settling = 20 * time.Millisecond

	// minServed is the share of the requests that must be served as their row says; else the round does not count. On a busy
	// machine the gateway sometimes gives up Redis or an engine for a moment.
	minServed = 0.95
)

// evidence is the sum of metrics that shows that a load was served as its row says.
type evidence struct {
	each    float64  // how much every request adds; 0: no request should
	metrics []string // how their lines begin
}

func says(each float64, metrics ...string) evidence { return evidence{each, metrics} }

// sum adds up the metrics on a page.
func (e evidence) sum(b *testing.B, p page) (sum float64) {
	b.Helper()
	for _, prefix := range e.metrics {
		sum += p.sum(b, prefix)
	}
	return sum
}

// tally sums up what a workload costs in one round.
type tally struct {
	workload
	party    *party
	requests int
	cpu      float64 // ns
	mallocs  float64
	seen     []float64 // of the evidence
}

// begin prepares the process for the measurement.
func (t *tally) begin(b *testing.B) {
	b.Helper()
	t.seen = make([]float64, len(t.evidence))
	l := t.load
	l.lasts, l.requests, l.stagger = 0, warmUp, 0
	if t.paced {
		l.each = []exchange{chat{size: 1 << 10, tokens: shortAnswer}.exchange()}
	}
	if _, err := t.party.apply(l); err != nil {
		b.Fatalf("warming up for %s: %v", t.title, err)
	}
	time.Sleep(settling)
}

// slice applies the load once.
func (t *tally) slice(b *testing.B) {
	b.Helper()
	before := t.party.page(b)
	cpu := t.party.cpu(b)
	n, err := t.party.apply(t.load)
	if err != nil {
		b.Fatalf("%s: %v", t.title, err)
	}
	time.Sleep(settling)
	t.cpu += t.party.cpu(b) - cpu
	t.requests += n
	after := t.party.page(b)
	t.mallocs += after.sum(b, mallocs) - before.sum(b, mallocs) - t.party.pageMallocs
	for i, e := range t.evidence {
		t.seen[i] += (e.sum(b, after) - e.sum(b, before)) / max(e.each, 1)
	}
}

// end returns the cost per unit, or an error if the load was not served as its row says.
func (t *tally) end(b *testing.B) (sample, error) {
	b.Helper()
	for i, e := range t.evidence {
		share := t.seen[i] / float64(t.requests)
		if e.each == 0 {
			share = 1 - share
		}
		if share < minServed || share > 1.001 {
			return sample{}, fmt.Errorf("%s: %d requests, and %q say %.0f\n%s", t.title, t.requests, e.metrics, t.seen[i], t.party.reasons(b))
		}
	}
	units := float64(t.requests * max(t.tokens, 1))
	return sample{cpu: t.cpu / 1e3 / units, mallocs: t.mallocs / units}, nil
}
