package tiers

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

const withUsage = `,"temperature":0,"stream_options":{"include_usage":true}`

// checked answers by drafts that the target checks as a whole.
func checked(t *testing.T) *playedRig {
	t.Helper()
	return newPlayedRig(t, plan.Plan{
		Tier: plan.Draft, Judged: true, Mode: plan.ModeVerify, Scorer: plan.ScorerIDs, Resume: plan.ResumeIDs,
		Whole: true, Checked: true, Rule: plan.RuleExact,
	}, withUsage)
}

// halfRight are engines of which one drafts "abcdefgh", and the other stands by "abcd" and goes on with "xyz".
func halfRight(call engine.Call) (engine.Stream, error) {
	switch c := call.(type) {
	case *engine.Draft:
		return letters("abcdefgh", "stop", nil), nil
	case *engine.Score:
		s := scores(c)
		c.Into.Tokens[4] = openai.Scored{Logprob: -9, Top: -0.01, TopID: 'x'}
		return s, nil
	case *engine.ContinueIDs:
		return letters("xyz", "stop", nil), nil
	case *engine.Relay:
		return relayedAs("fresh"), nil
	}
	return nil, nil
}

func TestAnAnswerOfBothIsWhatTheTargetStandsByAndWhatItWrites(t *testing.T) {
	r := checked(t)
	r.answer = halfRight
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, finish, prompt, completion := r.clientAnswer()
	if text != "abcdxyz" || finish != "stop" || prompt != 3 || completion != 7 ||
		r.rc.AcceptedTokens != 4 || r.rc.TargetTokens != 3 || r.rc.Tier != plan.Mixed {
		t.Errorf("%q, %s, %d and %d tokens; %+v", text, finish, prompt, completion, r.rc)
	}
}

func TestWhereTheTargetCannotSayItWritesAll(t *testing.T) {
	r := checked(t)
	r.answer = func(call engine.Call) (engine.Stream, error) {
		if _, score := call.(*engine.Score); score {
			return nil, &engine.Failure{Kind: engine.ServerError}
		}
		return halfRight(call)
	}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, _, _, _ := r.clientAnswer(); text != "fresh" || r.rc.Verdict.Reason != accept.ReasonNoVerdict || r.rc.Tier != plan.Target {
		t.Errorf("%q from %s, verdict %q", text, r.rc.Tier, r.rc.Verdict.Reason)
	}
}

// asItComes releases a draft of letters.
func asItComes(t *testing.T) *playedRig {
	t.Helper()
	r := newPlayedRig(t, plan.Plan{Tier: plan.Draft, Judged: true, Mode: plan.ModeConfidence, Resume: plan.ResumeIDs}, withUsage)
	r.request.Config.Accept.Threshold, r.request.Config.HoldbackTokens, r.request.Config.Holdback = -100, 2, time.Hour
	return r
}

func TestAContinuationOfMoreBytesThanMayBeBreaksOff(t *testing.T) {
	r := asItComes(t)
	r.request.MaxBody = 12
	r.answer = func(call engine.Call) (engine.Stream, error) {
		switch call.(type) {
		case *engine.Draft:
			return letters("abcdefgh", "", &engine.Failure{Kind: engine.Reset}), nil
		case *engine.ContinueIDs:
			return letters("ijklmnop", "stop", nil), nil
		}
		return nil, nil
	}
	err := r.run(t.Context())
	f, _ := errors.AsType[*engine.Failure](err)
	_, broken := errors.AsType[*BrokenError](err)
	if !broken || f == nil || f.Kind != engine.TooLarge || r.rc.Tries[1].Broke != engine.TooLarge {
		t.Errorf("%v, %+v", err, r.rc.Tries)
	}
	if text, finish, _, _ := r.clientAnswer(); text != "abcdefghijkl" || finish != "" {
		t.Errorf("%q, %s", text, finish)
	}
}

func TestWhereTheClientFailsNothingMoreIsSentAndTheErrorIsItsOwn(t *testing.T) {
	for name, way := range map[string]func(t *testing.T) *playedRig{
		"passed on": func(t *testing.T) *playedRig {
			r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, "")
			r.answer = func(engine.Call) (engine.Stream, error) { return relayedAs("fresh"), nil }
			return r
		},
		"a draft as it comes": func(t *testing.T) *playedRig {
			r := asItComes(t)
			r.answer = func(engine.Call) (engine.Stream, error) { return letters("abcdefgh", "stop", nil), nil }
			return r
		},
		"a draft that is lost": func(t *testing.T) *playedRig {
			r := asItComes(t)
			r.answer = func(call engine.Call) (engine.Stream, error) {
				if _, draft := call.(*engine.Draft); draft {
					return letters("abcd", "", &engine.Failure{Kind: engine.Reset}), nil
				}
				return letters("efgh", "stop", nil), nil
			}
			return r
		},
		"a draft of which the target stands by a part": func(t *testing.T) *playedRig {
			r := checked(t)
			r.answer = halfRight
			return r
		},
	} {
		whole := way(t)
		if err := whole.run(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for at := range whole.writes + 1 {
			r := way(t)
			r.fails = at
			if err := r.run(t.Context()); err != errClient || r.writes != at || r.begun != 1 {
				t.Errorf("%s, failing at write %d of %d: %v after %d", name, at, whole.writes, err, r.writes)
			}
			if sent := r.body.Len(); sent > 0 && !strings.HasPrefix(stripped(whole), stripped(r)) {
				t.Errorf("%s: %q is not the beginning of %q", name, r.body.Bytes(), whole.body.Bytes())
			}
		}
	}
}

// stripped is the text that a client has.
func stripped(r *playedRig) string {
	text, _, _, _ := r.clientAnswer()
	return text
}
