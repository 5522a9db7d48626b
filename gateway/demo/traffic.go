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
	client *http.Client
	pause  time.Duration
	wg     sync.WaitGroup

	mu   sync.Mutex
	sent []request // the last maxSent
}

// request is a request that may be sent again.
type request struct {
	tenant string
	body   []byte
}

const (
	meanPause     = 150 * time.Millisecond // between requests, on average: four new ones a second
	maxInFlight   = 32                     // requests under way
	answerTimeout = 2 * time.Minute        // for one answer
	repeatedOf5   = 2                      // of five requests, how many were sent before: about the published share
	maxSent       = 16

	documents    = 32  // that are read: half of them by each tenant
	documentSize = 600 // tokens, about: with a question it is of the same kind of request as one without
	readsOf2     = 1   // of two new requests, how many ask about a document
)

func newTraffic(base string, scale float64) *traffic {
	pause := max(time.Duration(float64(meanPause)/scale), 10*time.Millisecond)
	return &traffic{base: base, client: &http.Client{Timeout: answerTimeout}, pause: pause}
}

// start sends until ctx ends.
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

// document is a text that several requests begin with. All of them together are larger than
// the KV memory of one backend of the draft pool, so that it matters where they go.
func document(number int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Answer by this document, number %d.", number)
	for i := range documentSize / 4 {
		fmt.Fprintf(&b, " item %d.%d", number, i)
	}
	return b.String()
}

// next is a new request, or, as people do, one that was sent before.
func (t *traffic) next(n int) (request, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.sent) > 0 && rand.N(5) < repeatedOf5 {
		return t.sent[rand.N(len(t.sent))], nil
	}
	question := fmt.Sprintf(questions[rand.N(len(questions))], n) // no two are alike: the same prompt has the same draft
	tenant := rand.N(len(tenants))
	messages := []map[string]string{{"role": "user", "content": question}}
	if rand.N(2) < readsOf2 {
		number := rand.N(documents/len(tenants))*len(tenants) + tenant
		messages = append([]map[string]string{{"role": "system", "content": document(number)}}, messages...)
	}
	body, err := json.Marshal(map[string]any{
		"model": route, "stream": rand.N(3) > 0, "max_tokens": 64 + rand.N(192),
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

// send makes one request. What comes of it is in the gateway's counters.
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
	_, _ = io.Copy(io.Discard, resp.Body) // the answer itself is not looked at
	_ = resp.Body.Close()
}
