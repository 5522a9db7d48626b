package vllmsim

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestFaultsBeyondReasonAreRefused(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	for body, says := range map[string]string{
		`{"slow":1e300}`: "fault slow is within",
		`{"rate":1.5}`:   "fault rate is within 0..1",
		`{"slow":2} x`:   "this is no fault",
		`null`:           "this is no fault: null",
		`{"SLOW":2}`:     "unknown field \\\"SLOW\\\"",
		`{"slow":2,"hang":"often","metrics":"no"}`: "unknown hang",
	} {
		status, got := post(t, s, "/sim/fault", body)
		if status != 400 || !strings.Contains(got, says) {
			t.Errorf("%s: %d %s", body, status, got)
		}
	}
	for _, f := range []Fault{{Slow: math.Inf(1)}, {Slow: math.NaN()}, {Rate: math.NaN()}} {
		if s.SetFault(f) == nil {
			t.Errorf("SetFault takes %+v", f)
		}
		if _, err := New(Options{Fault: f}); err == nil {
			t.Errorf("New takes %+v", f)
		}
	}
	expect(t, "the fault", s.faults.get(), Fault{})
	ask(t, s, "/v1/completions", `{"prompt":"x","max_tokens":1}`)
}

func TestARequestCannotAskForMoreThanAnyServerHolds(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	prompts := func(n int) string { return strings.TrimSuffix(strings.Repeat(`"x",`, n), ",") }
	for _, c := range []struct {
		path, body, says string
	}{
		{"/v1/completions", `{"prompt":"x","n":300000000}`, "n must be at most 16384"},
		{"/v1/completions", `{"prompt":"x","n":16385}`, "n must be at most 16384"},
		{"/v1/completions", `{"prompt":"x","n":9223372036854775807}`, "n must be at most 16384"},
		{"/v1/completions", `{"prompt":"x","n":0}`, "n must be at least 1"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"n":300000000}`, "n must be at most 16384"},
		{"/v1/completions", `{"prompt":[` + prompts(1024) + `],"n":17}`, "n must be at most 16384, over all prompts"},
		{"/v1/completions", `{"prompt":[]}`, "at least one prompt"},
	} {
		status, got := post(t, s, c.path, c.body)
		if status != 400 || !strings.Contains(got, c.says) {
			t.Errorf("%s: %d %s", c.body[:min(len(c.body), 80)], status, got[:min(len(got), 300)])
		}
	}
	a := ask(t, s, "/v1/completions", `{"prompt":[`+prompts(1024)+`],"max_tokens":1}`)
	expect(t, "choices", len(a.Choices), 1024)
}

// endless is a request that does not end before its server does.
const endless = `{"prompt":"go on","max_tokens":100000,"ignore_eos":true,"stream":%t}`

// outcome is how one request ended.
type outcome struct {
	status int
	body   string
	err    error
}

// begin sends a completion and returns where its end arrives.
func begin(s *Server, body string) <-chan outcome {
	out := make(chan outcome, 1)
	url := s.URL()
	go func() {
		client := http.Client{Timeout: waiting}
		resp, err := client.Post(url+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			out <- outcome{err: err}
			return
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		out <- outcome{resp.StatusCode, string(b), err}
	}()
	return out
}

// ended is what became of a request that begin sent.
func ended(t *testing.T, c <-chan outcome) outcome {
	t.Helper()
	select {
	case got := <-c:
		return got
	case <-time.After(2 * waiting):
		t.Fatal("a request does not end")
		return outcome{}
	}
}

// Big answers are under way, wholly buffered, when the server is told to end: none is cut off.
func TestTerminateDeliversWhatHasBeenAnswered(t *testing.T) {
	s := Start(t, Options{TimeScale: 50})
	const n = 20
	var ends []<-chan outcome
	for k := range n {
		ends = append(ends, begin(s, fmt.Sprintf(endless, k%2 == 0)))
	}
	eventually(t, "all run", func() bool { return s.State().Running == n })
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range ends {
		got := ended(t, c)
		if got.err != nil || got.status != http.StatusOK || !strings.Contains(got.body, `"finish_reason":"abort"`) {
			t.Errorf("%d %v %s", got.status, got.err, got.body[max(0, len(got.body)-300):])
		}
	}
}
