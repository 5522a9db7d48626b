package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// traffic is a closed loop of streaming clients, spread over the replicas. Their prompts
// are short and all different.
type traffic struct {
	replicas []*server
	stopping atomic.Bool
	clients  sync.WaitGroup

	mu    sync.Mutex
	ends  []ending
	ended int
}

// ending is a request that failed.
type ending struct {
	replica int
	begun   bool // its answer had begun
	err     error
}

// loadTokens is how long the answers are: about a third of a second.
const loadTokens = 20

// startTraffic runs so many clients until stop, or the test's end, and waits until they
// are under way.
func startTraffic(t *testing.T, clients int, replicas ...*server) *traffic {
	t.Helper()
	l := &traffic{replicas: replicas}
	for i := range clients {
		l.clients.Go(func() { l.client(i) })
	}
	t.Cleanup(func() { l.stop() })
	l.flows(t, clients)
	return l
}

// flows waits until every client has asked a few times.
func (l *traffic) flows(t *testing.T, clients int) {
	t.Helper()
	eventually(t, "the traffic flows", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.ended >= 3*clients
	})
}

// client asks one thing after the other.
func (l *traffic) client(i int) {
	for n := 0; !l.stopping.Load(); n++ {
		at := i % len(l.replicas)
		begun, err := stream(l.replicas[at], fmt.Sprintf("%d. Tell number %d a story.", n, i), loadTokens)
		l.mu.Lock()
		l.ended++
		if err != nil {
			l.ends = append(l.ends, ending{at, begun, err})
		}
		l.mu.Unlock()
	}
}

// stop lets the requests under way finish and returns how many there were and those
// that failed.
func (l *traffic) stop() (n int, failed []ending) {
	l.stopping.Store(true)
	l.clients.Wait()
	return l.ended, l.ends
}

// faultless stops the load and fails the test for every request that failed.
func (l *traffic) faultless(t *testing.T) {
	t.Helper()
	n, failed := l.stop()
	t.Logf("%d requests, %d failed", n, len(failed))
	for _, f := range failed {
		t.Errorf("replica %d, answer begun %v: %v", f.replica, f.begun, f.err)
	}
}

// wellBegun stops the load and fails the test for every request that failed before its
// answer had begun.
func (l *traffic) wellBegun(t *testing.T) {
	t.Helper()
	n, failed := l.stop()
	begun := 0
	for _, f := range failed {
		if f.begun {
			begun++
			continue
		}
		t.Errorf("replica %d, before its first byte: %v", f.replica, f.err)
	}
	t.Logf("%d requests, %d failed, %d of these in mid-answer", n, len(failed), begun)
}

// stream asks a replica for an answer of so many tokens and reads it to its end. begun
// says that some of it came.
func stream(p *server, text string, tokens int) (begun bool, err error) {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":%d,"ignore_eos":true,"temperature":0,"stream":true}`, routeUsual, text, tokens)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+chat, strings.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := plain.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or broken
	if resp.StatusCode != http.StatusOK {
		told, _ := io.ReadAll(resp.Body) // only to be shown
		return false, fmt.Errorf("status %d: %s", resp.StatusCode, told)
	}
	frames, done := 0, false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		switch {
		case !ok:
		case done:
			return true, fmt.Errorf("after the end came %s", data)
		case string(data) == "[DONE]":
			done = true
		case bytes.HasPrefix(data, []byte(`{"error"`)):
			return true, fmt.Errorf("error event %s", data)
		default:
			frames++
		}
	}
	switch {
	case lines.Err() != nil:
		return true, lines.Err()
	case !done:
		return true, fmt.Errorf("no end after %d frames", frames)
	}
	return true, nil
}
