package kvevents

import (
	"bytes"
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/internal/panics"
)

const (
	maxKeys    = 4096
	maxChain   = 4096    // blocks of a chain: the rest of a longer prompt is ignored
	maxBody    = 1 << 20 // bytes of a request to tokenize
	maxAnswer  = 8 << 20
	maxPending = 64 // requests that wait to be tokenized
	askers     = 4  // at once
	askIn      = 2 * time.Second
)

// TokenizerOptions configure a [Tokenizer]. The zero value works.
type TokenizerOptions struct {
	Transport http.RoundTripper // to the backends; default http.DefaultTransport
	BlockSize int               // tokens of a block of the backends' KV caches; default 16, as vLLM's on GPUs
}

// Tokenizer learns the chains of prompts from a backend's POST /tokenize, outside the request's path. It
// remembers the 4096 most recently used keys.
type Tokenizer struct {
	o     TokenizerOptions
	queue chan question

	mu      sync.Mutex
	answers map[uint64]*list.Element // of answer; nil while it is being requested
	order   *list.List               // most recently used first
}

type question struct {
	key  uint64
	url  string
	body []byte
}

type answer struct {
	key   uint64
	chain []uint64
}

// NewTokenizer makes an empty one. It learns while [Tokenizer.Run] runs.
func NewTokenizer(o TokenizerOptions) *Tokenizer {
	o.BlockSize = cmp.Or(o.BlockSize, 16)
	if o.Transport == nil {
		o.Transport = http.DefaultTransport
	}
	return &Tokenizer{o: o, queue: make(chan question, maxPending), answers: map[uint64]*list.Element{}, order: list.New()}
}

// Chain returns what was learned under a key. It is read-only.
func (t *Tokenizer) Chain(key uint64) ([]uint64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	el := t.answers[key]
	if el == nil {
		return nil, false
	}
	t.order.MoveToFront(el)
	return el.Value.(answer).chain, true
}

// Learn requests the tokens of a prompt from a backend, unless they are known or too many requests are
// waiting. body is the request's own, with messages or a prompt: vLLM ignores fields that /tokenize does not
// use. It is kept, and must not change. Learn never blocks.
func (t *Tokenizer) Learn(key uint64, url string, body []byte) {
	if len(body) > maxBody {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, asked := t.answers[key]; asked {
		return
	}
	select {
	case t.queue <- question{key, url, body}:
		t.answers[key] = nil
	default:
	}
}

// Run sends the requests until ctx ends.
func (t *Tokenizer) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for range askers {
		all.Go(func() { panics.KeepRunning(ctx, t.askAll) })
	}
	all.Wait()
	return ctx.Err()
}

// askAll sends one request after the other.
func (t *Tokenizer) askAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-t.queue:
			chain, err := t.ask(ctx, q)
			t.remember(q.key, chain, err)
		}
	}
}

// remember stores an answer, and deletes the least recently used one. A failed request may be repeated.
func (t *Tokenizer) remember(key uint64, chain []uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		delete(t.answers, key)
		return
	}
	t.answers[key] = t.order.PushFront(answer{key, chain})
	if t.order.Len() > maxKeys {
		delete(t.answers, t.order.Remove(t.order.Back()).(answer).key)
	}
}

func (t *Tokenizer) ask(ctx context.Context, q question) ([]uint64, error) {
	var asked struct {
		Salt string `json:"cache_salt"`
	}
	if err := json.Unmarshal(q.body, &asked); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askIn)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(q.url, "/")+"/tokenize", bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.o.Transport.RoundTrip(req) // not a client: a redirect is an answer other than 200
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("kvevents: /tokenize answered %d", resp.StatusCode)
	}
	var got struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&got); err != nil {
		return nil, err
	}
	ids := got.Tokens[:min(len(got.Tokens), maxChain*t.o.BlockSize)]
	return Chain(make([]uint64, 0, len(ids)/t.o.BlockSize), ids, t.o.BlockSize, asked.Salt), nil
}
