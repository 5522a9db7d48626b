package demo

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

// traffic sends a few varied requests a second.
type traffic struct {
	base   string
	route  string
	client *http.Client
	pause  time.Duration
	wg     sync.WaitGroup

	mu   sync.Mutex
	sent []request // the last maxSent
}

// request is a request that may be repeated.
type request struct {
	tenant string
	body   []byte
}

const (
	meanPause     = 150 * time.Millisecond // between requests, on average: four new ones per second
	maxInFlight   = 32                     // requests under way
	answerTimeout = 2 * time.Minute        // for one answer
	repeatedOf5   = 2                      // repeated requests, of five: about the published share
	maxSent       = 16

	documents    = 32  // each tenant reads half of them
	documentSize = 600 // approximate; with a question it is of the same traffic class as a request without a document
	readsOf2     = 1   // requests about a document, of two new ones
)

func newTraffic(base, route string, scale float64) *traffic {
	pause := max(time.Duration(float64(meanPause)/scale), 10*time.Millisecond)
	return &traffic{base: base, route: route, client: &http.Client{Timeout: answerTimeout}, pause: pause}
}

// start sends requests until ctx ends.
func (t *traffic) start(ctx context.Context) {
	slots := make(chan struct{}, maxInFlight)
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
func (t *traffic) wait() {
	t.wg.Wait()
	t.client.CloseIdleConnections()
}

var questions = []string{
	"Why is the sky blue at %d m?",
	"Write a function that reverses a linked list of %d items.",
	"Summarise the plot of a novel about a lighthouse keeper, case %d.",
	"What does order %d contain?",
	"Translate 'good morning, dear neighbours of house %d' into French.",
	"List three risks of running %d databases without backups.",
	"Explain to a child how a bicycle stays upright, version %d.",
}

var tenants = []string{"acme", "globex"}

// document is a text that several requests begin with. All documents together are larger than the KV memory
// of one draft backend, so the choice of the backend matters.
func document(number int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Answer by this document, number %d.", number)
	for i := range documentSize / 4 {
		fmt.Fprintf(&b, " item %d.%d", number, i)
	}
	return b.String()
}

// next returns a new request, or repeats an earlier one, as people do.
func (t *traffic) next(n int) (request, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.sent) > 0 && rand.N(5) < repeatedOf5 {
		return t.sent[rand.N(len(t.sent))], nil
	}
	question := fmt.Sprintf(questions[rand.N(len(questions))], n) // all differ: the same prompt gives the same draft
	tenant := rand.N(len(tenants))
	messages := []map[string]string{{"role": "user", "content": question}}
	if rand.N(2) < readsOf2 {
		number := rand.N(documents/len(tenants))*len(tenants) + tenant
		messages = append([]map[string]string{{"role": "system", "content": document(number)}}, messages...)
	}
	body, err := json.Marshal(map[string]any{
		"model": t.route, "stream": rand.N(3) > 0, "max_tokens": 64 + rand.N(192),
		"messages": messages,
	})
	if err != nil {
		return request{}, err
	}
	r := request{tenant: tenants[tenant], body: body}
	if len(t.sent) < maxSent {
		t.sent = append(t.sent, r)
	} else {
		t.sent[n%maxSent] = r
	}
	return r, nil
}

// send sends one request. The gateway's counters record the result.
func (t *traffic) send(ctx context.Context, n int) {
	r, err := t.next(n)
	if err != nil {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+"/v1/chat/completions", bytes.NewReader(r.body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Priority", []string{"low", "normal", "high"}[rand.N(3)])
	req.Header.Set("X-Tenant-Id", r.tenant)
	resp, err := t.client.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body) // the answer's text is ignored
	_ = resp.Body.Close()
}
