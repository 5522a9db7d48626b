package vllmsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// In a bubble the clock is exact: a request takes what its profile says, whatever the machine.
func TestTheEngineTakesTheProfilesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{TimeScale: 2})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		spec := genSpec{maxTokens: 3, ignoreEOS: true, logprobs: -1}
		prompt := s.tok.Encode(strings.Repeat(" river", 500))
		box := newMailbox()
		g := newGenerator(s.model, prompt, &spec, 0)
		start := time.Now()
		s.engine.add([]*job{{seq: &Seq{Prompt: prompt, Source: g}, gen: g, box: box}})
		var events []event
		for len(events) < 3 {
			<-box.notify
			events = append(events, box.take(nil)...)
		}
		p, err := ProfileByName("a10g-8b")
		if err != nil {
			t.Fatal(err)
		}
		want := p.stepTime(work{prefill: 500, kvRead: 500}) + p.stepTime(work{decoding: 1, kvRead: 501}) + p.stepTime(work{decoding: 1, kvRead: 502})
		// The last result may come up to early ahead of time.
		if got := time.Since(start); got > want/2 || got < want/2-early {
			t.Errorf("took %v, want %v", got, want/2)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestManyRequestsAtOnceAllFinishUnderPreemption(t *testing.T) {
	s := Start(t, Options{Seed: 2, TimeScale: fast, BlocksOverride: 40, MaxNumSeqs: 16})
	var wg sync.WaitGroup
	for k := range 40 {
		wg.Go(func() {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":"crowd %d %s"}],"max_tokens":150}`, k%7, strings.Repeat("river ", k*3))
			resp, err := http.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || !strings.Contains(string(b), `"finish_reason":"`) {
				t.Errorf("%d %s", resp.StatusCode, b)
			}
		})
	}
	wg.Wait()
	st := s.State()
	if st.Preemptions == 0 || st.PrefixHits == 0 || st.Finished != 40 || st.KVBlocksUsed != 0 {
		t.Errorf("%+v", st)
	}
}
