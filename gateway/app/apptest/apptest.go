// Package apptest runs replicas within the process of a test, on the loopback, and asks them over
// HTTP. Start at [Serve].
package apptest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/stores"
)

const (
	stopWait  = 20 * time.Second // for a replica to stop
	pollEvery = 10 * time.Millisecond
)

// Replica is a running replica.
type Replica struct {
	*app.App
	URL, Admin string // of its two listeners
	Address    string // host and port of URL
	Log        *Log

	stop  context.CancelFunc
	ended chan struct{} // closed when it has stopped
	err   error         // how it ended
}

// Serve runs a replica of a configuration until the test ends. The test fails if the replica ends
// with an error or if its log tells of a panic.
func Serve(t testing.TB, text string) *Replica {
	t.Helper()
	file, err := config.Parse("replica.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, file, "")
}

// ServeFile is Serve of a configuration file, which the replica reads again when it changes.
func ServeFile(t testing.TB, path string) *Replica {
	t.Helper()
	file, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, file, path)
}

func serve(t testing.TB, file *config.File, path string) *Replica {
	t.Helper()
	r := &Replica{Log: &Log{}, ended: make(chan struct{})}
	connections, closeStores, err := stores.Open(file.Redis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeStores)
	registry := prometheus.NewRegistry()
	r.App, err = app.New(t.Context(), app.Options{
		File: file, Path: path, Stores: connections, Admin: file.Admin, Version: "test",
		Logger: zerolog.New(r.Log).With().Timestamp().Logger(), Registerer: registry, Gatherer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	r.stop = stop
	go func() {
		defer close(r.ended)
		r.err = r.Run(ctx)
	}()
	t.Cleanup(func() { r.check(t) })
	Eventually(t, "the replica serves", func() bool {
		select {
		case <-r.ended:
			t.Fatalf("the replica ended at once: %v\n%s", r.err, r.Log)
		default:
		}
		return strings.Contains(r.Log.String(), `"message":"serving"`)
	})
	r.Address = r.Addr().String()
	r.URL, r.Admin = scheme(file.TLS)+r.Address, scheme(file.AdminTLS)+r.AdminAddr().String()
	return r
}

func scheme(t config.ListenerTLS) string {
	if t.On() {
		return "https://"
	}
	return "http://"
}

// Stop has the replica drain and waits until it has ended.
func (r *Replica) Stop(t testing.TB) {
	t.Helper()
	r.stop()
	select {
	case <-r.ended:
	case <-time.After(stopWait):
		t.Errorf("the replica did not stop within %v", stopWait)
	}
}

// check stops the replica, if the test did not, and checks how it went.
func (r *Replica) check(t testing.TB) {
	t.Helper()
	r.Stop(t)
	log := r.Log.String()
	if r.err != nil {
		t.Errorf("the replica ended with %v\n%s", r.err, log)
	}
	for _, bad := range []string{"panicked", "goroutine "} {
		if strings.Contains(log, bad) {
			t.Errorf("the replica's log holds %q:\n%s", bad, log)
			return
		}
	}
}

// Ready waits until the replica says that it can serve every route.
func (r *Replica) Ready(t testing.TB) {
	t.Helper()
	Eventually(t, "the replica is ready", func() bool {
		status, _ := Get(t, r.URL+"/readyz")
		return status == http.StatusOK
	})
}

// Metrics is the page of metrics.
func (r *Replica) Metrics(t testing.TB) string {
	t.Helper()
	status, page := Get(t, r.Admin+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("GET /metrics: status %d", status)
	}
	return page
}

// Status is what the replica says of itself.
func (r *Replica) Status(t testing.TB) (s gateway.Status) {
	t.Helper()
	r.Read(t, "/admin/status", &s)
	return s
}

// Settings are the settings that are in force for a route, "" for none.
func (r *Replica) Settings(t testing.TB, route string) []gateway.SettingView {
	t.Helper()
	var answer struct{ Settings []gateway.SettingView }
	r.Read(t, "/admin/settings?route="+route, &answer)
	return answer.Settings
}

// Setting is the value in force of a setting, which may be name@route; "" where it is not known.
func (r *Replica) Setting(t testing.TB, name string) string {
	t.Helper()
	_, route, _ := strings.Cut(name, "@")
	for _, s := range r.Settings(t, route) {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

// Read reads a JSON answer of the admin listener.
func (r *Replica) Read(t testing.TB, path string, answer any) {
	t.Helper()
	status, body := Get(t, r.Admin+path)
	if status != http.StatusOK {
		t.Fatalf("GET %s: status %d: %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), answer); err != nil {
		t.Fatalf("GET %s: %v: %s", path, err, body)
	}
}

// Client sends requests for tests. It follows no redirects.
var Client = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       time.Minute,
}

// Get returns status and body, status 0 when there was no answer.
func Get(t testing.TB, url string) (int, string) {
	t.Helper()
	resp, err := Client.Get(url)
	if err != nil {
		return 0, ""
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read to its end
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(body)
}

// Send makes one request with a JSON body; headers are names and values in turn.
func Send(t testing.TB, method, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := Client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it was read to its end, or its error counts
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return resp.StatusCode, resp.Header, string(got)
}

// Post sends JSON and returns the body of a 200.
func Post(t testing.TB, url, body string, headers ...string) (string, http.Header) {
	t.Helper()
	status, head, got := Send(t, http.MethodPost, url, body, headers...)
	if status != http.StatusOK {
		t.Fatalf("POST %s: status %d: %s", url, status, got)
	}
	return got, head
}

// Eventually polls until ok, for at most 30 seconds: only what hangs takes so long, also on a busy machine.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Within(t, 30*time.Second, what, ok)
}

// Within polls until ok. A look that takes long is followed by an equal pause, which leaves the
// processor to what is looked at.
func Within(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		began := time.Now()
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-time.After(max(pollEvery, time.Since(began)))
	}
}

// Lines returns the lines of a page that hold a word.
func Lines(page, word string) string {
	var out []string
	for line := range strings.Lines(page) {
		if strings.Contains(line, word) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// Log is what a replica has logged; it is read while the replica writes.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p and never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String is what was logged so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
