package tiers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// own is what the target says to a request when it is asked alone.
func (r *rig) own(body string) reply {
	r.t.Helper()
	return direct(r.t, r.target.URL(), "/v1/chat/completions", strings.Replace(body, `"m"`, `"big"`, 1))
}

func TestADraftOfAnotherTokenizerIsScoredInTheTargetsTokens(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.3, Tokenizer: "other"}, vllmsim.Options{})
	r.cfg.Mode = plan.ModeVerify
	tiers := map[plan.Tier]int{}
	for i, p := range prompts(sample(12, 24)) {
		body := chat(p, fmt.Sprintf(`,"max_tokens":300,"stream":%v`, i%2 == 0))
		got, rc, err := r.ask(openai.Chat, plan.Auto, body)
		if err != nil {
			t.Fatal(err)
		}
		if want := r.own(body); got.text != want.text || got.finish != want.finish || rc.Decision.Scorer != plan.ScorerText {
			t.Errorf("%q: %s, %s\n got %q\nwant %q", p, rc.Tier, rc.Decision.Scorer, got.text, want.text)
		}
		tiers[rc.Tier]++
	}
	if tiers[plan.Draft] == 0 || tiers[plan.Mixed] == 0 {
		t.Errorf("answers by tier %v: the test shows nothing", tiers)
	}
}

func TestADraftWithoutIdsOfItsPromptIsScoredByItsText(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.1, Without: []string{"prompt_token_ids"}}, vllmsim.Options{})
	r.cfg.Mode = plan.ModeVerify
	for i, p := range prompts(4) {
		body := chat(p, fmt.Sprintf(`,"max_tokens":40,"stream":%v`, i%2 == 0))
		got, rc, err := r.ask(openai.Chat, plan.Auto, body)
		if err != nil || rc.Decision.Scorer != plan.ScorerText || len(rc.Checks) != 1 ||
			rc.Checks[0].Reason != accept.ReasonTargetAgrees && rc.Checks[0].Reason != accept.ReasonTargetDisagrees || got.text != r.own(body).text {
			t.Errorf("%q: scored by %s, %+v, %v", p, rc.Decision.Scorer, rc.Checks, err)
		}
	}
}

func TestALenientRuleServesOnlyWhatTheTargetStandsBy(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.3}, vllmsim.Options{})
	r.cfg.Mode, r.cfg.VerifyRule = plan.ModeVerify, plan.RuleLenient
	tiers := map[plan.Tier]int{}
	for i, p := range prompts(sample(16, 40)) {
		_, rc, err := r.ask(openai.Chat, plan.Auto, chat(p, fmt.Sprintf(`,"max_tokens":300,"stream":%v`, i%2 == 0)))
		if err != nil || len(rc.Checks) != 1 {
			t.Fatalf("%+v, %v", rc.Checks, err)
		}
		if c := rc.Checks[0]; rc.AcceptedTokens > c.Kept || c.Pass && rc.Tier != plan.Draft {
			t.Errorf("%d tokens of the draft in the answer from %s, by %+v", rc.AcceptedTokens, rc.Tier, c)
		}
		tiers[rc.Tier]++
	}
	if tiers[plan.Draft] == 0 || tiers[plan.Mixed] == 0 {
		t.Errorf("answers by tier %v: the test shows nothing", tiers)
	}
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

func TestWhatWasScoredForAClientThatLeftIsBooked(t *testing.T) {
	r := probedRig(t, vllmsim.Options{Seed: 7, Divergence: 0.2}, vllmsim.Options{})
	r.cfg.Mode = plan.ModeVerify
	req, err := openai.Scan(openai.Chat, []byte(chat("Tell me", `,"max_tokens":200,"stream":true`)), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	rc, err := answerBy(t.Context(), r.cascade, arrival{Body: req, ID: "x"}, &leftAlready{})
	if !errors.Is(err, context.Canceled) || len(rc.Checks) != 1 || rc.ScoredTokens == 0 {
		t.Errorf("%v after %d checks; %d tokens scored", err, len(rc.Checks), rc.ScoredTokens)
	}
}

// leftAlready is a client that cannot be written to.
type leftAlready struct{ collector }

func (*leftAlready) Write([]byte) error { return context.Canceled }
