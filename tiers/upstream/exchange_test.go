package upstream

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

func TestAnEngineIsToldWhoAsksAndWhichOfThemIsMeant(t *testing.T) {
	var got *http.Request
	var body []byte
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		write(w, "application/json", aWhole)
	})
	c := newClient(t, Options{})
	a := at(url, relay(t, aPlain))
	a.ID, a.Header = "own-1", http.Header{"Traceparent": {"00-1"}, "Content-Type": {"x"}}
	s := open(t, c, a)
	s.Close()
	head := fmt.Sprint(got.Method, " ", got.URL.Path, got.Header["X-Request-Id"], got.Header["Traceparent"], got.Header["Content-Type"])
	if want := "POST /v1/chat/completions[own-1] [00-1] [application/json]"; head != want {
		t.Errorf("%s, want %s", head, want)
	}
	if len(body) == 0 || int64(len(body)) != got.ContentLength {
		t.Errorf("%d bytes of %d", len(body), got.ContentLength)
	}
	if len(a.Header) != 2 || a.Header.Get("Content-Type") != "x" {
		t.Errorf("the attempt's header is now %v", a.Header)
	}
	s = open(t, c, at(url, relay(t, aPlain)))
	s.Close()
	if got.Header["X-Request-Id"] != nil {
		t.Errorf("told %v of nobody", got.Header)
	}
}

// connection names the connection of a request.
type connection struct{}

// counting is a server that knows its connections by their numbers.
func counting(t *testing.T, do func(w http.ResponseWriter, r *http.Request, conn int64)) string {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		do(w, r, r.Context().Value(connection{}).(int64))
	}))
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connection{}, n.Add(1))
	}
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func TestTheConnectionOfAnAnswerThatCameToItsEndIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		call func() engine.Call
		do   http.HandlerFunc
		read int // chunks; less than 0 is all
		kept bool
	}{
		"a stream": {func() engine.Call { return relay(t, aStream) }, func(w http.ResponseWriter, _ *http.Request) {
			say(w, aChunk, anEnd, itsUse, openai.Done)
		}, -1, true},
		"a stream with a tail": {func() engine.Call { return relay(t, aStream) }, func(w http.ResponseWriter, _ *http.Request) {
			say(w, aChunk, anEnd, openai.Done)
			_, _ = io.WriteString(w, ": bye\n\n")
		}, -1, true},
		"a stream that is left": {func() engine.Call { return relay(t, aStream) }, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			say(w, aChunk, aChunk)
			<-r.Context().Done()
		}, 1, false},
		"an answer in one piece": {func() engine.Call { return relay(t, aPlain) }, func(w http.ResponseWriter, _ *http.Request) {
			write(w, "application/json", aWhole)
		}, -1, true},
		"one that passes through": {func() engine.Call { return &engine.Forward{Path: "/v1/x", Into: new(engine.Forwarded)} }, func(w http.ResponseWriter, _ *http.Request) {
			write(w, "application/json", "{}")
		}, -1, true},
		"a stream that passes through": {func() engine.Call { return &engine.Forward{Path: "/v1/x", Into: new(engine.Forwarded)} }, func(w http.ResponseWriter, _ *http.Request) {
			say(w, aChunk, openai.Done)
		}, -1, true},
		"a refusal": {func() engine.Call { return relay(t, aPlain) }, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusServiceUnavailable)
		}, 0, true},
	} {
		var last, gone atomic.Int64
		url := counting(t, func(w http.ResponseWriter, r *http.Request, conn int64) {
			last.Store(conn)
			context.AfterFunc(r.Context(), func() { gone.Add(1) })
			tc.do(w, r)
		})
		c := newClient(t, Options{})
		for range 2 {
			s, err := c.Open(t.Context(), at(url, tc.call()))
			if err != nil {
				continue
			}
			for n := tc.read; n != 0; n-- {
				if _, err := s.Next(engine.WantTokens); err != nil {
					break
				}
			}
			s.Close()
			s.Close() // only the first counts
		}
		if kept := last.Load() == 1; kept != tc.kept {
			t.Errorf("%s: the second came on connection %d", name, last.Load())
		}
		eventually(t, name+": the engine is told of the end", func() bool { return gone.Load() == 2 })
	}
}

func TestABodyLeftOpenBehindItsEndHoldsNobodyUp(t *testing.T) {
	left := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		say(w, anEnd, openai.Done)
		<-r.Context().Done()
		close(left)
	})
	s := open(t, newClient(t, Options{}), at(url, relay(t, aStream)))
	if _, err := drain(s); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.Close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("closed after %v", took)
	}
	<-left
	if c, err := s.Next(engine.WantTokens); err != io.EOF {
		t.Errorf("behind the end: %v, %v", c, err)
	}
}

// TestAKeptConnectionThatBreaksAtOnceIsNobodysFault: a server may close one while it is idle, and whoever
// writes to it at that moment finds it broken. One that breaks later broke at work.
func TestAKeptConnectionThatBreaksAtOnceIsNobodysFault(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		kept  bool
		stale bool
		class engine.Class
	}{
		"kept, at once":    {0, true, true, engine.ClassNeutral},
		"kept, later":      {staleWithin, true, false, engine.ClassFault},
		"new, all at once": {0, false, false, engine.ClassFault},
	} {
		var clock, broken atomic.Int64
		url := counting(t, func(w http.ResponseWriter, _ *http.Request, _ int64) {
			if broken.Load() > 0 {
				clock.Add(int64(tc.after))
				panic(http.ErrAbortHandler)
			}
			write(w, "application/json", aWhole)
		})
		c := newClient(t, Options{Now: func() time.Time { return time.Unix(0, clock.Load()) }})
		if tc.kept {
			s := open(t, c, at(url, relay(t, aPlain)))
			s.Close()
		}
		broken.Store(1)
		_, err := c.Open(t.Context(), at(url, relay(t, aPlain)))
		f := failureOf(t, err)
		if f.ReusedConnection != tc.kept || f.StaleConnection != tc.stale || f.Responded != 0 || engine.Classify(f) != tc.class {
			t.Errorf("%s: kept %v, stale %v, class %d: %v", name, f.ReusedConnection, f.StaleConnection, engine.Classify(f), f)
		}
	}
}

func TestABreakBehindTheFirstByteIsNoneOfAKeptConnection(t *testing.T) {
	var broken atomic.Bool
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			cutShort("application/json")(w, nil)
		}
		write(w, "application/json", aWhole)
	})
	c := newClient(t, Options{})
	for range 2 {
		s, err := c.Open(t.Context(), at(url, relay(t, aPlain)))
		if err == nil {
			s.Close()
			broken.Store(true)
			continue
		}
		if f := failureOf(t, err); f.ReusedConnection || f.Kind != engine.Cut {
			t.Errorf("kept %v: %v", f.ReusedConnection, f)
		}
	}
}
