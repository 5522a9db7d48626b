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

	"github.com/foregate/foregate/panics"
)

const (
	maxKeys   = 4096
	maxChain  = 4096    // blocks of a chain: the rest of a longer prompt is not looked at
	maxBody   = 1 << 20 // bytes of a request that is asked about
	maxAnswer = 8 << 20
	maxAsked  = 64 // requests that wait to be asked about
	askers    = 4  // at once
	askIn     = 2 * time.Second
)

// TokenizerOptions configure a [Tokenizer]. The zero value works.
type TokenizerOptions struct {
	Client    *http.Client // default http.DefaultClient
	BlockSize int          // tokens of a block of the backends' KV caches; default 16, as vLLM's on GPUs
}

// Tokenizer learns the chains of prompts from a backend's POST /tokenize, off the request's path. It remembers the 4096
// keys that were last of use.
type Tokenizer struct {
	o     TokenizerOptions
	queue chan question

	mu    sync.Mutex
	known map[uint64]*list.Element // of answer; nil while it is being asked
	order *list.List               // the last of use first
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

// NewTokenizer makes one that knows nothing. It asks while [Tokenizer.Run] runs.
func NewTokenizer(o TokenizerOptions) *Tokenizer {
	o.BlockSize = cmp.Or(o.BlockSize, 16)
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	return &Tokenizer{o: o, queue: make(chan question, maxAsked), known: map[uint64]*list.Element{}, order: list.New()}
}

// Chain returns what was learnt under a key. It is not to be changed.
func (t *Tokenizer) Chain(key uint64) ([]uint64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	el := t.known[key]
	if el == nil {
		return nil, false
	}
	t.order.MoveToFront(el)
	return el.Value.(answer).chain, true
}

// Learn has a backend asked for the tokens of a request, unless they are known or too many are being asked about. Body is
// the request's own, with messages or a prompt: vLLM passes over what /tokenize has no use for. It is kept, and must not
// change. Learn never waits.
func (t *Tokenizer) Learn(key uint64, url string, body []byte) {
	if len(body) > maxBody {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, asked := t.known[key]; asked {
		return
	}
	select {
	case t.queue <- question{key, url, body}:
		t.known[key] = nil
	default:
	}
}

// Run asks until ctx ends.
func (t *Tokenizer) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for range askers {
		all.Go(func() { panics.KeepRunning(ctx, t.askAll) })
	}
	all.Wait()
	return ctx.Err()
}

// askAll asks one question after the other.
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

// remember keeps an answer, and forgets the one that has been of no use for the longest. A question that got none may be
// asked again.
func (t *Tokenizer) remember(key uint64, chain []uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		delete(t.known, key)
		return
	}
	t.known[key] = t.order.PushFront(answer{key, chain})
	if t.order.Len() > maxKeys {
		delete(t.known, t.order.Remove(t.order.Back()).(answer).key)
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
	resp, err := t.o.Client.Do(req)
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
