package vllmsim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFaultsBeyondReasonAreRefused(t *testing.T) {
	s := Start(t, Options{TimeScale: fast})
	for body, says := range map[string]string{
		`{"slow":1e300}`:                       "fault slow is within 0..1000000, not 1e+300",
		`{"slow":1000001}`:                     "fault slow is within",
		`{"slow":-1}`:                          "fault slow is within",
		`{"spot_notice_seconds":1e9}`:          "fault spot_notice_seconds is within 0..1000000, not 1e+09",
		`{"die":true,"down_seconds":1e300}`:    "fault down_seconds is within",
		`{"hang":"stream","after_tokens":-1}`:  "fault after_tokens is -1, but cannot be negative",
		`{"abort_after_tokens":-1}`:            "fault abort_after_tokens is -1",
		`{"cut_after_bytes":-1}`:               "fault cut_after_bytes is -1",
		`{"clean_eof_after_tokens":-2}`:        "fault clean_eof_after_tokens is -2",
		`{"error_event_after_tokens":-1}`:      "fault error_event_after_tokens is -1",
		`{"for":-1}`:                           "fault for is -1",
		`{"rate":1.5}`:                         "fault rate is within 0..1",
		`{"slow":2} x`:                         "this is no fault",
		`{"slow":2}{}`:                         "this is no fault",
		`null`:                                 "this is no fault: null",
		` null `:                               "this is no fault: null",
		``:                                     "this is no fault",
		`[]`:                                   "this is no fault",
		`{"SLOW":2}`:                           "unknown field \\\"SLOW\\\"",
		`{"down_seconds":1}`:                   "down_seconds goes with",
		`{"die":true,"spot_notice_seconds":1}`: "one of refuse, die and spot_notice_seconds",
		`{"slow":2,"hang":"often","metrics":"no"}`: "unknown hang",
	} {
		status, got := post(t, s, "/sim/fault", body)
		if status != 400 || !strings.Contains(got, says) {
			t.Errorf("%s: %d %s", body, status, got)
		}
	}
	for _, f := range []Fault{{Slow: math.Inf(1)}, {Slow: math.NaN()}, {Rate: math.NaN()}, {AfterTokens: -1}, {SpotNoticeSeconds: math.NaN()}} {
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

// The step under way is not waited for at the old speed: at slow 1e6 it would take hours.
func TestAServerThatIsSlowNoMoreGoesOnAtOnce(t *testing.T) {
	running(t, toy(20, 2), func(b *bench) {
		b.setSlow(10)
		b.ask(ids(300, 20), 2) // 30 ms of prefill, 12 of decoding
		b.at(100 * time.Millisecond)
		b.setSlow(1) // a third is done; 20 ms are left
		b.at(119 * time.Millisecond)
		b.level("nearly", map[string]float64{"time_to_first_token_seconds_count": 0})
		b.at(121 * time.Millisecond)
		b.level("the first token", map[string]float64{"time_to_first_token_seconds_sum": .120})
		b.setSlow(100) // 1 of 12 ms is done
		b.at(time.Second)
		b.level("slow again", map[string]float64{"inter_token_latency_seconds_count": 0})
		b.at(2 * time.Second)
		b.level("the second", map[string]float64{"inter_token_latency_seconds_sum": 1.101})
		b.at(3 * time.Second)
		if busy := b.state().BusySeconds; math.Abs(busy-1.221) > 1e-6 {
			t.Errorf("busy for %g s", busy)
		}
	})
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
		{"/v1/chat/completions/render", `{"messages":[{"role":"user","content":"x"}],"n":300000000}`, "n must be at most 16384"},
		{"/inference/v1/generate", `{"token_ids":[300],"sampling_params":{"n":300000000}}`, "n must be at most 16384"},
		{"/v1/completions", `{"prompt":[` + prompts(1025) + `]}`, "prompt list length 1025 exceeds the maximum allowed count of 1024"},
		{"/v1/completions", `{"prompt":[` + prompts(1024) + `],"n":17}`, "n must be at most 16384, over all prompts"},
		{"/v1/completions", `{"prompt":[]}`, "non-empty"},
	} {
		status, got := post(t, s, c.path, c.body)
		if status != 400 || !strings.Contains(got, c.says) {
			t.Errorf("%s: %d %s", c.body[:min(len(c.body), 80)], status, got[:min(len(got), 300)])
		}
	}
	a := ask(t, s, "/v1/completions", `{"prompt":[`+prompts(1024)+`],"max_tokens":1}`)
	expect(t, "choices", len(a.Choices), 1024)
}

// Who waits costs no copy of a prompt that its siblings hold, too.
func TestSiblingsShareTheirPrompt(t *testing.T) {
	p := toy(20, 2)
	b := newBench(t, &p)
	prompt := ids(300, 33)
	jobs := b.ask(prompt, 1, 1, 1)
	for _, j := range jobs {
		expect(t, "the prompt", &j.seq.ids[0] == &prompt[0], true)
	}
	step, _ := b.begin()
	b.commit(step)
	if d := cmp.Diff(ids(300, 33), prompt); d != "" {
		t.Error(d)
	}
}

func TestTimeScalesThatNoClockCountsAreRefused(t *testing.T) {
	for _, scale := range []float64{-1, 1e-9, math.Inf(1), math.NaN(), 1e300} {
		if _, err := New(Options{TimeScale: scale}); err == nil {
			t.Errorf("%g is accepted", scale)
		}
	}
	if _, err := New(Options{Restart: 1 << 62}); err == nil {
		t.Error("a restart after a century is accepted")
	}
	if _, err := New(Options{}); err != nil {
		t.Error(err)
	}
}

// A server may be told to end before its engine has been given a processor: who is in by then is answered all the same.
func TestARunThatIsOverBeforeItBeginsTurnsEveryoneAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		b := &bench{engine: s.life().engines[0], t: t, model: s.model}
		box := b.ask(ids(300, 5), 3)[0].box
		events := box.take(nil)
		if len(events) != 1 || events[0].finish != finishAbort {
			t.Errorf("got %+v", events)
		}
	})
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

// What a fault silences is cut off at once, and nobody waits for a connection that has never carried a request.
func TestTerminateDoesNotWaitForWhatHangs(t *testing.T) {
	s := Start(t, Options{Fault: Fault{Hang: "headers"}})
	unused, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unused.Close() })
	a := begin(s, `{"prompt":"x"}`)
	eventually(t, "it hangs", func() bool { return s.State().Requests["/v1/completions"] == 1 })
	start := time.Now()
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > patience {
		t.Errorf("it took %v", took)
	}
	if got := ended(t, a); got.err == nil {
		t.Errorf("it was answered: %+v", got)
	}
}

func TestTheSimulatorsOwnRoutesAreNotCounted(t *testing.T) {
	s := Start(t, Options{TimeScale: fast, Model: "m"})
	for _, path := range []string{"/sim/fault", "/tokenize"} {
		status, body := post(t, s, path, `{}`)
		t.Log(status, body)
	}
	_, _ = do(t, s, "GET", "/sim/state", "")
	var page string
	eventually(t, "/tokenize is counted", func() bool {
		_, page = do(t, s, "GET", "/metrics", "")
		return strings.Contains(page, `http_requests_total{handler="/tokenize",method="POST",status="4xx"} 1.0`)
	})
	if strings.Contains(page, "/sim/") {
		t.Error("/sim/ is in the metrics")
	}
}
