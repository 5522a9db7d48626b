package tiers

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
)

// brokenRelay is a relayed answer that breaks off behind its first words.
func brokenRelay() *stream {
	const raw = `{"model":"big","choices":[{"index":0,"delta":{"content":"Some words "},"finish_reason":null}]}`
	return &stream{err: &engine.Failure{Kind: engine.Cut}, chunks: []openai.Chunk{{
		Raw: []byte(raw), Model: openai.Span{Start: 9, End: 14}, Close: len(raw) - 1, Choices: 1, Plain: true, Text: []byte("Some words "),
	}}}
}

func TestAnAnswerThatBreaksOffIsContinuedOnlyByEnginesThatContinueTexts(t *testing.T) {
	for kind, continued := range map[dialect.Kind]bool{
		"": true, dialect.VLLM: true, dialect.SGLang: true, dialect.LlamaCpp: true, dialect.OpenAI: false,
	} {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, "")
		r.request.Target.Capabilities = &probe.Capabilities{Engine: kind}
		r.answer = func(call engine.Call) (engine.Stream, error) {
			switch c := call.(type) {
			case *engine.Relay:
				return brokenRelay(), nil
			case *engine.TokenizeText:
				*c.Into = make([]int32, 2)
				return &stream{}, nil
			case *engine.ContinueText:
				return letters(strings.TrimPrefix("Some words that follow", string(c.Text)), "stop", nil), nil
			}
			return nil, nil
		}
		err := r.run(t.Context())
		broken, is := errors.AsType[*BrokenError](err)
		if asked := slices.Contains(r.calls, "ContinueText"); asked != continued || is == continued {
			t.Errorf("%q: calls %v, %v", kind, r.calls, broken)
		}
		if text, _, _, _ := r.clientAnswer(); continued && text != "Some words that follow" || !continued && text != "Some words " {
			t.Errorf("%q: the client has %q", kind, text)
		}
	}
}

// TestATargetThatContinuesNothingAnswersAfresh: its client has nothing of a draft that breaks off.
func TestATargetThatContinuesNothingAnswersAfresh(t *testing.T) {
	r := newPlayedRig(t, plan.Plan{}, `,"temperature":0`)
	r.request.Target.Capabilities = &probe.Capabilities{Engine: dialect.OpenAI}
	r.request.Config.Mode, r.request.Config.MaxPromptTokens = plan.ModeConfidence, 1000
	r.request.Config.Accept = accept.Config{Threshold: -100}
	r.request.Plan = plan.Make(r.request.Config, plan.Facts{
		Request: r.request.Body, HasDraft: true, SameTokenizer: true, Draft: r.request.Draft.Capabilities, Target: r.request.Target.Capabilities,
	})
	r.answer = func(call engine.Call) (engine.Stream, error) {
		switch call.(type) {
		case *engine.Draft:
			return letters("a draft that breaks off in the middle of its words", "", &engine.Failure{Kind: engine.Cut}), nil
		case *engine.Relay:
			return relayedAs("fresh"), nil
		}
		return nil, nil
	}
	err := r.run(t.Context())
	if text, finish, _, _ := r.clientAnswer(); err != nil || text != "fresh" || finish != "stop" || !slices.Equal(r.calls, []string{"Draft", "Relay"}) {
		t.Errorf("%v: %q, %s; calls %v", err, text, finish, r.calls)
	}
	if r.rc.Tier != plan.Target || r.rc.AcceptedTokens != 0 || r.rc.WastedTokens == 0 {
		t.Errorf("%+v", r.rc)
	}
}
