package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestAFileThatNamesBackendsIsFollowedWithoutCuttingAStream(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	w := &fleetWorld{}
	for range 3 {
		w.sims = append(w.sims, vllmsim.Start(t, vllmsim.Options{Model: fleetModel, Seed: simSeed}))
	}
	file := filepath.Join(t.TempDir(), "backends")
	name := func(sims ...*vllmsim.Server) {
		t.Helper()
		text := "# who serves\n"
		for _, s := range sims {
			text += s.URL() + "\n"
		}
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	name()
	w.start(t, "discover: \"file://"+file+"\"")
	for i, p := range w.replicas {
		status, head, body := send(t, http.MethodPost, p.base+chat, chatBody(routeUsual))
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "no_backend") || head.Get("Retry-After") == "" {
			t.Errorf("replica %d with no backend at all: status %d, Retry-After %q: %s", i, status, head.Get("Retry-After"), body)
		}
	}
	has := func(n int) func() bool {
		return func() bool { return w.all(func(p *server) bool { return len(p.sees(t)) == n }) }
	}
	name(w.sims[0], w.sims[1])
	eventually(t, "the backends of the file are there", has(2))
	w.settled(t)

	var streams sync.WaitGroup
	for i := range 12 {
		streams.Go(func() {
			if _, err := stream(w.replicas[i%3], fmt.Sprintf("Stream number %d is a long one.", i), 300); err != nil {
				t.Errorf("long stream %d: %v", i, err)
			}
		})
	}
	gone := w.sims[0]
	eventually(t, "long streams run", func() bool { return gone.State().Running > 1 })
	l := startTraffic(t, 12, w.replicas...)
	if gone.State().Running < 2 {
		t.Fatal("the long streams have ended before the backend left the file")
	}
	name(w.sims[1], w.sims[2])
	eventually(t, "the file's change is seen", func() bool {
		return w.all(func(p *server) bool { _, there := p.sees(t)[gone.URL()]; return !there && len(p.sees(t)) == 2 })
	})
	_, before := w.count(chat)
	streams.Wait()
	_, after := w.count(chat)
	// One request may have been on its way there when it was taken out.
	if n := after[0] - before[0]; n > 1 {
		t.Errorf("the backend that left the file was sent %d requests", n)
	}
	eventually(t, "the new one serves", func() bool { return asked(w.sims[2]) > 0 })
	if st := gone.State(); st.Aborted != 0 || st.Running != 0 {
		t.Errorf("on the backend that left %d streams were cut and %d run still", st.Aborted, st.Running)
	}
	name()
	l.faultless(t)
	eventually(t, "a file that names nobody is complained of", func() bool { return strings.Contains(w.replicas[0].log.String(), "names no backends") })
	if !has(2)() {
		t.Error("a file that names nobody emptied the pool")
	}
}
