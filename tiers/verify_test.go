package tiers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// own is what the target says to a request when it is asked alone.
func (r *rig) own(body string) reply {
	r.t.Helper()
	return direct(r.t, r.target.URL(), "/v1/chat/completions", strings.Replace(body, `"m"`, `"big"`, 1))
}

func TestScoresThatGoWrongAreNobodysTrouble(t *testing.T) {
	questions, want := prompts(sample(6, 12)), map[string]string{}
	for _, fault := range []string{"error", "hang", "short", "misaligned", "garbage", "die"} {
		t.Run(fault, func(t *testing.T) {
			r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.3}, vllmsim.Options{Restart: 1})
			other := vllmsim.Start(t, vllmsim.Options{Model: "big", Profile: "h100-70b-tp4", Seed: 7, TimeScale: testScale})
			r.cfg.Mode = plan.ModeVerify
			for _, p := range questions {
				if want[p] == "" {
					want[p] = r.own(chat(p, `,"max_tokens":100`)).text
				}
			}
			r.wire(t, r.target.URL(), other.URL())
			for _, s := range []*vllmsim.Server{r.target, other} {
				if err := s.SetFault(vllmsim.Fault{Score: fault}); err != nil {
					t.Fatal(err)
				}
			}
			scored := 0
			for i, p := range questions {
				got, rc, err := r.ask(openai.Chat, plan.Auto, chat(p, fmt.Sprintf(`,"max_tokens":100,"stream":%v`, i%2 == 0)))
				if err != nil || got.text != want[p] {
					t.Fatalf("%q: %q, want %q; %+v, %v", p, got.text, want[p], rc, err)
				}
				for _, try := range rc.Tries {
					if try.Score {
						scored++
					}
				}
			}
			if open, why, _ := r.cascade.ScoringState("targets"); fault != "short" && (!open || scored > 4) {
				t.Errorf("%d scores were asked for; open %v: %s", scored, open, why)
			}
		})
	}
}

func TestAModeThatTheEnginesDoNotAllowIsRefusedWithAReason(t *testing.T) {
	other := probedRig(t, vllmsim.Options{Seed: 7, Tokenizer: "other"}, vllmsim.Options{Without: []string{"tokenize"}})
	rt, err := other.cascade.Route("m")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range other.cascade.Modes(rt) {
		if want := map[plan.Mode]string{plan.ModeVerify: "tokenizers_differ"}[s.Mode]; s.Missing != want {
			t.Errorf("with another tokenizer, mode %s lacks %q (%s), want %q", s.Mode, s.Missing, s.Reason, want)
		}
	}
	for without, want := range map[string]map[plan.Mode]string{
		"prompt_logprobs": {plan.ModeVerify: "target_without_scoring"},
		"logprobs":        {plan.ModeVerify: ""},
		"":                {plan.ModeVerify: ""},
	} {
		var missing []string
		if without != "" {
			missing = []string{without}
		}
		r := probedRig(t, vllmsim.Options{Seed: 7}, vllmsim.Options{Without: missing})
		rt, err := r.cascade.Route("m")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.cascade.Modes(rt) {
			reason, named := want[s.Mode]
			if named && s.Missing != reason || (s.Missing == "") != (s.Reason == "") {
				t.Errorf("without %q: mode %s lacks %q (%s), want %q", without, s.Mode, s.Missing, s.Reason, reason)
			}
			if !named {
				continue
			}
			r.cfg.Mode = s.Mode
			_, rc, err := r.ask(openai.Chat, plan.Auto, chat("Hello", `,"max_tokens":20`))
			if err != nil || reason != "" && (rc.Tier != plan.Target || rc.Reason() != reason) || reason == "" && !rc.Decision.Judged {
				t.Errorf("without %q: mode %s: from %s, %q, %v", without, s.Mode, rc.Tier, rc.Reason(), err)
			}
		}
	}
}
