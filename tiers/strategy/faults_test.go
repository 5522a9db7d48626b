package strategy

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

const withUsage = `,"temperature":0,"stream_options":{"include_usage":true}`

// inTurns answers in blocks of four letters.
func inTurns(t *testing.T) *rig {
	t.Helper()
	return newRig(t, plan.Plan{
		Tier: plan.Draft, Judged: true, Mode: plan.ModeVerify, Scorer: plan.ScorerIDs, Resume: plan.ResumeIDs,
		Block: 4, Whole: true, CheckPolicy: accept.CheckExact,
	}, withUsage)
}

// turns are engines that write "abcd" and stand by it with an "e", and then "fgh" and the end.
func turns(call engine.Call) (engine.Stream, error) {
	switch c := call.(type) {
	case *engine.FirstBlock:
		*c.Into = engine.Block{PromptIDs: []int32{1, 2, 3}, IDs: []int32{'a', 'b', 'c', 'd'}, Plain: true}
	case *engine.NextBlock:
		*c.Into = engine.Block{IDs: []int32{'f', 'g', 'h', '$'}, Plain: true, Finish: "stop"}
	case *engine.Score:
		return scores(c, 'e'), nil
	case *engine.Detokenize:
		return worded(c), nil
	case *engine.ContinueIDs:
		return letters("xyz", "stop", nil), nil
	case *engine.ContinueText:
		return letters("xyz", "stop", nil), nil
	case *engine.Relay:
		return relayedAs("fresh"), nil
	default:
		return nil, nil
	}
	return &stream{}, nil
}

func TestAnAnswerInTurnsIsWhatBothWrote(t *testing.T) {
	r := inTurns(t)
	r.answer = turns
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, finish, prompt, completion := r.clientAnswer()
	if text != "abcdefgh" || finish != "stop" || prompt != 3 || completion != 9 ||
		r.rc.AcceptedTokens != 8 || r.rc.TargetTokens != 1 || r.rc.Tier != plan.Mixed {
		t.Errorf("%q, %s, %d and %d tokens; %+v", text, finish, prompt, completion, r.rc)
	}
}

func TestAtAnyFaultOfARoundTheTargetCarriesOn(t *testing.T) {
	broken, prompt := &engine.Failure{Kind: engine.ServerError}, []int32{1, 2, 3}
	for name, tc := range map[string]struct {
		block  *engine.Block // that comes instead; nil is what is owed
		draft  error         // why none does
		score  error
		reason string
	}{
		"no draft":       {draft: broken, reason: draft.ReasonLost},
		"no ids":         {block: &engine.Block{PromptIDs: prompt, Plain: true}, reason: ReasonBlock},
		"more than text": {block: &engine.Block{PromptIDs: prompt, IDs: []int32{'z'}}, reason: ReasonBlock},
		"given up":       {block: &engine.Block{PromptIDs: prompt, IDs: []int32{'z'}, Plain: true, Finish: "abort"}, reason: ReasonBlock},
		"an unknown end": {block: &engine.Block{PromptIDs: prompt, IDs: []int32{'z'}, Plain: true, Finish: "stop"}, reason: ReasonBlock},
		"no word":        {score: broken, reason: accept.ReasonNoVerdict},
	} {
		for round, want := range map[int]string{1: "fresh", 2: "abcdexyz"} {
			r := inTurns(t)
			at := 0
			r.answer = func(call engine.Call) (engine.Stream, error) {
				s, err := turns(call)
				var into *engine.Block
				switch c := call.(type) {
				case *engine.FirstBlock:
					at, into = 1, c.Into
				case *engine.NextBlock:
					at, into = 2, c.Into
				case *engine.Score:
					if at == round && tc.score != nil {
						f := *broken
						return nil, &f
					}
				}
				if into == nil || at != round {
					return s, err
				}
				if tc.draft != nil {
					f := *broken
					return nil, &f
				}
				if tc.block != nil {
					*into = *tc.block
				}
				return s, err
			}
			if err := r.run(t.Context()); err != nil {
				t.Errorf("%s in round %d: %v", name, round, err)
				continue
			}
			reason, why := r.rc.Verdict.Reason, tc.reason
			if round == 1 && tc.draft != nil {
				reason, why = r.rc.Plan.Reason, reasonUnavailable // nothing was drafted at all
			}
			if text, _, _, _ := r.clientAnswer(); text != want || reason != why || (len(r.rc.Failovers) == 1) != (round == 2) {
				t.Errorf("%s in round %d: %q for %s, want %q for %s; calls %v", name, round, text, reason, want, why, r.calls)
			}
		}
	}
}

func TestWithoutFailoverAFaultAfterTheFirstBlockBreaksTheAnswer(t *testing.T) {
	r := inTurns(t)
	r.request.Config.MidstreamFailover = false
	r.answer = func(call engine.Call) (engine.Stream, error) {
		if _, second := call.(*engine.NextBlock); second {
			return nil, &engine.Failure{Kind: engine.ServerError}
		}
		return turns(call)
	}
	err := r.run(t.Context())
	if broken, ok := errors.AsType[*BrokenError](err); !ok || !errors.Is(broken, errDraft) {
		t.Errorf("%v", err)
	}
}

// The five ids of the first block are four letters and a part of a character, so that nobody can go on from any place
// that the client has by ids.
func TestAContinuationByTextBehindBlocksKeepsTheLengthOfTheirPrompt(t *testing.T) {
	r := inTurns(t)
	r.answer = func(call engine.Call) (engine.Stream, error) {
		switch c := call.(type) {
		case *engine.NextBlock:
			return nil, &engine.Failure{Kind: engine.ServerError}
		case *engine.Detokenize:
			s := worded(c)
			if (*c.Into)[len(*c.Into)-1] = '?'; len(c.IDs) > 4 {
				*c.Into = append((*c.Into)[:4], "\uFFFD"...)
			}
			return s, nil
		}
		return turns(call)
	}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, _, prompt, _ := r.clientAnswer()
	if r.calls[len(r.calls)-1] != "ContinueText" || text != "abcdxyz" || prompt != 3 || r.rc.PromptTokens != 3 {
		t.Errorf("%q behind a prompt of %d and %d tokens, by %v", text, prompt, r.rc.PromptTokens, r.calls)
	}
}

// drawn answers by drafts that are thinned.
func drawn(t *testing.T) *rig {
	t.Helper()
	return newRig(t, plan.Plan{
		Tier: plan.Draft, Judged: true, Mode: plan.ModeVerify, Scorer: plan.ScorerIDs, Resume: plan.ResumeIDs,
		Sampled: true, Whole: true, CheckPolicy: accept.CheckExact,
	}, `,"temperature":1`)
}

func TestWhereADraftCannotBeSampledTheTargetWritesAll(t *testing.T) {
	for name, tc := range map[string]struct {
		draft       func(d *engine.ListedDraft) error
		set         func(r *rig)
		approximate bool   // whether it is drafted may hang on what the draft says
		reason      string // of the verdict; "" is that there is none
		why         string // there is none
		calls       string
	}{
		"no draft": {draft: func(*engine.ListedDraft) error { return &engine.Failure{Kind: engine.ServerError} },
			why: reasonUnavailable, calls: "DraftListed Relay"},
		"unlisted": {draft: func(d *engine.ListedDraft) error { d.Err = engine.ErrListed; return nil },
			approximate: true, reason: accept.ReasonNoVerdict, calls: "DraftListed Relay"},
		"more than text": {draft: func(d *engine.ListedDraft) error { d.Plain = false; return nil },
			approximate: true, reason: accept.ReasonNoVerdict, calls: "DraftListed Relay"},
		"without its prompt": {draft: func(d *engine.ListedDraft) error { d.PromptIDs = nil; return nil },
			approximate: true, reason: accept.ReasonNoVerdict, calls: "DraftListed Relay"},
		"given up": {draft: func(d *engine.ListedDraft) error { d.Finish = "abort"; return nil },
			approximate: true, reason: accept.ReasonNoVerdict, calls: "DraftListed Relay"},
		"a prompt as long as what may be scored": {set: func(r *rig) { r.request.Config.Scoring.MaxTokens = 3 },
			why: reasonUnavailable, calls: "DraftListed Relay"},
		"no score":              {approximate: true, reason: accept.ReasonNoVerdict, calls: "DraftListed ScoreListed Relay"},
		"a target nobody knows": {set: func(r *rig) { r.request.Target.Capabilities = nil }, why: "target_unprobed", calls: "Relay"},
	} {
		r := drawn(t)
		if tc.set != nil {
			tc.set(r)
		}
		r.answer = func(call engine.Call) (engine.Stream, error) {
			switch c := call.(type) {
			case *engine.DraftListed:
				c.Into.DraftAnswer = openai.DraftAnswer{Choices: 1, Plain: true, PromptIDs: []int32{1, 2, 3}, IDs: []int32{'a', 'b'}, Finish: "stop"}
				c.Into.Places = make([][]accept.Token, 2)
				if tc.draft != nil {
					if err := tc.draft(c.Into); err != nil {
						return nil, err
					}
				}
				return &stream{}, nil
			case *engine.Relay:
				return relayedAs("fresh"), nil
			}
			return nil, nil
		}
		if err := r.run(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, _, _, _ := r.clientAnswer()
		calls := strings.Join(r.calls, " ")
		if text != "fresh" || calls != tc.calls || r.rc.Approximate != tc.approximate ||
			r.rc.Verdict.Reason != tc.reason || tc.why != "" && r.rc.Plan.Reason != tc.why {
			t.Errorf("%s: %q by %s, approximate %v, verdict %q, plan %q", name, text, calls, r.rc.Approximate, r.rc.Verdict.Reason, r.rc.Plan.Reason)
		}
		if r.rc.Tier != plan.Target || r.rc.AcceptedTokens != 0 {
			t.Errorf("%s: from %s, %d accepted", name, r.rc.Tier, r.rc.AcceptedTokens)
		}
	}
}

// asItComes releases a draft of letters.
func asItComes(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, plan.Plan{Tier: plan.Draft, Judged: true, Mode: plan.ModeConfidence, Resume: plan.ResumeIDs}, withUsage)
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
	if !broken || f == nil || f.Kind != engine.BadResponse || !errors.Is(f, engine.ErrBody) || r.rc.Tries[1].Broke != engine.BadResponse {
		t.Errorf("%v, %+v", err, r.rc.Tries)
	}
	if text, finish, _, _ := r.clientAnswer(); text != "abcdefghijkl" || finish != "" {
		t.Errorf("%q, %s", text, finish)
	}
}

func TestWhereTheClientFailsNothingMoreIsSentAndTheErrorIsItsOwn(t *testing.T) {
	for name, way := range map[string]func(t *testing.T) *rig{
		"passed on": func(t *testing.T) *rig {
			r := newRig(t, plan.Plan{Tier: plan.Target}, "")
			r.answer = func(engine.Call) (engine.Stream, error) { return relayedAs("fresh"), nil }
			return r
		},
		"a draft as it comes": func(t *testing.T) *rig {
			r := asItComes(t)
			r.answer = func(engine.Call) (engine.Stream, error) { return letters("abcdefgh", "stop", nil), nil }
			return r
		},
		"a draft that is lost": func(t *testing.T) *rig {
			r := asItComes(t)
			r.answer = func(call engine.Call) (engine.Stream, error) {
				if _, draft := call.(*engine.Draft); draft {
					return letters("abcd", "", &engine.Failure{Kind: engine.Reset}), nil
				}
				return letters("efgh", "stop", nil), nil
			}
			return r
		},
		"in turns": func(t *testing.T) *rig {
			r := inTurns(t)
			r.answer = turns
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
func stripped(r *rig) string {
	text, _, _, _ := r.clientAnswer()
	return text
}
