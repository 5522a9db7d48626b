package gateway

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is a client that writes the frames of HTTP/2 itself.
type frames struct {
	*http2.Framer
	t    *testing.T
	conn *tls.Conn
	next uint32 // id of the next stream

	mu       sync.Mutex
	settings map[http2.SettingID]uint32 // of the server
	status   map[uint32]string          // by stream; RST of one that was reset without an answer
}

// dialFrames opens a connection whose streams may each get so many bytes of an answer before they are read.
func dialFrames(t *testing.T, b *bench, window uint32) *frames {
	t.Helper()
	conn, err := tls.Dial("tcp", b.Addr().String(), &tls.Config{RootCAs: b.client.Transport.(*http.Transport).TLSClientConfig.RootCAs, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	f := &frames{Framer: http2.NewFramer(conn, conn), t: t, conn: conn, next: 1, settings: map[http2.SettingID]uint32{}, status: map[uint32]string{}}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	f.do(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	f.do(f.WriteWindowUpdate(0, 1<<30))
	return f
}

func (f *frames) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// request writes the head of a request, and returns its stream.
func (f *frames) request(method, path string, fields ...hpack.HeaderField) uint32 {
	f.t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, h := range append([]hpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "127.0.0.1"}, {Name: ":path", Value: path}}, fields...) {
		_ = enc.WriteField(h) // memory takes all
	}
	id := f.next
	f.next += 2
	first := block.Next(16 << 10)
	f.do(f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: first, EndStream: method == http.MethodGet, EndHeaders: block.Len() == 0}))
	for block.Len() > 0 {
		part := block.Next(16 << 10)
		f.do(f.WriteContinuation(id, block.Len() == 0, part))
	}
	return id
}

// jsonType is the field that a body needs.
var jsonType = hpack.HeaderField{Name: "content-type", Value: "application/json"}

// read reads frames until the connection ends. It gives no window back.
func (f *frames) read() {
	for {
		frame, err := f.ReadFrame()
		f.mu.Lock()
		switch x := frame.(type) {
		case *http2.SettingsFrame:
			_ = x.ForeachSetting(func(s http2.Setting) error { f.settings[s.ID] = s.Val; return nil })
		case *http2.MetaHeadersFrame:
			f.status[x.StreamID] = x.PseudoValue("status")
		case *http2.RSTStreamFrame:
			if f.status[x.StreamID] == "" {
				f.status[x.StreamID] = "RST"
			}
		}
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// says waits until a stream was answered, and returns its status.
func (f *frames) says(id uint32) (status string) {
	f.t.Helper()
	soon(f.t, "a stream is answered", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		status = f.status[id]
		return status != ""
	})
	return status
}

func TestWhatOneConnectionOfHTTP2MayUseIsBounded(t *testing.T) {
	t.Parallel()
	b := secureBench(t, simulator(t).URL(), true, func(o *Options) { o.Limits = Limits{Header: 8 << 10, InFlight: 400} })
	f := dialFrames(t, b, 1<<20)
	go f.read()
	if status := f.says(f.request(http.MethodGet, "/v1/models")); status != "200" {
		t.Errorf("status %s", status)
	}
	for id, want := range map[http2.SettingID]uint32{
		http2.SettingMaxConcurrentStreams: 250, http2.SettingInitialWindowSize: uploadWindow, http2.SettingMaxFrameSize: maxReadFrame, http2.SettingMaxHeaderListSize: 8<<10 + 320,
	} {
		if got := f.settings[id]; got != want {
			t.Errorf("%v is %d, want %d", id, got, want)
		}
	}
	var long []hpack.HeaderField
	for range 9 {
		long = append(long, hpack.HeaderField{Name: "x-long", Value: strings.Repeat("x", 1<<10)})
	}
	if status := f.says(f.request(http.MethodGet, "/v1/models", long...)); status != "431" {
		t.Errorf("a head that is too long: status %s", status)
	}
	if status := f.says(f.request(http.MethodGet, "/v1/models")); status != "200" {
		t.Errorf("a request after it: status %s", status)
	}
}

// TestAConnectionOfHTTP2ThatTakesNothingHoldsNoGeneration has flow control allow everything, and reads no byte of the
// connection. What ends the generation depends on the kernel's buffers: if the reset of its stream finds room there, the
// connection stays, otherwise it is closed.
func TestAConnectionOfHTTP2ThatTakesNothingHoldsNoGeneration(t *testing.T) {
	t.Parallel()
	url, left := flood(t)
	b := secureBench(t, url, true, func(o *Options) {
		o.Settings = setting(t, "timeout.write", "100ms")
	})
	f := dialFrames(t, b, 1<<30)
	id := f.request(http.MethodPost, "/v1/chat/completions", jsonType)
	f.do(f.WriteData(id, true, []byte(streamedChat)))
	select {
	case <-left:
	case <-time.After(20 * time.Second):
		t.Fatal("a client that reads nothing holds its generation")
	}
	soon(t, "nothing is under way", b.idle)
}

func TestRapidResetsTakeNoMoreThanOneConnectionsStreams(t *testing.T) {
	t.Parallel()
	b := secureBench(t, simulator(t).URL(), true, func(o *Options) { o.Limits = Limits{InFlight: 400} })
	f := dialFrames(t, b, 1<<20)
	go f.read()
	most := 0.0
	for range 3000 {
		id := f.request(http.MethodPost, "/v1/chat/completions", jsonType)
		if f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			break // the server has had enough
		}
		most = max(most, testutil.ToFloat64(b.metrics.inFlight))
	}
	if most > 250 {
		t.Errorf("%v requests at once, want at most 250", most)
	}
	soon(t, "nothing is under way", func() bool { return b.idle() && testutil.ToFloat64(b.metrics.inFlight) == 0 })
	b.reuses(t) // another client is served
}
