package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// twoTenants have no limits of their own.
var twoTenants = []identity.Tenant{{ID: "greedy"}, {ID: "other"}}

// dialTo opens a connection and sends something.
func dialTo(t *testing.T, addr net.Addr, text string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func (b *bench) dial(t *testing.T, text string) net.Conn { return dialTo(t, b.Addr(), text) }

// answerAt is the answer at a connection; its status is 0 where none comes in time.
func answerAt(conn net.Conn, wait time.Duration) (status int, body string) {
	_ = conn.SetReadDeadline(time.Now().Add(wait))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	body, _ = rest(resp) // what of it came
	return resp.StatusCode, body
}

// stalled sends a request of a tenant with so many bytes of its body, of which it claims more, and waits for its
// answer no longer than wait.
func (b *bench) stalled(t *testing.T, tenant string, claimed, sent int) (answer func(wait time.Duration) (status int, body string)) {
	t.Helper()
	conn := b.dial(t, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Tenant-ID: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		tenant, claimed, strings.Repeat(" ", sent)))
	return func(wait time.Duration) (int, string) { return answerAt(conn, wait) }
}

// TestATenantsPlaceIsTakenBeforeItsBodyIsRead has a tenant with one place send large bodies that do not come.
func TestATenantsPlaceIsTakenBeforeItsBodyIsRead(t *testing.T) {
	b := limited(t, simulator(t).URL(), nil, identity.Tenant{ID: "acme", Concurrent: 1}, identity.Tenant{ID: "other", Concurrent: 1})
	b.stalled(t, "acme", 1<<20, 1000)
	soon(t, "the second is refused, though nothing of it has come", func() bool {
		status, body := b.stalled(t, "acme", 1<<20, 0)(2 * time.Second)
		return status == http.StatusTooManyRequests && strings.Contains(body, "the limit is 1 at once")
	})
	if r := b.chat(t, "other", short); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
}

// TestStalledUploadsOfOneTenantLeaveRoomForOthers fills what one tenant can get.
func TestStalledUploadsOfOneTenantLeaveRoomForOthers(t *testing.T) {
	const inFlight = 30
	b := limited(t, simulator(t).URL(), func(o *Options) { o.Limits.InFlight = inFlight }, twoTenants...)
	for range 2 * inFlight {
		b.stalled(t, "greedy", 1000, 1)
	}
	soon(t, "the tenant gets no more", func() bool {
		status, _ := b.stalled(t, "greedy", 1000, 1)(time.Second / 4)
		return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
	})
	if r := b.chat(t, "other", short); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
}

// TestBodiesAreChargedAsTheyCome sends bodies that claim much: nobody pays for what has not come, and whoever has
// shown that it comes pays for all of it, until its request is over.
func TestBodiesAreChargedAsTheyCome(t *testing.T) {
	b := limited(t, simulator(t).URL(), func(o *Options) { o.Limits.Bodies = 9 << 20 }, twoTenants...)
	const claimed = 4 << 20
	bytesHeld := func() int64 { return b.held().bytes }
	b.stalled(t, "greedy", claimed, 0)
	soon(t, "a claim costs next to nothing", func() bool { return bytesHeld() == minBuffer })
	b.stalled(t, "greedy", claimed, maxUnproved)
	soon(t, "a body that comes is charged whole", func() bool { return bytesHeld() == minBuffer+claimed })
	status, body := b.stalled(t, "greedy", claimed/2, maxUnproved)(20 * time.Second)
	if status != http.StatusTooManyRequests || !strings.Contains(body, `"code":"tenant_share"`) {
		t.Errorf("beyond its share: %d %s", status, body)
	}
	if r := b.chat(t, "other", `,"pad":"`+strings.Repeat("x", 1<<20)+`","max_tokens":2`); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
	status, body = b.stalled(t, "other", 4<<20+500<<10, maxUnproved)(20 * time.Second)
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of more than half of the budget: %d %s", status, body)
	}
}

func TestSpentBytesAreToldAsTheGatewaysOwnLack(t *testing.T) {
	b := limited(t, simulator(t).URL(), func(o *Options) { o.Limits.Bodies = 3 << 20 }, twoTenants...)
	b.stalled(t, "greedy", 1<<20, maxUnproved)
	soon(t, "the first is charged", func() bool { return b.held().bytes >= 1<<20 })
	b.stalled(t, "other", 1<<20, maxUnproved)
	soon(t, "the second is charged", func() bool { return b.held().bytes >= 2<<20 })
	r := b.to(t, chatPath, "third", `{"model":"llama-3","pad":"`+strings.Repeat("x", 1<<20)+`"}`)
	kind, code, _ := r.says()
	if r.status != http.StatusServiceUnavailable || kind != "overloaded_error" || code != "upload_overloaded" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if n := r.seconds(t); n < 1 || n > 10 {
		t.Errorf("retry after %d s", n)
	}
	if r := b.chat(t, "third", short); r.status != http.StatusOK {
		t.Errorf("a small one: %d %s", r.status, r.body)
	}
}

// TestATranslationIsChargedBeforeItIsMade sends a body of very many objects, which would take hundreds of times its length: no
// retry can help.
func TestATranslationIsChargedBeforeItIsMade(t *testing.T) {
	b := limited(t, simulator(t).URL(), func(o *Options) { o.Limits.Bodies = 32 << 20 }, twoTenants...)
	for path, c := range map[string]struct{ head, tail string }{
		messagesPath:  {`{"model":"llama-3","max_tokens":2,"messages":[`, `{"role":"user","content":"hi"}]}`},
		responsesPath: {`{"model":"llama-3","max_output_tokens":2,"input":[`, `{"role":"user","content":"hi"}]}`},
	} {
		r := b.to(t, path, "greedy", c.head+strings.Repeat("{},", 1<<18)+c.tail)
		_, code, message := r.says()
		if r.status != http.StatusRequestEntityTooLarge || code != "body_too_large" || message != errTranslation.body.Message || r.head.Get("Retry-After") != "" {
			t.Errorf("%s: %d %v %s", path, r.status, r.head, r.body)
		}
		r = b.to(t, path, "greedy", c.head+`{"role":"user","content":"`+strings.Repeat("[{,", 1<<15)+`"},`+c.tail)
		if r.status != http.StatusOK {
			t.Errorf("%s: a long text: %d %s", path, r.status, r.body)
		}
	}
	soon(t, "all is given back", b.idle)
}

// TestATranslationThatFitsAnIdleGatewayIsMadeThere sends what is long and has few values. Beside an upload of the same tenant
// it does not fit, and the client is told to try again.
func TestATranslationThatFitsAnIdleGatewayIsMadeThere(t *testing.T) {
	b := limited(t, speaker(nil).start(t), func(o *Options) {
		o.Limits.Bodies = 8 << 20
		o.Scan.Allow = func(string) []string { return []string{"image_url", "image", "input_image"} }
	}, twoTenants...)
	data := strings.Repeat("AAAA", 3<<16)
	bodies := map[string]string{
		chatPath:      `{"model":"llama-3","max_tokens":2,"messages":[{"role":"user","content":"` + data + `"}]}`,
		messagesPath:  `{"model":"llama-3","max_tokens":2,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}]}]}`,
		responsesPath: `{"model":"llama-3","max_output_tokens":2,"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + data + `"}]}]}`,
	}
	for path, body := range bodies {
		if r := b.to(t, path, "greedy", body); r.status != http.StatusOK {
			t.Errorf("%s: %d %.300s", path, r.status, r.body)
		}
	}
	soon(t, "all is given back", b.idle)
	b.stalled(t, "greedy", 1<<20, maxUnproved)
	soon(t, "the upload is charged", func() bool { return b.held().bytes >= 1<<20 })
	r := b.to(t, responsesPath, "greedy", bodies[responsesPath])
	if _, code, _ := r.says(); r.status != http.StatusTooManyRequests || code != "tenant_share" || r.head.Get("Retry-After") == "" {
		t.Errorf("beside an upload: %d %v %s", r.status, r.head, r.body)
	}
}

// TestABodyStaysChargedWhileItsAnswerIsMade lets a generation hang.
func TestABodyStaysChargedWhileItsAnswerIsMade(t *testing.T) {
	sim := simulator(t)
	sim.SetFault(vllmsim.Fault{Hang: "stream", AfterTokens: 3})
	b := startBench(t, sim.URL(), nil)
	stream := b.ask(t, true, 1000)
	if got := b.held(); got.requests != 1 || got.bytes == 0 {
		t.Errorf("%+v", got)
	}
	_ = stream.Body.Close()
	soon(t, "all is given back", b.idle)
}

// TestGenerationsOfOneTenantLeaveRoomForOthers lets the generations of one tenant hang.
func TestGenerationsOfOneTenantLeaveRoomForOthers(t *testing.T) {
	sim := simulator(t)
	sim.SetFault(vllmsim.Fault{Hang: "stream", AfterTokens: 1})
	b := limited(t, sim.URL(), func(o *Options) { o.Limits.InFlight = 3 }, twoTenants...)
	for range 2 {
		go func() {
			_, _ = b.do(newRequest(t.Context(), http.MethodPost, b.url+chatPath, streamedChat, jsonOf("greedy")...))
		}()
	}
	soon(t, "both are under way", func() bool { return b.held().requests == 2 })
	r := b.chat(t, "greedy", short)
	if _, code, _ := r.says(); r.status != http.StatusTooManyRequests || code != "tenant_share" {
		t.Errorf("its third: %d %s", r.status, r.body)
	}
	sim.SetFault(vllmsim.Fault{})
	if r := b.chat(t, "other", short); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
}

// TestABodyThatNobodyReadsHoldsNoPlace takes all places of a listener by requests whose bodies never come, on paths
// that read none.
func TestABodyThatNobodyReadsHoldsNoPlace(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/livez", "/v1/models"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			g := startBench(t, simulator(t).URL(), func(o *Options) {
				o.Limits.Conns = 16
				o.Settings = setting(t, "timeout.write", "1m")
			})
			var conns []net.Conn
			for range 16 {
				conns = append(conns, g.dial(t, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n", path)))
			}
			for _, conn := range conns {
				if status, _ := answerAt(conn, 10*time.Second); status == 0 {
					t.Fatal("no answer")
				}
			}
			soon(t, "somebody else is served", func() bool { return reach(t, g.url+"/livez") == nil })
		})
	}
}

// TestAnswersThatNobodyReadsHoldNoPlace sends requests one behind the other, and reads no answer.
func TestAnswersThatNobodyReadsHoldNoPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	g := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Settings = setting(t, "timeout.write", "200ms")
	})
	const bad = "{}"
	for name, request := range map[string]string{
		"a probe":   "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a refusal": fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(bad), bad),
	} {
		conn, err := g.dial(t, request), error(nil)
		_ = conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
		for many := strings.Repeat(request, 100); err == nil; {
			_, err = conn.Write([]byte(many))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is still held", name)
		}
	}
}

// TestWhatIsRefusedHoldsNoPlaceForTheRestOfItsBody sends more of a body than may be, but not its end.
func TestWhatIsRefusedHoldsNoPlaceForTheRestOfItsBody(t *testing.T) {
	t.Parallel()
	o, _, _ := openGuarded(t, true)
	for _, path := range []string{"/admin/settings", "/admin/drain?backend=h100"} {
		conn := dialTo(t, o.AdminAddr(), fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
			path, adminToken, maxActionBytes+1, strings.Repeat("x", maxActionBytes+1)))
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // a sixth of what a body may take
		all, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(all), "HTTP/1.1 413 ") || err != nil {
			t.Errorf("%s: %.20q, and the connection ends with %v", path, all, err)
		}
	}
}

// TestHowLongABodyIsWaitedForIsLive sends a request without its body, and one whose body
// comes fast enough and never ends, while the timeouts change.
func TestHowLongABodyIsWaitedForIsLive(t *testing.T) {
	live, set := liveSettings(t)
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Settings = live })
	for _, wait := range []time.Duration{100 * time.Millisecond, 800 * time.Millisecond} {
		set("timeout.body", wait.String())
		for name, send := range map[string]string{"nothing comes": "", "it never comes": `{"model":"llama-3",` + strings.Repeat(" ", 2000)} {
			began := time.Now()
			conn := g.dial(t, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"+send)
			status, body := answerAt(conn, 20*time.Second)
			if took := time.Since(began); status != http.StatusRequestTimeout || took < wait || took > wait+3*time.Second {
				t.Errorf("%s: status %d after %v, want 408 after %v: %s", name, status, took, wait, body)
			}
		}
	}
}

// reach asks a listener for a page that needs no identity, from an address of its own.
func reach(t *testing.T, url string) error {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.9")}, Timeout: 5 * time.Second}
	b := &bench{client: &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}, Timeout: 5 * time.Second}}
	r, err := b.do(newRequest(t.Context(), http.MethodGet, url, ""))
	if err == nil && r.status != http.StatusOK {
		err = fmt.Errorf("%d %s", r.status, r.body)
	}
	return err
}

func TestProbesOfTheOperatorsListenerAnswerWhileIdleConnectionsTakeThePublicOne(t *testing.T) {
	const places = 16
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Limits.Conns = places })
	stream := g.ask(t, true, 200)
	var idle []net.Conn
	for range 3 * places {
		idle = append(idle, g.dial(t, ""))
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if err := reach(t, g.admin+path); err != nil {
			t.Error(err)
		}
	}
	soon(t, "the public listener is full", func() bool { return testutil.ToFloat64(g.metrics.conns) == places })
	if body, err := rest(stream); err != nil || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("a stream was cut: %v, …%s", err, body[max(0, len(body)-80):])
	}
	for _, c := range idle {
		_ = c.Close()
	}
	if err := reach(t, g.url+"/readyz"); err != nil {
		t.Errorf("when they have gone: %v", err)
	}
	soon(t, "closed connections are not counted", func() bool { return testutil.ToFloat64(g.metrics.conns) <= 2 })
}

func TestTheAdminListenerHoldsABoundOfConnections(t *testing.T) {
	g := startBench(t, simulator(t).URL(), nil)
	var idle []net.Conn
	for range maxAdminConns {
		idle = append(idle, dialTo(t, g.AdminAddr(), ""))
	}
	next := dialTo(t, g.AdminAddr(), "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	if status, _ := answerAt(next, 200*time.Millisecond); status != 0 {
		t.Errorf("one more is served: %d", status)
	}
	_ = idle[0].Close()
	if status, _ := answerAt(next, 20*time.Second); status != http.StatusOK {
		t.Errorf("in the place of one that has gone: %d", status)
	}
}

func TestAConnectionThatSendsNothingIsClosed(t *testing.T) {
	g := makeBench(t, simulator(t).URL(), nil)
	for idle, l := range map[time.Duration]listener{620 * time.Second: g.public, 20 * time.Second: g.Gateway.admin} {
		if s := l.server; s.ReadHeaderTimeout != 5*time.Second || s.IdleTimeout != idle || s.MaxHeaderBytes != 16<<10 {
			t.Errorf("%v for a head of %d bytes, %v between requests", s.ReadHeaderTimeout, s.MaxHeaderBytes, s.IdleTimeout)
		}
	}
}

func TestAWrongKeyIsAlwaysA401(t *testing.T) {
	g := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Identity = callers(t, identity.Options{Mode: identity.Keys, Tenants: []identity.Tenant{{ID: "acme", KeySHA256: [][32]byte{{1}}}}})
	})
	for i := range 30 {
		if r := g.call(t, http.MethodGet, g.url+"/v1/models", "", bearer("wrong")...); r.status != http.StatusUnauthorized || r.head.Get("Connection") == "close" {
			t.Fatalf("try %d: %d %v %s", i, r.status, r.head, r.body)
		}
	}
}

// TestAClientThatHangsUpBeforeTheFirstByteGetsNoTokensBack asks twice for most of a minute's tokens. The first time
// the client leaves while the engine works.
func TestAClientThatHangsUpBeforeTheFirstByteGetsNoTokensBack(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		chatPath:          `{"model":"llama-3","max_tokens":9000,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/completions": `{"model":"llama-3","max_tokens":9000,"prompt":"hi","stream":true}`,
		responsesPath:     `{"model":"llama-3","max_output_tokens":9000,"input":"hi","top_logprobs":2}`,
	} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			e := newPacedEngine(t)
			b := limited(t, e.url, func(o *Options) { o.Forward = []string{responsesPath} }, identity.Tenant{ID: "acme", TPM: 10_000})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			var first sync.WaitGroup
			first.Go(func() {
				if r, err := b.do(newRequest(ctx, http.MethodPost, b.url+path, body, jsonOf("acme")...)); err == nil {
					t.Errorf("%d %s before the client left", r.status, r.body)
				}
			})
			expect(t, "the engine is asked", e.arrived)
			leave()
			expect(t, "the engine is told to stop", e.left)
			first.Wait()
			soon(t, "nothing is under way", b.idle)
			r := b.to(t, path, "acme", body)
			if kind, _, _ := r.says(); r.status != http.StatusTooManyRequests || kind != "tokens" {
				t.Errorf("as many tokens once more: %d %s", r.status, r.body)
			}
		})
	}
}
