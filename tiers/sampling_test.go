package tiers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/scoring"
)

func TestWithoutProcessedLogprobsSampledRequestsGoStraightToTheTarget(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: .3}, vllmsim.Options{})
	r.cfg.Mode, r.cfg.VerifySampled = plan.ModeVerify, true
	for _, f := range forms {
		body := f.sampled("Hello there", `,"temperature":0.8,"max_tokens":30`)
		got, rc, err := r.ask(f.kind, plan.Auto, body)
		if err != nil || rc.Acceptance() != "bypassed;reason=sampled_raw_target" || rc.Tier != plan.Target || len(rc.Tries) != 1 {
			t.Errorf("%s: %+v, %v", rc.Acceptance(), rc, err)
		}
		if want := f.alone(r, body); got.text != want.text || got.usage != want.usage {
			t.Errorf("%q, want %q", got.text, want.text)
		}
	}
}

// TestThinnedAnswersEndAsTheTargetsDo: by their own end, a stop string or the limit, in every form.
func TestThinnedAnswersEndAsTheTargetsDo(t *testing.T) {
	r := samplingRig(t, .3)
	tiers, finishes, approximate := map[plan.Tier]int{}, map[string]int{}, 0
	for i, p := range prompts(proofSize(24, 100, 1000)) {
		f := forms[i%len(forms)]
		most := []int{5, 60, 600}[i/4%3]
		more := fmt.Sprintf(`,"temperature":0.7,"max_tokens":%d`, most)
		stop := i/12%2 == 1
		if stop {
			more += `,"stop":["e","\n"]`
		}
		got, rc, err := r.ask(f.kind, plan.Auto, f.sampled(p, more))
		switch {
		case err != nil || !rc.Plan.Sampled:
			t.Fatalf("%q%s: %s, %+v, %v", p, more, rc.Acceptance(), rc, err)
		case got.usage.Completion > most || (got.finish == "length") != (got.usage.Completion == most && got.finish != "stop"):
			t.Errorf("%q%s: %d tokens, %s", p, more, got.usage.Completion, got.finish)
		case stop && strings.ContainsAny(got.text, "e\n"), strings.Contains(got.text, "\uFFFD"):
			t.Errorf("%q%s: %q", p, more, got.text)
		case stop && got.finish == "stop" && got.stop != `"e"` && got.stop != `"\n"` && got.stop != "null" && got.stop != "":
			t.Errorf("%q%s: stopped by %s", p, more, got.stop)
		case f.stream && !got.done || f.kind == openai.Chat && f.stream && got.roles != 1:
			t.Errorf("%q%s: %d roles, done %t", p, more, got.roles, got.done)
		case rc.AcceptedTokens+rc.TargetTokens != got.usage.Completion || got.usage.Prompt == 0:
			t.Errorf("%q%s: %d and %d tokens of %+v", p, more, rc.AcceptedTokens, rc.TargetTokens, got.usage)
		}
		tiers[rc.Tier]++
		finishes[got.finish+got.stop]++
		if rc.Approximate { // the cap of draws was reached
			approximate++
		}
	}
	t.Logf("%v, %v, %d approximate", tiers, finishes, approximate)
	if tiers[plan.Draft] == 0 || tiers[plan.Mixed] == 0 || len(finishes) < 3 {
		t.Errorf("%v, %v: the test shows nothing", tiers, finishes)
	}
}

// failingAt stands before the target and answers what matches with an error.
func failingAt(t *testing.T, target string, matches func(path string, body []byte) bool) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy.Transport, proxy.FlushInterval = transport, -1
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if matches(req.URL.Path, body) {
			http.Error(w, `{"error":{"message":"no"}}`, http.StatusInternalServerError)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestAFaultDuringRejectionSamplingLeavesTheAnswerToTheTarget, which is said to be approximate where it hung on what was drafted.
func TestAFaultDuringRejectionSamplingLeavesTheAnswerToTheTarget(t *testing.T) {
	for _, fault := range []struct {
		name        string
		matches     func(path string, body []byte) bool
		reason      string
		approximate bool
	}{
		{"scores", func(_ string, body []byte) bool { return bytes.Contains(body, []byte(`"prompt_logprobs":20`)) }, "no_verdict", true},
		{"draws", func(_ string, body []byte) bool { return bytes.Contains(body, []byte(`"n":8`)) }, "no_verdict", true},
		{"words", func(path string, _ []byte) bool { return path == openai.DetokenizePath }, "no_verdict", true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			r := samplingRig(t, .6)
			broken := false
			r.wire(t, failingAt(t, r.target.URL(), func(path string, body []byte) bool { return broken && fault.matches(path, body) }))
			broken = true
			hit := 0
			for i, p := range prompts(sample(6, 12)) {
				f := forms[i%len(forms)]
				got, rc, err := r.ask(f.kind, plan.Auto, f.sampled(p, `,"max_tokens":40`))
				if err != nil || got.finish == "" || rc.Approximate && !strings.HasSuffix(rc.Acceptance(), ";exactness=approximate") {
					t.Fatalf("%q (%s): %s, %v", got.text, got.finish, rc.Acceptance(), err)
				}
				if rc.Tier != plan.Target {
					continue // no draw was needed
				}
				if hit++; rc.Verdict.Reason != fault.reason || fault.approximate != rc.Approximate || rc.AcceptedTokens != 0 || rc.TargetTokens != got.usage.Completion {
					t.Errorf("%s, %d of the draft, %d of the target, %+v", rc.Acceptance(), rc.AcceptedTokens, rc.TargetTokens, got.usage)
				}
			}
			if hit == 0 {
				t.Error("no answer needed it: the test shows nothing")
			}
		})
	}
}

func TestAContinuationThatFailsLeavesTheAnswerToTheTarget(t *testing.T) {
	r := samplingRig(t, .6)
	broken := false
	r.wire(t, failingAt(t, r.target.URL(), func(path string, body []byte) bool {
		return broken && path == openai.Completion.Path() && bytes.Contains(body, []byte(`"stream":true`))
	}))
	broken = true
	hit := 0
	for i, p := range prompts(sample(6, 12)) {
		f := forms[1+i%2*2] // not streamed
		got, rc, err := r.ask(f.kind, plan.Auto, f.sampled(p, `,"max_tokens":40`))
		if err != nil || got.finish == "" || rc.Tier == plan.Mixed && rc.TargetTokens > 1 {
			t.Fatalf("%q (%s): %s, %v", got.text, got.finish, rc.Acceptance(), err)
		}
		if rc.Tier == plan.Target {
			if hit++; !rc.Approximate || rc.AcceptedTokens != 0 {
				t.Errorf("%s, %+v", rc.Acceptance(), rc)
			}
		}
	}
	if hit == 0 {
		t.Error("no answer was continued: the test shows nothing")
	}
}

func TestADraftThatListsNoIDsIsNotThinned(t *testing.T) {
	r := samplingRig(t, .3)
	to, err := url.Parse(r.draft.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy, transport := httputil.NewSingleHostReverseProxy(to), &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	proxy.Transport = transport
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		body = bytes.Replace(body, []byte(`"return_tokens_as_token_ids":true`), []byte(`"return_tokens_as_token_ids":null`), 1)
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(s.Close)
	drafts := testPool(t, "drafts", "small", s.URL)
	rt, err := r.cascade.Route("m")
	if err != nil {
		t.Fatal(err)
	}
	rt.Draft = drafts
	got, rc, err := r.ask(openai.Chat, plan.Auto, forms[1].sampled("Hello", `,"max_tokens":20`))
	if want := "rejected;reason=no_verdict;score=0;mode=verify;exactness=approximate"; err != nil || rc.Tier != plan.Target || got.text == "" || rc.Acceptance() != want {
		t.Errorf("%q, %s, want %s; %v", got.text, rc.Acceptance(), want, err)
	}
}

func TestWithoutADraftASampledAnswerIsTheTargets(t *testing.T) {
	r := samplingRig(t, .3)
	if err := r.draft.SetFault(vllmsim.Fault{Status: 500}); err != nil {
		t.Fatal(err)
	}
	got, rc, err := r.ask(openai.Chat, plan.Auto, forms[1].sampled("Hello", `,"max_tokens":20`))
	if err != nil || rc.Tier != plan.Target || rc.Approximate || got.text == "" || rc.Acceptance() != "bypassed;reason=draft_unavailable" {
		t.Errorf("%q, %s, %v", got.text, rc.Acceptance(), err)
	}
}

func TestNoMoreIsScoredThanMayBe(t *testing.T) {
	r := samplingRig(t, .1)
	r.cfg.Scoring = scoring.Config{MaxTokens: 60, MaxConcurrent: 4, Timeout: 10 * time.Second}
	cut := 0
	for _, p := range prompts(sample(6, 12)) {
		got, rc, err := r.ask(openai.Chat, plan.Auto, forms[1].sampled(p, `,"max_tokens":200`))
		if err != nil || rc.Plan.Sampled && len(rc.Checks) == 1 && rc.Checks[0].Tokens+rc.PromptTokens > 60 {
			t.Fatalf("%+v, %v", rc, err)
		}
		if rc.Tier == plan.Mixed && len(rc.Checks) == 1 && rc.Checks[0].Pass {
			cut++
			if got.usage.Completion <= rc.Checks[0].Tokens || rc.TargetTokens == 0 {
				t.Errorf("%+v of %d scored tokens", got.usage, rc.Checks[0].Tokens)
			}
		}
	}
	if cut == 0 {
		t.Error("the target continued no draft that stood: the test shows nothing")
	}
}
