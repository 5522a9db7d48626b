package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// trickle sends a few varied requests a second, so that a demonstration has
// something to show.
type trickle struct {
	base   string
	client *http.Client
	pause  time.Duration
	wg     sync.WaitGroup
}

const (
	tricklePause = 700 * time.Millisecond // between requests, on average
	trickleMost  = 32                     // requests under way
	trickleWait  = 2 * time.Minute        // for one answer
)

func newTrickle(base string, scale float64) *trickle {
	pause := max(time.Duration(float64(tricklePause)/scale), 10*time.Millisecond)
	return &trickle{base: base, client: &http.Client{Timeout: trickleWait}, pause: pause}
}

// start sends until ctx ends.
func (t *trickle) start(ctx context.Context) {
	slots := make(chan struct{}, trickleMost)
	t.wg.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(t.pause/2 + rand.N(t.pause)):
			}
			select {
			case slots <- struct{}{}:
			default:
				continue
			}
			t.wg.Go(func() {
				defer func() { <-slots }()
				t.send(ctx, n)
			})
		}
	})
}

// wait returns when the last request has ended.
func (t *trickle) wait() {
	t.wg.Wait()
	t.client.CloseIdleConnections()
}

var questions = []string{
	"Why is the sky blue?",
	"Write a function that reverses a linked list.",
	"Summarise the plot of a novel about a lighthouse keeper, case %d.",
	"What does order %d contain?",
	"Translate 'good morning, dear neighbours' into French.",
	"List three risks of running a database without backups.",
	"Explain to a child how a bicycle stays upright, version %d.",
}

// send makes one request. What comes of it is in the gateway's counters.
func (t *trickle) send(ctx context.Context, n int) {
	question := questions[rand.N(len(questions))]
	if strings.Contains(question, "%") {
		question = fmt.Sprintf(question, n)
	}
	body, err := json.Marshal(map[string]any{
		"model": demoRoute, "stream": rand.N(3) > 0, "temperature": []float64{0, 1, 1, 1}[rand.N(4)], "max_tokens": 64 + rand.N(192),
		"messages": []map[string]string{{"role": "user", "content": question}},
	})
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Priority", []string{"low", "normal", "high"}[rand.N(3)])
	req.Header.Set("X-Tenant-Id", []string{"acme", "globex"}[rand.N(2)])
	resp, err := t.client.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body) // the answer itself is not looked at
	_ = resp.Body.Close()
}
