package vllmsim

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// kvStream is what one engine process has published: numbered from 0, the last of it kept for replay.
type kvStream struct {
	topic     string
	hwm, keep int

	mu   sync.Mutex
	seq  uint64
	past []kvMessage
	subs map[*kvSub]bool
}

type kvMessage struct {
	seq     uint64
	payload []byte
}

// kvSub is one subscriber; the stream's lock is its lock.
type kvSub struct {
	topics []string
	queue  [][]byte
	wake   chan struct{}
}

// publish hands a batch to whoever subscribes; nobody waits for the slow, who miss it.
func (s *kvStream) publish(payload []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := kvMessage{s.seq, payload}
	s.seq++
	if s.past = append(s.past, m); len(s.past) >= 2*s.keep {
		s.past = append(s.past[:0:0], s.past[len(s.past)-s.keep:]...)
	}
	wire := zmtpMessage(nil, []byte(s.topic), binary.BigEndian.AppendUint64(nil, m.seq), payload)
	for sub := range s.subs {
		if sub.wants(s.topic) && len(sub.queue) < s.hwm {
			sub.queue = append(sub.queue, wire)
			signal(sub.wake)
		}
	}
}

func (q *kvSub) wants(topic string) bool {
	for _, t := range q.topics {
		if strings.HasPrefix(topic, t) {
			return true
		}
	}
	return false
}

// hear applies a subscription or the end of one.
func (s *kvStream) hear(q *kvSub, body []byte) {
	if len(body) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	topic := string(body[1:])
	switch body[0] {
	case 1:
		q.topics = append(q.topics, topic)
	case 0:
		for i, t := range q.topics {
			if t == topic {
				q.topics = append(q.topics[:i], q.topics[i+1:]...)
				return
			}
		}
	}
}

// serveSub is a PUB socket's side of one connection.
func (s *kvStream) serveSub(c net.Conn) {
	r, err := zmtpGreet(c, "PUB")
	if err != nil {
		return
	}
	sub := &kvSub{wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.subs[sub] = true
	s.mu.Unlock()
	gone := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() { s.feed(c, sub, gone) })
	for {
		flags, body, err := zmtpRead(r)
		if err != nil {
			break
		}
		if flags&zmtpCommand == 0 {
			s.hear(sub, body)
		}
	}
	s.mu.Lock()
	delete(s.subs, sub)
	s.mu.Unlock()
	close(gone)
	_ = c.Close()
	writer.Wait()
}

// feed writes what is queued for one subscriber.
func (s *kvStream) feed(c net.Conn, sub *kvSub, gone chan struct{}) {
	for {
		s.mu.Lock()
		var next []byte
		if len(sub.queue) > 0 {
			next, sub.queue = sub.queue[0], sub.queue[1:]
		}
		s.mu.Unlock()
		if next != nil {
			if _, err := c.Write(next); err != nil {
				_ = c.Close()
				return
			}
			continue
		}
		select {
		case <-gone:
			return
		case <-sub.wake:
		}
	}
}

// serveReplay is a ROUTER socket's side of one connection: asked with a sequence number, it answers with every message
// from there on that it still has, and then number -1.
func (s *kvStream) serveReplay(c net.Conn, old bool) {
	r, err := zmtpGreet(c, "ROUTER")
	if err != nil {
		return
	}
	for {
		frames, err := zmtpFrames(r)
		if err != nil {
			return
		}
		if len(frames) != 2 || len(frames[1]) != 8 {
			continue // vLLM warns, and does not answer
		}
		from := binary.BigEndian.Uint64(frames[1])
		s.mu.Lock()
		past := s.past[max(0, len(s.past)-s.keep):]
		s.mu.Unlock()
		for _, m := range append(past[:len(past):len(past)], kvMessage{seq: math.MaxUint64}) {
			if m.seq < from {
				continue
			}
			reply := [][]byte{nil, []byte(s.topic), binary.BigEndian.AppendUint64(nil, m.seq), m.payload}
			if m.payload == nil {
				reply[1] = nil
			}
			if old { // the topic came in July 2026
				reply = append(reply[:1], reply[2:]...)
			}
			if _, err := c.Write(zmtpMessage(nil, reply...)); err != nil {
				return
			}
		}
	}
}

// zmtpFrames reads a message of at most 8 frames, passing over commands.
func zmtpFrames(r *bufio.Reader) (frames [][]byte, err error) {
	for {
		flags, body, err := zmtpRead(r)
		if err != nil || len(frames) == 8 {
			return nil, errZMTP
		}
		if flags&zmtpCommand != 0 {
			continue
		}
		if frames = append(frames, body); flags&zmtpMore == 0 {
			return frames, nil
		}
	}
}

// kvSocket listens on one port, through all lives; the server's lock is its lock.
type kvSocket struct {
	host  string
	port  int
	rank  int
	serve func(*kvStream, net.Conn)
	l     net.Listener
	hold  func()
}

// kvWires are the sockets of a server.
type kvWires struct {
	pub, replay []*kvSocket
	tasks       sync.WaitGroup
	mu          sync.Mutex
	conns       map[net.Conn]bool
	isUp        bool
}

// open finds the ports and listens on all of them. Those of the ranks follow each other: where any port will do, several
// are tried.
func (k *kvWires) open(o *Options, l *life) error {
	form := &o.KVEvents
	k.pub = kvSockets(form.Endpoint, o.DataParallelSize, (*kvStream).serveSub)
	k.replay = kvSockets(form.ReplayEndpoint, o.DataParallelSize, func(s *kvStream, c net.Conn) { s.serveReplay(c, form.Arrays) })
	for _, row := range [][]*kvSocket{k.pub, k.replay} {
		anywhere := len(row) > 0 && row[0].port == 0
		for try := 1; ; try++ {
			err := k.upRow(row, l)
			if err == nil {
				break
			}
			k.downRow(row, false)
			if !anywhere || try == 50 {
				k.down()
				return err
			}
			row[0].port = 0
		}
	}
	return nil
}

func kvSockets(endpoint string, n int, serve func(*kvStream, net.Conn)) (row []*kvSocket) {
	if endpoint == "" {
		return nil
	}
	host, port, _ := kvPort(endpoint) // options that were validated
	for rank := range n {
		row = append(row, &kvSocket{host: host, port: port, rank: rank, serve: serve})
	}
	return row
}

// up listens for the engines of a life.
func (k *kvWires) up(l *life) error {
	for _, row := range [][]*kvSocket{k.pub, k.replay} {
		if err := k.upRow(row, l); err != nil {
			return err
		}
	}
	return nil
}

func (k *kvWires) upRow(row []*kvSocket, l *life) error {
	k.mu.Lock()
	k.isUp = true
	k.mu.Unlock()
	for i, s := range row {
		if s.l != nil {
			continue
		}
		if i > 0 {
			s.port = row[0].port + i
		}
		at, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(s.host, strconv.Itoa(s.port)))
		if err != nil {
			return err
		}
		if s.hold != nil {
			s.hold()
			s.hold = nil
		}
		s.l = at
		if tcp, ok := at.Addr().(*net.TCPAddr); ok {
			s.port = tcp.Port
		}
		stream := l.engines[s.rank].events.stream
		k.tasks.Go(func() { k.accept(at, func(c net.Conn) { s.serve(stream, c) }) })
	}
	return nil
}

func (k *kvWires) accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if !k.enter(c) {
			return
		}
		k.tasks.Go(func() {
			serve(c)
			_ = c.Close()
			k.mu.Lock()
			delete(k.conns, c)
			k.mu.Unlock()
		})
	}
}

// enter notes a connection, unless all are being ended.
func (k *kvWires) enter(c net.Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.isUp {
		_ = c.Close()
		return false
	}
	if k.conns == nil {
		k.conns = map[net.Conn]bool{}
	}
	k.conns[c] = true
	return true
}

// down ends every connection and refuses others, but keeps the ports.
func (k *kvWires) down() {
	k.downRow(k.pub, true)
	k.downRow(k.replay, true)
	k.mu.Lock()
	k.isUp = false
	for c := range k.conns {
		_ = c.Close()
	}
	k.mu.Unlock()
}

func (k *kvWires) downRow(row []*kvSocket, hold bool) {
	for _, s := range row {
		if s.l == nil {
			continue
		}
		_ = s.l.Close()
		s.l = nil
		if hold {
			s.hold = holdPort(net.JoinHostPort(anyHost(s.host), strconv.Itoa(s.port)))
		}
	}
}

func anyHost(host string) string {
	if host == "" {
		return "0.0.0.0"
	}
	return host
}

// close gives the ports back.
func (k *kvWires) close() {
	k.down()
	for _, row := range [][]*kvSocket{k.pub, k.replay} {
		for _, s := range row {
			if s.hold != nil {
				s.hold()
			}
		}
	}
}

// KVEventsEndpoint is where the events of a rank are published, or "".
func (s *Server) KVEventsEndpoint(rank int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return kvEndpoint(s.wires.pub, rank)
}

// KVReplayEndpoint is where past events of a rank are asked for, or "".
func (s *Server) KVReplayEndpoint(rank int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return kvEndpoint(s.wires.replay, rank)
}

func kvEndpoint(row []*kvSocket, rank int) string {
	if rank < 0 || rank >= len(row) {
		return ""
	}
	return fmt.Sprintf("tcp://%s", net.JoinHostPort(row[rank].host, strconv.Itoa(row[rank].port)))
}

// serveReset empties the prefix caches. It fails where a request holds a block, as vLLM's does; what it is asked beside
// that (reset_running_requests) is passed over.
func (s *Server) serveReset(w http.ResponseWriter, _ *http.Request) {
	ok := true
	for _, e := range s.life().engines {
		e.mu.Lock()
		ok = e.sched.pool.reset() && ok
		e.mu.Unlock()
	}
	writeJSON(w, http.StatusOK, []byte(`{"success":`+strconv.FormatBool(ok)+`}`))
}
