package conns

import (
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// pipe is a connection that comes from an address of the test's choice.
type pipe struct {
	net.Conn
	from net.Addr
}

func (p pipe) RemoteAddr() net.Addr { return p.from }

// world is a table with a clock.
type world struct {
	*Table
	t   *testing.T
	now time.Time
}

func newWorld(t *testing.T, o Options) *world {
	o.Listener, o.MaxIdle = "public", 75*time.Second
	return &world{Table: New(o), t: t, now: time.Unix(1e9, 0)}
}

// from opens a connection a second after the last one; nil is refused.
func (w *world) from(addr string) *conn {
	near, far := net.Pipe()
	w.t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	w.now = w.now.Add(time.Second)
	return w.admit(pipe{near, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 1))}, w.now)
}

// isClosed reports whether the table has closed a connection.
func isClosed(c *conn) bool {
	_ = c.SetReadDeadline(time.Unix(1, 0)) // tells of its end, too
	_, err := c.Read(make([]byte, 1))
	ne, ok := err.(net.Error)
	return !ok || !ne.Timeout()
}

// answer ends one of a connection's handlers, and tells that the server waits for the next request.
func (w *world) answer(c *conn, at time.Time) {
	if c.handlers > 0 {
		w.answered(c, at)
	}
	w.wait(c, at)
}

func (w *world) ask(c *conn) {
	w.t.Helper()
	c.idle.Store(false)
	if _, err := w.serve(c); err != nil {
		w.t.Fatal(err)
	}
}

func TestANewConnectionTakesThePlaceOfTheOneIdleLongest(t *testing.T) {
	w := newWorld(t, Options{Max: 3})
	a, b, c := w.from("10.0.0.1"), w.from("10.0.0.2"), w.from("10.0.0.3")
	w.ask(a)
	w.ask(b)
	w.answer(a, w.now.Add(time.Hour)) // has waited for less than c, which has asked nothing yet
	if w.from("10.0.0.4") == nil || !isClosed(c) || isClosed(a) || isClosed(b) {
		t.Error("not the connection that has waited longest")
	}
	if w.from("10.0.0.5") == nil || !isClosed(a) || isClosed(b) {
		t.Error("not the next one")
	}
	if n := w.count(); n != 3 {
		t.Errorf("%d are open", n)
	}
}

func TestAConnectionThatAnswersIsNeverClosed(t *testing.T) {
	w := newWorld(t, Options{Max: 3, MaxPerAddress: 2})
	a, b, c := w.from("10.0.0.1"), w.from("10.0.0.1"), w.from("10.0.0.2")
	for _, c := range []*conn{a, b, c} {
		w.ask(c)
	}
	w.now = w.now.Add(24 * time.Hour)
	w.sweep(w.now)
	if w.from("10.0.0.1") != nil || w.from("10.0.0.3") != nil || isClosed(a) || isClosed(b) || isClosed(c) {
		t.Error("a new one found room where all are at work")
	}
	for reason, want := range map[string]float64{reasonAddress: 1, reasonFull: 1} {
		if got := testutil.ToFloat64(w.metrics.refused.WithLabelValues(reason)); got != want {
			t.Errorf("%v were refused for %s", got, reason)
		}
	}
}

func TestAnAddressWithItsShareMakesRoomItself(t *testing.T) {
	w := newWorld(t, Options{Max: 10, MaxPerAddress: 2})
	other, first, second := w.from("10.0.0.1"), w.from("10.0.0.2"), w.from("10.0.0.2")
	if w.from("10.0.0.2") == nil || !isClosed(first) || isClosed(other) || isClosed(second) {
		t.Error("not its own oldest connection was closed")
	}
	w.ask(second)
	if w.from("10.0.0.2") == nil || isClosed(second) {
		t.Error("the one at work was closed")
	}
	if got := testutil.ToFloat64(w.metrics.closed.WithLabelValues(reasonAddress)); got != 2 {
		t.Errorf("%v were closed for their address", got)
	}
}

func TestAFloodOfStrangersLeavesKnownClientsThreeQuarters(t *testing.T) {
	for _, o := range []Options{{Max: 16}, {Max: 100, MaxPerAddress: 16}} {
		w := newWorld(t, o)
		var regulars []*conn
		for range 16 {
			c := w.from("10.0.0.1")
			w.ask(c)
			c.markAuthenticated()
			w.answer(c, w.now)
			regulars = append(regulars, c)
		}
		for range 100 {
			if w.from("10.0.0.1") == nil {
				t.Fatal("no room")
			}
		}
		for i, c := range regulars {
			if isClosed(c) != (i < 4) {
				t.Errorf("%+v: known client %d: closed %v", o, i, isClosed(c))
			}
		}
	}
}

func TestANewClientIsNotClosedForTheNextWhereKnownOnesIdle(t *testing.T) {
	w := newWorld(t, Options{Max: 16})
	for range 16 {
		c := w.from("10.0.0.1")
		w.ask(c)
		c.markAuthenticated()
		w.answer(c, w.now)
	}
	first := w.from("10.0.0.2")
	for range 3 {
		w.from("10.0.0.3")
	}
	if isClosed(first) {
		t.Error("it had no time to ask")
	}
	w.ask(first)
}

func TestIPv6AddressesOfOneNetworkShare(t *testing.T) {
	w := newWorld(t, Options{Max: 10, MaxPerAddress: 1})
	first := w.from("2001:db8::1")
	if w.from("2001:db8::2:3") == nil || !isClosed(first) {
		t.Error("one network of 64 bits has two shares")
	}
	second := w.from("2001:db8:0:1::1")
	if w.from("::ffff:10.0.0.1") == nil || w.from("::ffff:10.0.0.2") == nil || isClosed(second) {
		t.Error("others share with them")
	}
}

func TestBalancersHaveNoShareAndAreClosedLast(t *testing.T) {
	w := newWorld(t, Options{Max: 3, MaxPerAddress: 1, Balancers: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	first, second := w.from("10.1.0.1"), w.from("::ffff:10.1.0.1")
	stranger := w.from("10.2.0.1")
	w.now = w.now.Add(10 * time.Minute)
	if w.from("10.1.0.1") == nil || !isClosed(stranger) || isClosed(first) || isClosed(second) {
		t.Error("the balancer paid while another's connection waited")
	}
	w.sweep(w.now)
	if isClosed(first) || isClosed(second) {
		t.Error("a balancer's idle connection was swept away")
	}
	if w.from("10.2.0.2") == nil || !isClosed(first) || isClosed(second) {
		t.Error("no room although a balancer's connection waits")
	}
	if last, err := w.serve(second); last || err != nil {
		t.Errorf("the balancer's connection ends with its answer: %v, %v", last, err)
	}
}

func TestIdleConnectionsGoUntilThereIsRoom(t *testing.T) {
	w := newWorld(t, Options{Max: 8})
	for range 8 {
		w.from("10.0.0.1")
	}
	w.now = w.now.Add(4 * time.Second) // the oldest have waited for 11 s
	w.sweep(w.now)
	if n := w.count(); n != 5 { // at 5 of 8 they may wait for 40 s, at 6 for 5 s
		t.Errorf("%d are left", n)
	}
	w.now = w.now.Add(40 * time.Second)
	if w.sweep(w.now); w.count() != 4 {
		t.Errorf("%d are left", w.count())
	}
	if got := testutil.ToFloat64(w.metrics.closed.WithLabelValues(reasonIdle)); got != 4 {
		t.Errorf("%v were closed for being idle", got)
	}
}

func TestAnswersEndConnectionsOfACrowdedTable(t *testing.T) {
	w := newWorld(t, Options{Max: 4})
	a := w.from("10.0.0.1")
	if last, err := w.serve(a); last || err != nil {
		t.Errorf("one of 4: %v, %v", last, err)
	}
	b, c := w.from("10.0.0.1"), w.from("10.0.0.1")
	if last, err := w.serve(b); !last || err != nil {
		t.Errorf("three of 4: %v, %v", last, err)
	}
	_ = c.Close()
	w.answer(b, w.now)
	if last, err := w.serve(b); last || err != nil {
		t.Errorf("two of 4: %v, %v", last, err)
	}
}

// TestPlacesAreNeverLost does at random what may happen, in any order, and counts.
func TestPlacesAreNeverLost(t *testing.T) {
	w := newWorld(t, Options{Max: 12, MaxPerAddress: 5, Balancers: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}})
	dice := rand.New(rand.NewPCG(1, 2))
	addresses := []string{"10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2", "10.9.0.1"}
	var all []*conn
	for range 5000 {
		switch n := dice.IntN(10); {
		case n < 4 || len(all) == 0:
			if c := w.from(addresses[dice.IntN(len(addresses))]); c != nil {
				all = append(all, c)
			}
		case n < 6:
			c := all[dice.IntN(len(all))]
			c.idle.Store(dice.IntN(4) == 0) // the stream may be closed before its handler begins
			_, _ = w.serve(c)               // some are gone
		case n < 7:
			all[dice.IntN(len(all))].markAuthenticated() // some have no request
		case n < 8:
			c := all[dice.IntN(len(all))]
			if c.handlers > 0 {
				w.answered(c, w.now)
			}
			if dice.IntN(2) == 0 {
				w.answer(c, w.now)
			}
		case n < 9:
			_ = all[dice.IntN(len(all))].Close() // some for the second time
		default:
			w.now = w.now.Add(time.Duration(dice.IntN(30)) * time.Second)
			w.sweep(w.now)
		}
		all = slices.DeleteFunc(all, func(c *conn) bool { return c.state == closed && dice.IntN(4) > 0 })
		w.audit(all)
	}
	for _, c := range all {
		_ = c.Close() // some are
	}
	if w.audit(nil); len(w.open) != 0 || len(w.addresses) != 0 {
		t.Errorf("%d places of %d addresses are held by nobody", len(w.open), len(w.addresses))
	}
}

// audit compares the table with all connections that it has let in.
func (w *world) audit(all []*conn) {
	w.t.Helper()
	open, queued, requests, by, asked := 0, 0, 0, map[netip.Addr]int{}, map[netip.Addr]int{}
	for _, c := range all {
		if c.state == closed {
			continue
		}
		open++
		if c.state == waiting {
			queued++
		}
		if c.state == serving && c.idle.Load() && c.handlers == 0 {
			w.t.Fatal("a connection without a request is in no queue")
		}
		requests += c.handlers
		if c.class != balancer {
			by[c.from]++
			asked[c.from] += c.handlers
		}
	}
	have := map[netip.Addr]int{}
	for addr, a := range w.addresses {
		have[addr] = a.open
		if a.requests != asked[addr] {
			w.t.Fatalf("%v has %d requests, counted %d", addr, asked[addr], a.requests)
		}
		if a.open > w.opts.MaxPerAddress {
			w.t.Fatalf("%v has %d", addr, a.open)
		}
	}
	got := 0
	for i := range w.waiting.byClass {
		q := &w.waiting.byClass[i]
		if got += q.n; q.n != length(q) {
			w.t.Fatalf("queue %d counts %d and holds %d", i, q.n, length(q))
		}
	}
	if requests != w.requests {
		w.t.Fatalf("%d requests, counted %d", requests, w.requests)
	}
	if open != len(w.open) || open > w.opts.Max || !maps.Equal(by, have) || got != queued {
		w.t.Fatalf("%d open, counted %d; by address %v, counted %v; %d wait, in queues %d", open, len(w.open), by, have, queued, got)
	}
}

func length(q *queue) (n int) {
	for c := q.first; c != nil; c = c.links[q.by].behind {
		n++
	}
	return n
}

func TestTheTableTellsOfItself(t *testing.T) {
	reg := prometheus.NewRegistry()
	for _, name := range []string{"public", "admin"} {
		New(Options{Listener: name, Max: 7, Registerer: reg})
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if n, err := testutil.GatherAndCount(reg); n != 18 || err != nil {
		t.Errorf("%d series, %v", n, err)
	}
}

// BenchmarkARequest is what a table costs a request, one after the other.
func BenchmarkARequest(b *testing.B) {
	t := New(Options{Listener: "public", Max: 1 << 14})
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	now := time.Unix(1e9, 0)
	c := t.admit(pipe{near, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}}, now)
	b.ReportAllocs()
	for b.Loop() {
		c.idle.Store(false)
		if _, err := t.serve(c); err != nil {
			b.Fatal(err)
		}
		t.answered(c, now)
		t.wait(c, now)
	}
}
