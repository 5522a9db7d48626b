package kvevents

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// asking runs a tokenizer until the test ends.
func asking(t *testing.T, o TokenizerOptions) *Tokenizer {
	t.Helper()
	tok := NewTokenizer(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tok.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return tok
}

func TestAChatIsFoundInTheCacheThatItWasComputedIn(t *testing.T) {
	s := start(t, vllmsim.Options{})
	x := New(Options{Replay: replays(s)})
	follow(t, x, s.KVEventsEndpoint(0))
	tok := asking(t, TokenizerOptions{})
	for _, salt := range []string{"", `,"cache_salt":"s"`} {
		body := `{"model":"sim","messages":[{"role":"user","content":"Tell me of the house by the river, and of the people who lived in it before the flood came."}],"max_tokens":2,"stream":false` + salt + `}`
		key := uint64(len(salt))
		if _, ok := tok.Chain(key); ok {
			t.Error("known before it was learnt")
		}
		tok.Learn(key, s.URL()+"/", []byte(body))
		tok.Learn(key, "http://127.0.0.1:1", nil) // it is being asked already
		var chain []uint64
		eventually(t, "it is learnt", func() bool { chain, _ = tok.Chain(key); return len(chain) > 0 })
		post(t, s.URL()+"/v1/chat/completions", body, http.Header{"Content-Type": {"application/json"}})
		eventually(t, "it is cached", func() bool { n, _ := x.Cached("b", chain); return n == 16*len(chain) })
	}
}

func TestWhatCannotBeLearntIsAskedAgain(t *testing.T) {
	var asked int
	said := []string{"", `{"tokens":"none"}`, `{"tokens":[1,2,3]}`}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if said[asked] == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(said[asked]))
		asked++
	}))
	defer srv.Close()
	tok := asking(t, TokenizerOptions{BlockSize: 2})
	tok.Learn(1, srv.URL, make([]byte, maxBody+1))
	tok.Learn(2, srv.URL, []byte("no request"))
	var chain []uint64
	eventually(t, "the third is an answer", func() bool {
		tok.Learn(3, srv.URL, []byte("{}"))
		chain, _ = tok.Chain(3)
		return chain != nil
	})
	expect(t, "asked", asked, 3)
	expect(t, "chain", chain, Chain(nil, []int32{1, 2}, 2, ""))
	eventually(t, "the second is forgotten", func() bool {
		tok.mu.Lock()
		defer tok.mu.Unlock()
		return len(tok.answers) == 1
	})
}

func TestATokenizerFollowsNoRedirect(t *testing.T) {
	var followed atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer other.Close()
	srv := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	tok := NewTokenizer(TokenizerOptions{})
	if _, err := tok.ask(t.Context(), question{1, srv.URL, []byte("{}")}); err == nil || followed.Load() > 0 {
		t.Errorf("%v, followed %d times", err, followed.Load())
	}
}

func TestATokenizerIsBounded(t *testing.T) {
	tok := NewTokenizer(TokenizerOptions{})
	for key := range uint64(2 * maxPending) { // nobody asks
		tok.Learn(key, "http://127.0.0.1:1", nil)
	}
	expect(t, "waiting", []int{len(tok.queue), len(tok.answers)}, []int{maxPending, maxPending})
	tok = NewTokenizer(TokenizerOptions{})
	for key := range uint64(maxKeys + 10) {
		tok.remember(key, nil, nil)
		tok.Chain(5)
	}
	expect(t, "known", []int{len(tok.answers), tok.order.Len()}, []int{maxKeys, maxKeys})
	for key, want := range map[uint64]bool{5: true, 0: false, maxKeys + 9: true} {
		_, ok := tok.Chain(key)
		expect(t, fmt.Sprint(key), ok, want)
	}
}
