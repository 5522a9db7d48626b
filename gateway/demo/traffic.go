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
	base  string // URL of requests
	route string
	pause time.Duration // between requests, on average
	sent  []request     // the last maxSent that were new
}

// request is a request that may be repeated.
type request struct {
	tenant string
	body   []byte
}

const (
	meanPause     = 150 * time.Millisecond // at real speed: four new requests per second
	maxInFlight   = 32                     // requests under way
	answerTimeout = 2 * time.Minute        // for one answer
	repeatedOf5   = 2                      // repeated requests, of five: about the published share
	maxSent       = 16

	documents    = 32  // each tenant reads half of them, for every other new request
	documentSize = 600 // approximate; with a question it is of the same traffic class as a request without a document
)

func newTraffic(base, route string, scale float64) *traffic {
	return &traffic{base: base, route: route, pause: max(time.Duration(float64(meanPause)/scale), 10*time.Millisecond)}
}

// run sends requests until ctx ends, and returns after the last answer.
func (t *traffic) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, maxInFlight)
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
		r := t.next(n)
		all.Go(func() {
			t.send(ctx, r)
			<-slots
		})
	}
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
func (t *traffic) next(n int) request {
	if len(t.sent) > 0 && rand.N(5) < repeatedOf5 {
		return t.sent[rand.N(len(t.sent))]
	}
	question := fmt.Sprintf(questions[rand.N(len(questions))], n) // all differ: the same prompt gives the same draft
	tenant := rand.N(len(tenants))
	messages := []map[string]string{{"role": "user", "content": question}}
	if rand.N(2) == 0 {
		number := rand.N(documents/len(tenants))*len(tenants) + tenant
		messages = append([]map[string]string{{"role": "system", "content": document(number)}}, messages...)
	}
	body, _ := json.Marshal(map[string]any{ //nolint:errchkjson // strings and numbers
		"model": t.route, "stream": rand.N(3) > 0, "max_tokens": 64 + rand.N(192), "messages": messages,
	})
	r := request{tenants[tenant], body}
	t.sent = append(t.sent, r)
	t.sent = t.sent[max(0, len(t.sent)-maxSent):]
	return r
}

// send sends one request. The gateway's counters record the result.
func (t *traffic) send(ctx context.Context, r request) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base+"/v1/chat/completions", bytes.NewReader(r.body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Priority", []string{"low", "normal", "high"}[rand.N(3)])
	req.Header.Set("X-Tenant-Id", r.tenant)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body) // the answer's text is ignored
	_ = resp.Body.Close()
}
