package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/answer"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

var soakFor = flag.Duration("soak", 3*time.Second, "how long the soak test lasts")

const (
	soakClients = 16
	soakPrompts = 40
	soakOverrun = 8  // words
	soakSlack   = 20 // goroutines, and files: connections to Redis come and go
)

// flaky is the network before one engine: it resets, cuts, stalls, slows and answers for the engine, at random.
type flaky struct {
	engine string // host:port
	faults *atomic.Bool
	count  *atomic.Int64
}

// newFlaky starts one; it ends with the test.
func newFlaky(t *testing.T, engine *vllmsim.Server, faults *atomic.Bool, count *atomic.Int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &flaky{engine: strings.TrimPrefix(engine.URL(), "http://"), faults: faults, count: count}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { f.pass(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { // the gateway has stopped, so its connections have ended
		_ = l.Close()
		conns.Wait()
	})
	return "http://" + l.Addr().String()
}

// pass connects a connection with the engine.
func (f *flaky) pass(down *net.TCPConn) {
	defer func() { _ = down.Close() }()
	conn, err := net.Dial("tcp", f.engine)
	if err != nil {
		return
	}
	up := conn.(*net.TCPConn)
	ended := make(chan struct{})
	go func() { // requests
		defer close(ended)
		buf := make([]byte, 32<<10)
		for {
			n, err := down.Read(buf)
			if err != nil || !f.request(down, buf[:n]) {
				break
			}
			if _, err := up.Write(buf[:n]); err != nil {
				break
			}
		}
		_ = up.Close()
	}()
	buf := make([]byte, 4<<10)
	for {
		n, err := up.Read(buf)
		if err != nil || !f.response(down, buf[:n], ended) {
			break
		}
	}
	_ = up.Close()
	_ = down.Close()
	<-ended
}

// chance is true once in n times while there are faults.
func (f *flaky) chance(n int) bool {
	if !f.faults.Load() || rand.IntN(n) > 0 {
		return false
	}
	f.count.Add(1)
	return true
}

// request may answer a part of a request in the place of the engine. It reports whether the engine gets it.
func (f *flaky) request(down *net.TCPConn, part []byte) bool {
	if !bytes.HasPrefix(part, []byte("POST")) || !f.chance(30) {
		return true
	}
	_, _ = io.WriteString(down, []string{
		"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n-1\r\n",
		"\x15\x03\x01\x00\x02\x02\x46",
		"",
	}[rand.IntN(6)])
	_ = down.CloseWrite()
	return false
}

// response passes a part of a response on, or does what networks do. It reports whether the connection goes on.
func (f *flaky) response(down *net.TCPConn, part []byte, ended <-chan struct{}) bool {
	switch {
	case f.chance(150): // resets
		_ = down.SetLinger(0)
		return false
	case f.chance(150): // cuts
		_, _ = down.Write(part[:rand.IntN(len(part))])
		return false
	case f.chance(300): // stalls until the gateway leaves
		_, _ = down.Write(part[:rand.IntN(len(part))])
		<-ended
		return false
	case f.chance(300): // says more than it was asked
		_, _ = down.Write(append(part, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"...))
		return false
	case f.chance(100): // is slow
		for len(part) > 0 {
			n := min(len(part), 1+rand.IntN(40))
			if _, err := down.Write(part[:n]); err != nil {
				return false
			}
			part = part[n:]
			runtime.Gosched()
		}
		return true
	}
	_, err := down.Write(part)
	return err == nil
}

// soaked is the world of the soak test.
type soaked struct {
	*apptest.Replica
	want   map[string]string // the target's text to each prompt
	client *http.Client

	whole, failed, left atomic.Int64
	overran             atomic.Int64 // whole answers with a few tokens more than max_tokens
}

func soakBody(model, prompt string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":40,"temperature":0,"stream":%v}`, model, prompt, stream)
}

// TestNothingIsLostOrLeftInALongRunWithFaults drives a whole replica: engines behind networks that fail in every way, clients
// that leave, a Redis that stops and goes on. -soak says for how long.
func TestNothingIsLostOrLeftInALongRunWithFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	store := redistest.Start(t)
	for name, value := range map[string]string{"timeout.draft_first_token": "2s", "timeout.target_first_token": "3s", "timeout.stream_idle": "2s"} {
		store.Do("HSET", "foregate:settings", name, value)
	}
	sim := func(divergence float64) *vllmsim.Server {
		return vllmsim.Start(t, vllmsim.Options{Model: "m", Divergence: divergence, Seed: simSeed, TimeScale: 500})
	}
	draft, target := sim(0.2), sim(0)
	var faults atomic.Bool
	var count atomic.Int64
	behind := func(s *vllmsim.Server) string { return newFlaky(t, s, &faults, &count) }
	w := &soaked{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: soakClients}}}
	w.Replica = apptest.Serve(t, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools:
  small: {model: m, backends: [%q, %q]}
  large: {model: m, backends: [%q, %q, %q]}
routes: [{model: soak, draft: small, target: large}]
drain: {delay: 0s, grace: 5s}
`, store.Addr, behind(draft), behind(draft), behind(target), behind(sim(0)), behind(sim(0))))
	w.Ready(t)
	w.learn(t, target)
	w.load(t, time.Second) // without faults
	if w.failed.Load() > 0 {
		t.Fatalf("%d requests failed without a fault", w.failed.Load())
	}
	routines, files := w.rest(t, func(int, int) bool { return true })

	faults.Store(true)
	ctx, stop := context.WithCancel(t.Context())
	var redis sync.WaitGroup
	redis.Go(func() {
		for ctx.Err() == nil {
			store.Freeze()
			<-time.After(time.Duration(rand.IntN(500)) * time.Millisecond)
			store.Thaw()
			<-time.After(time.Duration(500+rand.IntN(1500)) * time.Millisecond)
		}
	})
	w.load(t, *soakFor)
	stop()
	redis.Wait()
	faults.Store(false)
	t.Logf("%d answers are whole, %d are errors, %d clients left, under %d faults; %d answers are longer than max_tokens",
		w.whole.Load(), w.failed.Load(), w.left.Load(), count.Load(), w.overran.Load())
	if count.Load() == 0 || w.whole.Load() == 0 {
		t.Error("nothing was shown")
	}
	if n := w.overran.Load(); n > w.whole.Load()/1000 {
		t.Errorf("%d answers are longer than max_tokens", n)
	}
	w.rest(t, func(r, f int) bool {
		if r > routines+soakSlack || f > files+soakSlack {
			t.Logf("%d goroutines, %d before; %d files, %d before", r, routines, f, files)
			return false
		}
		return true
	})
	apptest.Within(t, time.Minute, "all backends are used again", func() bool { // breakers have to close
		status, _, _ := apptest.Send(t, http.MethodPost, w.URL+"/v1/chat/completions", soakBody("soak", "again", false), "X-Tier", "target", "Cache-Control", "no-store")
		return status == http.StatusOK
	})
	for prompt := range w.want {
		w.ask(t, prompt, true)
	}
}

// learn asks the target itself.
func (w *soaked) learn(t *testing.T, target *vllmsim.Server) {
	t.Helper()
	w.want = map[string]string{}
	for i := range soakPrompts {
		prompt := fmt.Sprintf("question %d: %s", i, strings.Repeat("and more of it, ", rand.IntN(rand.IntN(2000)+1)))
		got, _ := apptest.Post(t, target.URL()+"/v1/chat/completions", soakBody("m", prompt, false))
		var a answer.Answer
		if err := a.Whole(strings.NewReader(got)); err != nil {
			t.Fatal(err)
		}
		w.want[prompt] = a.Text.String()
	}
}

// ask makes a request and checks its answer: it is whole, or a well-formed error.
func (w *soaked) ask(t *testing.T, prompt string, patient bool) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	leaves := !patient && rand.IntN(6) == 0
	if leaves {
		timer := time.AfterFunc(time.Duration(rand.IntN(60))*time.Millisecond, cancel)
		defer timer.Stop()
	}
	stream, target := rand.IntN(2) == 0, rand.IntN(2) == 0
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/v1/chat/completions", strings.NewReader(soakBody("soak", prompt, stream)))
	if err != nil {
		t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if target {
		req.Header.Set("X-Tier", "target")
	}
	if rand.IntN(2) == 0 {
		req.Header.Set("Cache-Control", "no-store")
	}
	resp, err := w.client.Do(req)
	var a answer.Answer
	if err == nil {
		if stream && resp.StatusCode == http.StatusOK {
			err = a.Stream(resp.Body)
		} else {
			err = a.Whole(resp.Body)
		}
		_ = resp.Body.Close()
	}
	switch ended := a.Finishes == 1 && (!stream || a.Dones == 1); {
	case leaves && ctx.Err() != nil:
		w.left.Add(1)
	case a.Failed != "" && !patient && (resp.StatusCode != http.StatusOK || a.Dones == 0) && json.Valid([]byte(a.Failed)): // in a stream the end of the connection follows
		w.failed.Add(1)
	case err != nil:
		t.Errorf("the client gets %v; stream %v, target %v, %d pieces, %d [DONE]; %s", err, stream, target, a.Pieces, a.Dones, a.Bad)
	case resp.StatusCode != http.StatusOK || a.Failed != "" || !ended:
		t.Errorf("status %d, stream %v, %d finish reasons, %d [DONE], error %q", resp.StatusCode, stream, a.Finishes, a.Dones, a.Failed)
	case target && !w.isTargets(prompt, a.Text.String()):
		t.Errorf("the target's text is %q, want %q", a.Text.String(), w.want[prompt])
	default:
		w.whole.Add(1)
	}
}

// isTargets reports whether a text is the target's. An answer may be longer than max_tokens by the tokens that the gateway
// could not count: a chunk counts as one token if no engine can be asked (docs/concepts.md, Design decisions).
func (w *soaked) isTargets(prompt, text string) bool {
	more, ok := strings.CutPrefix(text, w.want[prompt])
	if more != "" {
		w.overran.Add(1)
	}
	return ok && len(strings.Fields(more)) <= soakOverrun
}

// load asks from many clients until the time is over.
func (w *soaked) load(t *testing.T, d time.Duration) {
	t.Helper()
	prompts := make([]string, 0, len(w.want))
	for p := range w.want {
		prompts = append(prompts, p)
	}
	var clients sync.WaitGroup
	end := time.Now().Add(d)
	for range soakClients {
		clients.Go(func() {
			for time.Now().Before(end) && !t.Failed() {
				w.ask(t, prompts[rand.IntN(len(prompts))], false)
			}
		})
	}
	clients.Wait()
}

// rest waits until nothing is under way, and returns what the process holds then.
func (w *soaked) rest(t *testing.T, done func(routines, files int) bool) (routines, files int) {
	t.Helper()
	w.client.CloseIdleConnections()
	apptest.Client.CloseIdleConnections()
	idle := regexp.MustCompile(`(?m)^foregate_(backend_)?requests_in_flight(\{[^}]*\})? [1-9]`)
	apptest.Within(t, time.Minute, "the replica rests and has nothing left", func() bool {
		busy := idle.MatchString(w.Metrics(t))
		apptest.Client.CloseIdleConnections()
		runtime.GC()
		routines, files = runtime.NumGoroutine(), countFiles(t)
		return !busy && done(routines, files)
	})
	return routines, files
}

func countFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("the system does not tell of open files")
	}
	return len(all)
}
