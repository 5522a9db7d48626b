package tiers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/strategy"
)

// newInterceptor is an engine behind a proxy that answers some requests itself: those of which meddle
// returns true.
func newInterceptor(t *testing.T, engine string, intercept func(w http.ResponseWriter, r *http.Request, body []byte) bool) string {
	t.Helper()
	u, err := url.Parse(engine)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.FlushInterval = -1
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // who asked has left
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !intercept(w, r, body) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// cutting breaks a connection off after so many bytes.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		panic(http.ErrAbortHandler)
	}
	return c.ResponseWriter.Write(p)
}

func (c *cutting) Flush() { c.ResponseWriter.(http.Flusher).Flush() }

func TestAContinuationThatBreaksOffIsNoWholeAnswer(t *testing.T) {
	for _, stream := range []bool{true, false} {
		r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.3}, vllmsim.Options{})
		engine, err := url.Parse(r.target.URL())
		if err != nil {
			t.Fatal(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(engine)
		proxy.FlushInterval = -1
		r.wire(t, newInterceptor(t, r.target.URL(), func(w http.ResponseWriter, q *http.Request, body []byte) bool {
			if q.URL.Path != "/v1/completions" || !strings.Contains(string(body), `"stream":true`) {
				return false
			}
			proxy.ServeHTTP(&cutting{w, 4000}, q)
			return true
		}))
		r.cfg.Mode = plan.ModeVerify
		mixed := 0
		for _, p := range prompts(12) {
			body := chat(p, fmt.Sprintf(`,"max_tokens":300,"stream":%v`, stream))
			want := r.own(body)
			got, rc, err := r.ask(openai.Chat, plan.Auto, body)
			if err == nil && (got.text != want.text || got.finish != want.finish) {
				t.Errorf("%q from %s, %s, want %q, %s", got.text, rc.Tier, got.finish, want.text, want.finish)
			}
			if broken := (*strategy.BrokenError)(nil); err != nil && !errors.As(err, &broken) {
				t.Errorf("%q: %v", p, err)
			}
			mixed += len(rc.Failovers)
		}
		if stream && mixed == 0 {
			t.Error("no continuation was lost: the test shows nothing")
		}
	}
}

func TestStopStringsAndLimitsAreCheckedInTheTargetsTokens(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.5, Tokenizer: "other"}, vllmsim.Options{})
	r.cfg.Mode = plan.ModeVerify
	for i, p := range prompts(sample(9, 30)) {
		for _, more := range []string{`,"max_tokens":5`, `,"max_tokens":20`, `,"max_tokens":300,"stop":[" a"," w"]`, `,"max_tokens":300,"stop":[" th"," b"]`, `,"max_tokens":300,"stop":[".",","]`} {
			body := chat(p, fmt.Sprintf(`%s,"stream":%v`, more, i%2 == 0))
			got, rc, err := r.ask(openai.Chat, plan.Auto, body)
			if err != nil {
				t.Fatal(err)
			}
			if want := r.own(body); got.text != want.text || got.finish != want.finish || rc.WastedTokens < 0 || rc.TargetTokens < 0 {
				t.Errorf("%q%s: from %s\n got %q, %s\nwant %q, %s", p, more, rc.Tier, got.text, got.finish, want.text, want.finish)
			}
		}
	}
}

func TestAClientThatLeavesWhileItsCallsAreScoredEndsItAll(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 5, Divergence: 0.1}, vllmsim.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := false
	url := newInterceptor(t, r.target.URL(), func(_ http.ResponseWriter, q *http.Request, body []byte) bool {
		if !asked || !strings.Contains(string(body), "prompt_logprobs") {
			return false
		}
		cancel()
		<-q.Context().Done()
		return true
	})
	r.wire(t, url)
	asked = true
	r.cfg.Mode, r.cfg.VerifyRule = plan.ModeVerify, plan.RuleLenient
	for _, p := range prompts(4) {
		req, err := openai.Scan(openai.Chat, []byte(chat(p, weather+`,"max_tokens":300`)), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		var out collector
		_, err = r.cascade.Answer(ctx, Request{Body: req, ID: "x"}, &out)
		if f, ok := errors.AsType[*engine.Failure](err); ctx.Err() != nil && (!ok || f.Kind != engine.ClientGone) {
			t.Errorf("%v", err)
		}
	}
	if ctx.Err() == nil {
		t.Error("nothing was scored: the test shows nothing")
	}
}

func TestWhoseTargetCannotContinueIsAnsweredAfresh(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 7}, vllmsim.Options{})
	r.wire(t, newInterceptor(t, r.target.URL(), func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !strings.Contains(string(body), "continue_final_message") {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"this template cannot continue","code":400}}`)
		return true
	}))
	body := chat("Hello", `,"max_tokens":60,"stream":true`)
	req, err := openai.Scan(openai.Chat, []byte(body), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	want := r.own(body)
	var out collector
	_, err = r.cascade.Answer(t.Context(), Request{Body: req, ID: "x", Sent: []byte(want.text[:len(want.text)/2])}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, true, bytes.Join(out.writes, nil)); got.text != want.text {
		t.Errorf("%q, want %q", got.text, want.text)
	}
}
