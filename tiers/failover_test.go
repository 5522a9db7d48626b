package tiers

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// lossy is a rig with two targets, of which the first is to be lost.
func lossy(t *testing.T) (r *rig, spare *vllmsim.Server) {
	r = probedRig(t, vllmsim.Options{Seed: 7}, vllmsim.Options{})
	spare = vllmsim.Start(t, vllmsim.Options{Model: "big", Profile: "h100-70b-tp4", Seed: 7, TimeScale: testScale})
	r.wire(t, r.target.URL(), spare.URL())
	r.cfg.Mode = plan.ModeOff
	return r, spare
}

func TestATargetThatIsLostInMidAnswerIsCarriedOnWith(t *testing.T) {
	r, spare := lossy(t)
	taken, same, n := 0, 0, sample(16, 40)
	for i, p := range prompts(n) {
		body := chat(p, `,"max_tokens":120,"stream":true,"stream_options":{"include_usage":true},"stop":["zebra"]`)
		if err := r.target.SetFault(vllmsim.Fault{}); err != nil {
			t.Fatal(err)
		}
		want := r.own(body)
		for _, s := range []*vllmsim.Server{r.target, spare} {
			if err := s.SetFault(vllmsim.Fault{CutAfterBytes: 400 + 350*40/n*i, For: 1}); err != nil {
				t.Fatal(err)
			}
		}
		got, rc, err := r.ask(openai.Chat, plan.Auto, body)
		if err != nil {
			t.Fatalf("%q: %v; %+v", p, err, rc)
		}
		if got.roles != 1 || !got.done || len(rc.Failovers) > 0 && got.usage.Prompt != want.usage.Prompt || rc.Tier != plan.Target ||
			got.finish != "stop" && (got.finish != "length" || got.usage.Completion != 120) {
			t.Errorf("%q: %d roles, done %v, finish %s, usage %+v (prompt %+v), %s", p, got.roles, got.done, got.finish, got.usage, want.usage, rc.Tier)
		}
		if len(rc.Failovers) > 0 {
			taken++
			if !strings.HasPrefix(want.text, got.text[:rc.Failovers[0].Bytes]) {
				t.Errorf("%q: what was released is not the target's", p)
			}
		}
		if got.text == want.text && got.usage == want.usage {
			same++
		}
	}
	if taken < n/4 || same < n*3/4 {
		t.Errorf("%d of %d taken over, %d as if nothing had been lost", taken, n, same)
	}
}

func TestAnAnswerThatKeepsBreakingOffEndsInAnError(t *testing.T) {
	r, spare := lossy(t)
	for _, s := range []*vllmsim.Server{r.target, spare} {
		if err := s.SetFault(vllmsim.Fault{CutAfterBytes: 1500}); err != nil {
			t.Fatal(err)
		}
	}
	_, rc, err := r.ask(openai.Chat, plan.Auto, chat("Tell me", `,"max_tokens":400,"ignore_eos":true,"stream":true`))
	if _, broken := err.(*BrokenError); !broken || len(rc.Failovers) != 3 {
		t.Errorf("%v after %d takeovers", err, len(rc.Failovers))
	}
	r.cfg.MidstreamFailover = false
	if _, rc, err = r.ask(openai.Chat, plan.Auto, chat("Tell me", `,"max_tokens":400,"ignore_eos":true,"stream":true`)); err == nil || len(rc.Failovers) > 0 {
		t.Errorf("taken over although that is off: %v", err)
	}
}

func TestWhatCannotBeContinuedIsNotTakenOver(t *testing.T) {
	r, spare := lossy(t)
	for _, more := range []string{`,"logprobs":true`, `,"n":2,"temperature":1`, `,"frequency_penalty":1`, `,"response_format":{"type":"json_object"}`} {
		for _, s := range []*vllmsim.Server{r.target, spare} {
			// Each attempt is cut: a reset may throw away all that the first one sent, and then another backend is asked from the start.
			if err := s.SetFault(vllmsim.Fault{CutAfterBytes: 1500}); err != nil {
				t.Fatal(err)
			}
		}
		body := strings.Replace(chat("Tell me", fmt.Sprintf(`,"max_tokens":200,"ignore_eos":true,"stream":true%s`, more)), `"temperature":0,`, "", 1)
		if _, rc, err := r.ask(openai.Chat, plan.Auto, body); len(rc.Failovers) > 0 || err == nil {
			t.Errorf("%s: %d takeovers, %v", more, len(rc.Failovers), err)
		}
	}
}

func TestAnAnswerThatOthersHaveInPartIsCarriedOnFromThere(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.5}, vllmsim.Options{})
	for i, p := range prompts(sample(4, 12)) {
		body := chat(p, fmt.Sprintf(`,"max_tokens":150,"stream":%v`, i%2 == 0))
		want := r.own(body)
		for cut := 1; cut < len(want.text); cut += 1 + len(want.text)/7 {
			said := []byte(want.text[:cut])
			if !utf8.Valid(said) {
				continue
			}
			req, err := openai.Scan(openai.Chat, []byte(body), openai.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			var out collector
			rc, err := answerBy(t.Context(), r.cascade, arrival{Body: req, ID: "x", Sent: said}, &out)
			if err != nil {
				t.Fatalf("%q from byte %d: %v", p, cut, err)
			}
			got := read(t, req.Stream, bytes.Join(out.writes, nil))
			if !strings.HasPrefix(got.text, string(said)) || rc.Tier != plan.Target || got.usage.Completion == 0 && !req.Stream {
				t.Errorf("%q from byte %d: %q\nwant %q; %s", p, cut, got.text, want.text, rc.Tier)
			}
			if got.text != want.text { // the tokens of a text are not always those that it was written in
				t.Logf("%q from byte %d: %q, the target alone %q", p, cut, got.text, want.text)
			}
		}
	}
}

func TestAnAnswerThatWasLostIsCarriedOnWithInEveryMode(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.5}, vllmsim.Options{})
	const said = "What the target alone would not have said, "
	for _, mode := range []plan.Mode{plan.ModeOff, plan.ModeConfidence, plan.ModeVerify} {
		r.cfg.Mode = mode
		req, err := openai.Scan(openai.Chat, []byte(chat("Tell me", `,"max_tokens":60,"stream":true`)), openai.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		var out collector
		rc, err := answerBy(t.Context(), r.cascade, arrival{Body: req, ID: "x", Sent: []byte(said)}, &out)
		if err != nil {
			t.Fatal(err)
		}
		text := read(t, true, bytes.Join(out.writes, nil)).text
		if word, reason := rc.Outcome(); !strings.HasPrefix(text, said) || len(rc.Failovers) != 1 || word != "bypassed" || reason != "target_lost" || rc.Tier != plan.Target {
			t.Errorf("%s: %q, %s from %s, over %+v", mode, text, rc.Acceptance(), rc.Tier, rc.Failovers)
		}
	}
}
