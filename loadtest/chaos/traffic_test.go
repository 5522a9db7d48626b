package chaos

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/answer"
	"github.com/foregate/foregate/loadtest/process"
)

// echo answers in the form of each API; a prompt "wait" is answered when its client has left.
func echo(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		if strings.Contains(string(body), "wait") {
			<-r.Context().Done()
			return
		}
		var asked map[string]any
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Error(err)
		}
		switch r.URL.Path {
		case "/v1/responses":
			fmt.Fprintf(w, `{"status":"completed","output":[{"content":[{"text":%q}]}],"usage":{"input_tokens":1,"output_tokens":%v}}`, asked["input"], asked["max_output_tokens"])
		case "/v1/messages":
			fmt.Fprintf(w, `{"stop_reason":"end_turn","content":[{"text":"hello"}],"usage":{"input_tokens":1,"output_tokens":%v}}`, asked["max_tokens"])
		default:
			fmt.Fprintf(w, `{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}],"usage":{"completion_tokens":%v}}`, asked["max_tokens"])
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestAnOpenLoopSendsAtItsRateAndTellsOfEachOutcome(t *testing.T) {
	w := &Testbed{Gateways: []*Gateway{{Base: echo(t).URL}}}
	var mu sync.Mutex
	kinds, tokens := map[string]int{}, map[answer.API]int{}
	begun := time.Now()
	l := w.StartLoad(Traffic{
		Rate: 500, Random: 1, Maximum: 10_000,
		Next: func(n int) Request {
			r := Request{Prompt: "hello", Tokens: 7, API: [...]answer.API{"", answer.Responses, answer.Messages}[n%3]}
			if n%10 == 9 {
				r.Prompt, r.Leave = "wait", time.Millisecond
			}
			return r
		},
		Take: func(o *Outcome) {
			mu.Lock()
			defer mu.Unlock()
			kinds[o.Kind]++
			if o.Kind == Answered {
				tokens[o.API] = o.Tokens
			} else if o.Kind != Left {
				t.Errorf("%s: %s", o.Kind, o.Detail)
			}
		},
	})
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return kinds[Answered] + kinds[Left]
	}
	if err := process.Poll(t.Context(), 10*time.Second, func() bool { return count() >= 100 }); err != nil {
		t.Fatalf("%d outcomes: %v", count(), err)
	}
	l.Stop()
	if most := int(time.Since(begun).Milliseconds()) + 100; l.Sent() != count() || count() > most {
		t.Errorf("%d outcomes of %d requests, at most %d are due", count(), l.Sent(), most)
	}
	if len(l.Outcomes()) > 0 || kinds[Left] == 0 || kinds[Answered] == 0 {
		t.Errorf("%d outcomes are kept; %v", len(l.Outcomes()), kinds)
	}
	for _, api := range []answer.API{"", answer.Responses, answer.Messages} {
		if tokens[api] != 7 {
			t.Errorf("answers of %q tell %d tokens, want 7", api, tokens[api])
		}
	}
}

func TestWhoLeavesIsToldFromWhatIsBroken(t *testing.T) {
	for kind, want := range map[string]string{Unreached: Left, TimedOut: Left, CutSilent: Left, Answered: Answered, Garbled: Garbled, "http_502": "http_502"} {
		stays, leaves := Outcome{Kind: kind, Detail: "x"}, Outcome{Kind: kind, Detail: "x"}
		stays.left(nil)
		leaves.left(http.ErrAbortHandler)
		if stays.Kind != kind || leaves.Kind != want {
			t.Errorf("%s: %s for a client that stays, %s for one that leaves", kind, stays.Kind, leaves.Kind)
		}
	}
}
