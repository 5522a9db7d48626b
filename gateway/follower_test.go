package gateway

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestAFollowerThatLeadsHearsThatTheReplicaEnds has it lead for the client that it has told what another began.
func TestAFollowerThatLeadsHearsThatTheReplicaEnds(t *testing.T) {
	up, k := newSpeaker(t), newKept(t)
	up.step, up.cut = make(chan struct{}), make(chan struct{})
	up.pieces = func(string) []string { return []string{"The answer", " is this."} }
	b := startCached(t, up.URL, k, nil)
	leader := make(chan clientResult, 1)
	go func() { leader <- b.say(t.Context(), question{stream: true}) }()
	soon(t, "the leader is asked for", func() bool { return up.calls.Load() == 1 })
	follower := b.opened(t)
	soon(t, "the follower is there", func() bool { return b.opts.Generations.Subscribers() == 2 })
	up.step <- struct{}{}
	follower.reads(t, "The answer")
	up.cut <- struct{}{}
	<-leader
	soon(t, "the follower leads", func() bool { return up.calls.Load() == 2 })
	b.cutStreams(errDraining)
	follower.reads(t, `"code":"gateway_draining"`)
}

// opening is a stream that is read as it comes.
type opening struct{ lines chan string }

// opened asks the usual question for a stream.
func (b *cacheBench) opened(t *testing.T) opening {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url+"/v1/chat/completions",
		strings.NewReader(`{"model":"llama-3","stream":true,"temperature":0,"messages":[{"role":"user","content":"What is it?"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	o := opening{make(chan string, 100)}
	go func() {
		defer close(o.lines)
		resp, err := b.client.Do(req)
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			o.lines <- in.Text()
		}
	}()
	return o
}

// reads goes on to the line that holds what is wanted.
func (o opening) reads(t *testing.T, want string) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case line, ok := <-o.lines:
			switch {
			case strings.Contains(line, want):
				return
			case !ok:
				t.Fatalf("it ends without %q", want)
			}
		case <-deadline:
			t.Fatalf("not within 10 s: %q", want)
		}
	}
}
