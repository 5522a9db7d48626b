package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

const waiting = 20 * time.Second

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(waiting)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline.C:
			t.Fatalf("still waiting until %s", what)
		case <-tick.C:
		}
	}
}

// follow follows until the test ends.
func follow(t *testing.T, x *Index, endpoint string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.Follow(ctx, "b", endpoint) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// start runs a server that publishes its events, and replays them.
func start(t *testing.T, o vllmsim.Options) *vllmsim.Server {
	t.Helper()
	o.TimeScale, o.DevMode = 1000, true
	o.KVEvents.Endpoint, o.KVEvents.ReplayEndpoint = "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"
	return vllmsim.Start(t, o)
}

// send asks a server to complete a prompt, which rank -1 leaves to its balancer.
func send(t *testing.T, s *vllmsim.Server, rank int, prompt []int32, more string) {
	t.Helper()
	body := fmt.Sprintf(`{"prompt":%s,"max_tokens":1%s}`, strings.ReplaceAll(fmt.Sprint(prompt), " ", ","), more)
	header := http.Header{"Content-Type": {"application/json"}}
	if rank >= 0 {
		header.Set("X-data-parallel-rank", fmt.Sprint(rank))
	}
	post(t, s.URL()+"/v1/completions", body, header)
}

func post(t *testing.T, url, body string, header http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if b, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || err != nil {
		t.Fatalf("%d %.200s %v", resp.StatusCode, b, err)
	}
}

// prompt is n token ids that no other number begins with.
func prompt(number, n int) []int32 {
	out := ids(n)
	for i := range out {
		out[i] = (out[i] + int32(number)*131) % 2000
	}
	return out
}

// has waits until the index says so of a prompt.
func has(t *testing.T, x *Index, what string, p []int32, salt string, tokens int, known bool) {
	t.Helper()
	chain := Chain(nil, p, 16, salt)
	var last string
	defer func() {
		if t.Failed() {
			t.Logf("last: %s", last)
		}
	}()
	eventually(t, what, func() bool {
		n, k := x.Cached("b", chain)
		last = fmt.Sprint(n, " ", k)
		return n == tokens && k == known
	})
}

// hears waits until the feed is up.
func hears(t *testing.T, x *Index, feeds int) {
	t.Helper()
	eventually(t, "the feed is up", func() bool {
		x.mu.RLock()
		defer x.mu.RUnlock()
		b := x.backends["b"]
		if b == nil {
			return false
		}
		b.mu.RLock()
		defer b.mu.RUnlock()
		n := 0
		for _, f := range b.feeds {
			if f.up {
				n++
			}
		}
		return n == feeds
	})
}

// replays names the replay endpoint of a server's only rank.
func replays(s *vllmsim.Server) func(string) string {
	return func(string) string { return s.KVReplayEndpoint(0) }
}

func (x *Index) count(k kind) float64 { return testutil.ToFloat64(x.met.events[k]) }

func TestAfterARequestItsPromptsBlocksAreKnown(t *testing.T) {
	for name, kv := range map[string]vllmsim.KVEvents{"maps": {Topic: "kv@pod@m"}, "arrays": {Arrays: true}, "digests": {RawHashes: true}, "both": {Arrays: true, RawHashes: true}} {
		t.Run(name, func(t *testing.T) {
			s := start(t, vllmsim.Options{KVEvents: kv, MaxBatchedTokens: 64})
			x := New(Options{Replay: replays(s)})
			expectUnknown(t, x)
			follow(t, x, s.KVEventsEndpoint(0))
			has(t, x, "it is up and empty", prompt(1, 200), "", 0, true)
			send(t, s, -1, prompt(1, 200), "")
			send(t, s, -1, prompt(3, 20), "") // an engine does not keep what it told before it knew of the feed: a later event shows that
			has(t, x, "all full blocks", prompt(1, 200), "", 192, true)
			has(t, x, "not with a salt", prompt(1, 200), "s", 0, true)
			send(t, s, -1, prompt(1, 100), `,"cache_salt":"s"`)
			has(t, x, "salted", prompt(1, 200), "s", 96, true)
			post(t, s.URL()+"/reset_prefix_cache", "{}", http.Header{"Content-Type": {"application/json"}})
			send(t, s, -1, prompt(2, 40), "")
			has(t, x, "what came after", prompt(2, 40), "", 32, true)
			has(t, x, "nothing before", prompt(1, 200), "", 0, true)
			expect(t, "none was bad, orphaned or missed", []float64{x.count(kindBad), x.count(kindOrphan), x.count(kindGap)}, []float64{0, 0, 0})
		})
	}
}

func expectUnknown(t *testing.T, x *Index) {
	t.Helper()
	if n, known := x.Cached("b", Chain(nil, prompt(1, 200), 16, "")); n != 0 || known {
		t.Errorf("before there was a feed: %d, %t", n, known)
	}
}

func TestAfterEvictionBlocksAreGone(t *testing.T) {
	s := start(t, vllmsim.Options{BlocksOverride: 12})
	x := New(Options{Replay: replays(s)})
	follow(t, x, s.KVEventsEndpoint(0))
	has(t, x, "it is up", prompt(1, 90), "", 0, true)
	send(t, s, -1, prompt(1, 90), "")
	has(t, x, "the first", prompt(1, 90), "", 80, true)
	send(t, s, -1, prompt(2, 90), "")
	has(t, x, "the second", prompt(2, 90), "", 80, true)
	send(t, s, -1, prompt(3, 150), "")
	has(t, x, "the third", prompt(3, 150), "", 144, true)
	has(t, x, "what made room for it", prompt(1, 90), "", 0, true)
	// The index and the cache agree on every block.
	b := x.backends["b"]
	expect(t, "blocks", b.blocks, int(testutil.ToFloat64(x.met.blocks)))
	if b.blocks > 11 {
		t.Errorf("%d blocks of 11", b.blocks)
	}
}

func TestAfterARestartNothingIsBelieved(t *testing.T) {
	s := start(t, vllmsim.Options{})
	x := New(Options{Replay: replays(s)})
	follow(t, x, s.KVEventsEndpoint(0))
	has(t, x, "it is up", prompt(1, 90), "", 0, true)
	send(t, s, -1, prompt(1, 90), "")
	has(t, x, "the first", prompt(1, 90), "", 80, true)
	if err := s.SetFault(vllmsim.Fault{Die: true, DownSeconds: 100}); err != nil {
		t.Fatal(err)
	}
	has(t, x, "it is down", prompt(1, 90), "", 0, false)
	has(t, x, "it is back, and empty", prompt(1, 90), "", 0, true)
	send(t, s, -1, prompt(2, 90), "")
	has(t, x, "what came after", prompt(2, 90), "", 80, true)
}

func TestACutIsHealedByAReplay(t *testing.T) {
	s := start(t, vllmsim.Options{})
	x := New(Options{Replay: replays(s)})
	follow(t, x, s.KVEventsEndpoint(0))
	send(t, s, -1, prompt(1, 90), "")
	has(t, x, "the first", prompt(1, 90), "", 80, true)
	if err := s.SetFault(vllmsim.Fault{Refuse: true, DownSeconds: 100}); err != nil {
		t.Fatal(err)
	}
	has(t, x, "it is cut off", prompt(1, 90), "", 0, false)
	has(t, x, "the engine lives on", prompt(1, 90), "", 80, true)
}

func TestAFeedThatBeginsInTheMiddleKnowsWhatItHears(t *testing.T) {
	s := start(t, vllmsim.Options{})
	send(t, s, -1, prompt(1, 90), "")
	x, y := New(Options{}), New(Options{Replay: replays(s)})
	follow(t, x, s.KVEventsEndpoint(0))
	follow(t, y, s.KVEventsEndpoint(0))
	has(t, y, "replayed", prompt(1, 90), "", 80, true)
	hears(t, x, 1)
	n := 0
	eventually(t, "it hears", func() bool { // as soon as the subscription has arrived
		n++
		send(t, s, -1, prompt(1+n, 90), "")
		tokens, known := x.Cached("b", Chain(nil, prompt(1+n, 90), 16, ""))
		return tokens == 80 && known
	})
	has(t, x, "it does not know of what was before", prompt(1, 90), "", 0, false)
	send(t, s, -1, append(prompt(1, 90), ids(30)...), "")
	eventually(t, "a block after one that is not known is passed over", func() bool { return x.count(kindOrphan) == 1 })
}

func TestEveryRankIsFollowedOnItsPort(t *testing.T) {
	s := start(t, vllmsim.Options{DataParallelSize: 2})
	x := New(Options{Replay: func(endpoint string) string {
		for rank := range 2 {
			if endpoint == s.KVEventsEndpoint(rank) {
				return s.KVReplayEndpoint(rank)
			}
		}
		return ""
	}})
	follow(t, x, s.KVEventsEndpoint(0))
	follow(t, x, s.KVEventsEndpoint(1))
	has(t, x, "both are up", prompt(1, 90), "", 0, true)
	send(t, s, 0, prompt(1, 40), "")
	has(t, x, "rank 0", prompt(1, 90), "", 32, true)
	send(t, s, 1, prompt(1, 90), "")
	has(t, x, "rank 1 has more", prompt(1, 90), "", 80, true)
	send(t, s, 0, prompt(2, 40), "")
	has(t, x, "rank 0, another", prompt(2, 90), "", 32, true)
}

// gate is a connection that nothing is read from while it is shut.
type gate struct {
	net.Conn
	mu *sync.Mutex
}

func (g *gate) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Conn.Read(p)
}

func TestASlowSubscriberMissesMessagesAndSaysSo(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	for _, replay := range []bool{true, false} {
		t.Run(fmt.Sprintf("replay %t", replay), func(t *testing.T) {
			s := start(t, vllmsim.Options{BlocksOverride: 1 << 17, MaxBatchedTokens: 1 << 17, KVEvents: vllmsim.KVEvents{HWM: 1}})
			var shut sync.Mutex
			o := Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				if tcp, ok := c.(*net.TCPConn); ok && "tcp://"+addr == s.KVEventsEndpoint(0) {
					return &gate{tcp, &shut}, tcp.SetReadBuffer(64 << 10)
				}
				return c, err
			}}
			if replay {
				o.Replay = replays(s)
			}
			x := New(o)
			follow(t, x, s.KVEventsEndpoint(0))
			hears(t, x, 1)
			n := 0
			eventually(t, "it hears", func() bool {
				n++
				send(t, s, -1, prompt(n, 40), "")
				tokens, known := x.Cached("b", Chain(nil, prompt(n, 40), 16, ""))
				return tokens == 32 && known
			})
			// The read under way lets the next message through, and the gate shuts behind it.
			locked := make(chan struct{})
			go func() { shut.Lock(); close(locked) }()
			eventually(t, "the gate is shut", func() bool {
				n++
				send(t, s, -1, prompt(n, 40), "")
				select {
				case <-locked:
					return true
				default:
					return false
				}
			})
			// 9 MB: Linux lets the sending socket of a connection that stands still grow to 4 MB,
			// and ours receives 64 kB.
			for range 60 {
				n++
				send(t, s, -1, prompt(n, 30000), "")
			}
			shut.Unlock()
			eventually(t, "it knows that it missed some", func() bool {
				n++
				send(t, s, -1, prompt(n, 40), "")
				return x.count(kindGap) > 0
			})
			eventually(t, "it goes on", func() bool { // a message that is missed shows with the next one alone
				n++
				send(t, s, -1, prompt(n, 40), "")
				tokens, known := x.Cached("b", Chain(nil, prompt(n, 40), 16, ""))
				return tokens == 32 && known
			})
			tokens, known := x.Cached("b", Chain(nil, prompt(n-10, 40), 16, ""))
			if replay && tokens != 32 || !replay && tokens == 0 && known {
				t.Errorf("of the one before: %d, %t", tokens, known)
			}
		})
	}
}

// stranger is a publisher that shares nothing with ours.
func stranger(t *testing.T) (zmq4.Socket, string) {
	t.Helper()
	pub := zmq4.NewPub(t.Context())
	if err := pub.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pub.Close() })
	return pub, "tcp://" + pub.Addr().String()
}

func publish(t *testing.T, pub zmq4.Socket, seq uint64, payload []byte) {
	t.Helper()
	if err := pub.SendMulti(zmq4.NewMsgFrom([]byte("kv"), binary.BigEndian.AppendUint64(nil, seq), payload)); err != nil {
		t.Fatal(err)
	}
}

func TestAGapOrABadMessageForgetsAll(t *testing.T) {
	pub, at := stranger(t)
	x := New(Options{})
	follow(t, x, at)
	eventually(t, "it subscribes", func() bool { return len(pub.(zmq4.Topics).Topics()) == 1 })
	one := func(h uint64) []byte { return batch(t, stored([]uint64{h}, nil, []int{int(h)}, nil)) }
	knows := func(what, want string, token int32) {
		t.Helper()
		eventually(t, what, func() bool { return cached(x, "", token) == want })
	}
	publish(t, pub, 0, one(1))
	publish(t, pub, 1, one(2))
	knows("the second", "1 true", 2)
	expect(t, "the first", cached(x, "", 1), "1 true")
	publish(t, pub, 3, one(4))
	knows("after a gap", "1 true", 4)
	expect(t, "before it", cached(x, "", 1), "0 false")
	publish(t, pub, 4, []byte("what?"))
	knows("after a bad one", "0 false", 4)
	publish(t, pub, 5, one(6))
	knows("and then", "1 true", 6)
	publish(t, pub, 0, one(7))
	knows("numbers begin anew", "1 true", 7)
	expect(t, "before that", cached(x, "", 6), "0 true")
	if err := pub.SendMulti(zmq4.NewMsgFrom([]byte("kv"), []byte("short"), one(8))); err != nil {
		t.Fatal(err)
	}
	knows("after one of another shape", "0 false", 7)
	expect(t, "gaps, bad ones", []float64{x.count(kindGap), x.count(kindBad)}, []float64{2, 2})
}

func TestWhatIsNoPublisherIsTriedAgain(t *testing.T) {
	greeting := "\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x03\x00NULL" + strings.Repeat("\x00", 48) + "\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
	for name, said := range map[string]string{
		"http": "HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat(" ", 64), "curve": strings.Replace(greeting, "NULL", "CURV", 1),
		"no ready": greeting[:64] + "\x04\x04\x03SAY", "a message first": greeting[:64] + "\x00\x01a",
		"a huge frame": greeting + "\x02\x7f\xff\xff\xff\xff\xff\xff\xff", "one too many": greeting + strings.Repeat("\x01\x00", 9),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			tries := make(chan struct{}, 100)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = c.Write([]byte(said))
					tries <- struct{}{}
					go func() { _, _ = io.Copy(io.Discard, c); _ = c.Close() }()
				}
			}()
			x := New(Options{})
			follow(t, x, "tcp://"+l.Addr().String())
			eventually(t, "it has come twice", func() bool { return len(tries) > 1 })
			expectUnknown(t, x)
			_ = l.Close()
		})
	}
}

func TestAnEndpointThatIsNoneIsRefused(t *testing.T) {
	x := New(Options{})
	for _, at := range []string{"", "ipc://x", "tcp://host", "http://host:1"} {
		if err := x.Follow(t.Context(), "b", at); err == nil {
			t.Errorf("%q", at)
		}
	}
	expect(t, "backends", len(x.backends), 0)
}
