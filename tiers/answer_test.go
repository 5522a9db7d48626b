package tiers

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// By text it could not be known that the target would have written the rest so.
func TestNothingOfACheckedDraftIsContinuedByText(t *testing.T) {
	r := checked(t)
	r.request.Plan.Resume, r.answer = plan.ResumeText, halfRight
	err := r.run(t.Context())
	if text, _, _, _ := r.clientAnswer(); err != nil || text != "fresh" || slices.Contains(r.calls, "ContinueText") {
		t.Errorf("%v: %q; calls %v", err, text, r.calls)
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
	r.answer = lostAfter("abcdefgh", "ijklmnop", engine.Reset)
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

// stripped is the text that a client has.
func stripped(r *playedRig) string {
	text, _, _, _ := r.clientAnswer()
	return text
}

// lostAfter has a draft of letters be lost, and the target say the rest.
func lostAfter(draft, rest string, how engine.FailureKind) func(engine.Call) (engine.Stream, error) {
	return func(call engine.Call) (engine.Stream, error) {
		if _, drafts := call.(*engine.Draft); drafts {
			return letters(draft, "", &engine.Failure{Kind: how}), nil
		}
		return letters(rest, "stop", nil), nil
	}
}

// waysToAnswer are rigs whose answers come about in all ways.
var waysToAnswer = map[string]func(t *testing.T) *playedRig{
	"passed on": func(t *testing.T) *playedRig {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, "")
		r.answer = func(engine.Call) (engine.Stream, error) { return relayedAs("fresh"), nil }
		return r
	},
	"in one piece": func(t *testing.T) *playedRig {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, "")
		r.request.Body.Stream = false
		r.answer = func(call engine.Call) (engine.Stream, error) { return afresh(t, call.(*engine.Relay)), nil }
		return r
	},
	"a draft as it comes": func(t *testing.T) *playedRig {
		r := asItComes(t)
		r.answer = func(engine.Call) (engine.Stream, error) { return letters("abcdefgh", "stop", nil), nil }
		return r
	},
	"a draft that is lost": func(t *testing.T) *playedRig {
		r := asItComes(t)
		r.answer = lostAfter("abcd", "efgh", engine.Reset)
		return r
	},
	"a draft that is lost, by text": func(t *testing.T) *playedRig {
		r := asItComes(t)
		r.request.Plan.Resume, r.answer = plan.ResumeText, lostAfter("It rains. It po", "It pours.", engine.Reset)
		return r
	},
	"a draft in one piece": func(t *testing.T) *playedRig {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Draft, Judged: true, Mode: plan.ModeConfidence, Whole: true, Calls: true}, "")
		r.request.Config.Accept.Threshold = -100
		r.answer = func(call engine.Call) (engine.Stream, error) {
			a, err := openai.ParseDraftAnswer([]byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"ab"},
				"logprobs":{"content":[{"token":"a","logprob":-0.1,"top_logprobs":[]},{"token":"b","logprob":-0.1,"top_logprobs":[]}]},
				"finish_reason":"stop","token_ids":[1,2]}],"prompt_token_ids":[1,2,3],"usage":{"prompt_tokens":3,"completion_tokens":2}}`), false)
			if err != nil {
				t.Fatal(err)
			}
			*call.(*engine.Answer).Into = a
			return &stream{}, nil
		}
		return r
	},
	"a draft of which the target stands by a part": func(t *testing.T) *playedRig {
		r := checked(t)
		r.answer = halfRight
		return r
	},
}

func TestWhereTheClientFailsNothingMoreIsSentAndTheErrorIsItsOwn(t *testing.T) {
	for name, way := range waysToAnswer {
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
			if len(r.rc.Checks) != len(whole.rc.Checks) || r.rc.ScoredTokens != whole.rc.ScoredTokens {
				t.Errorf("%s: %d checks of %d tokens are booked, want %d of %d", name, len(r.rc.Checks), r.rc.ScoredTokens, len(whole.rc.Checks), whole.rc.ScoredTokens)
			}
			if sent := r.body.Len(); sent > 0 && !strings.HasPrefix(stripped(whole), stripped(r)) {
				t.Errorf("%s: %q is not the beginning of %q", name, r.body.Bytes(), whole.body.Bytes())
			}
		}
	}
}

// panickyStream panics when it is read.
type panickyStream struct{ stream }

func (*panickyStream) Next(engine.Want) (*openai.Chunk, error) { panic("of a stream") }

// panicky is a client that panics.
type panicky struct{ *playedRig }

func (panicky) Begin(ResponseHead) error { panic("of a client") }

func TestAPanicOfARequestGivesBackAllThatItHeld(t *testing.T) {
	run := func(name string, r *playedRig, must bool) {
		defer func() {
			if recover() == nil && must {
				t.Errorf("%s: no panic", name)
			}
			r.permitReturned()
		}()
		_ = r.run(t.Context())
	}
	for name, way := range waysToAnswer {
		whole := way(t)
		run(name, whole, false)
		for at := range whole.writes + 1 {
			r := way(t)
			r.fails, r.panics = at, true
			run(name+", at the client", r, true)
		}
		for at := range whole.calls {
			for _, reads := range []bool{false, true} {
				r, asked := way(t), 0
				answer := r.answer
				r.answer = func(call engine.Call) (engine.Stream, error) {
					switch asked++; {
					case asked-1 != at:
						return answer(call)
					case reads:
						return &panickyStream{}, nil
					}
					panic("of an engine")
				}
				run(name+", at an engine", r, !reads) // of a score nothing is read
			}
		}
	}
	env, err := openai.Peek("/v1/embeddings", []byte(`{"model":"m","input":"hello"}`), openai.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	r := newPlayedRig(t, plan.Plan{}, "")
	c := New(allOptions(passing{}))
	c.SetRoutes([]Route{{Model: "m", Target: r.request.Target.Pool, Config: testConfig}})
	defer func() {
		if recover() == nil {
			t.Error("no panic of what passes through")
		}
		r.permitReturned()
	}()
	_, _ = forwardBy(t.Context(), c, "/v1/embeddings", env, panicky{r})
}

// TestAnAnswerWithItsUsageSoFarMayBeADraft asks for the usage in every chunk (continuous_usage_stats), as benchmarks do.
func TestAnAnswerWithItsUsageSoFarMayBeADraft(t *testing.T) {
	for way, kind := range map[string]openai.Kind{"a draft as it comes": openai.Completion, "a draft that is lost": openai.Chat} {
		r := waysToAnswer[way](t)
		r.request.Body.Kind, r.request.Body.UsageSoFar = kind, true
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		made := 0
		for line := range strings.Lines(r.body.String()) {
			data, ok := strings.CutPrefix(line, "data: {")
			if !ok {
				continue
			}
			var c wireChunk
			if err := json.Unmarshal([]byte("{"+data), &c); err != nil {
				t.Fatal(err)
			}
			switch {
			case c.Usage == nil && (len(c.Choices) == 0 || c.Choices[0].Finish == ""):
				t.Errorf("%s: no usage in %s", way, data)
			case c.Usage != nil && (c.Usage.Prompt != 3 || c.Usage.Completion < made):
				t.Errorf("%s: %+v after %d in %s", way, *c.Usage, made, data)
			case c.Usage != nil:
				made = c.Usage.Completion
			}
		}
		if made != 8 || made != r.rc.AcceptedTokens+r.rc.TargetTokens {
			t.Errorf("%s: the last chunk tells %d tokens, the receipt %d", way, made, r.rc.AcceptedTokens+r.rc.TargetTokens)
		}
	}
}

func TestADraftThatFallsSilentBeforeItIsSentIsLeftWithoutFailover(t *testing.T) {
	r := asItComes(t)
	r.request.Config.HoldbackTokens, r.request.Config.MidstreamFailover = 1000, false
	r.answer = lostAfter("It rains. It po", "urs.", engine.Silent)
	if err := r.run(t.Context()); err != nil || r.rc.Tier != plan.Mixed || r.rc.Tries[0].Broke != engine.Silent {
		t.Errorf("%v; %s, %+v", err, r.rc.Tier, r.rc.Tries)
	}
}

func TestADraftThatIsTheAnswerThoughItsFaultWasSeenTooLateIsNotCalledRejected(t *testing.T) {
	r := asItComes(t)
	r.answer = func(engine.Call) (engine.Stream, error) {
		return letters("released and then", "content_filter", nil), nil
	}
	if err := r.run(t.Context()); err != nil || r.rc.Tier != plan.Draft || r.rc.Verdict.Accept || r.rc.Verdict.Reason != accept.ReasonCut {
		t.Fatalf("%v: tier %s, %+v", err, r.rc.Tier, r.rc.Verdict)
	}
	if word, reason := r.rc.Outcome(); word != "accepted" || reason != "late_cut_short" {
		t.Errorf("the answer says %s, %s", word, reason)
	}
}

// Also where no ids are told, and loops show in the text only.
func TestADraftThatBeginsToRunInCirclesIsContinuedByTheTarget(t *testing.T) {
	for _, ids := range []bool{true, false} {
		r := asItComes(t)
		r.request.MaxBody, r.request.Body.MaxTokens, r.request.Config.HoldbackTokens = 1<<20, 2000, 16
		r.answer = func(call engine.Call) (engine.Stream, error) {
			if _, draft := call.(*engine.Draft); !draft {
				return letters("TARGET", "stop", nil), nil
			}
			s := letters("It begins well, and after some time of saying what it has to say "+strings.Repeat("wxyz", 250), "stop", nil)
			for i := range s.chunks {
				if !ids {
					s.chunks[i].IDs = nil
				}
			}
			return s, nil
		}
		err := r.run(t.Context())
		text, _, _, _ := r.clientAnswer()
		if err != nil || r.rc.Tier != plan.Mixed || r.rc.Verdict.Reason != accept.ReasonRepetition || !strings.HasSuffix(text, "TARGET") {
			t.Errorf("ids %t: tier %s, %+v, %v, %q", ids, r.rc.Tier, r.rc.Verdict, err, text)
		}
		if n := strings.Count(text, "wxyz"); ids && n > 4 || n > 200 {
			t.Errorf("ids %t: the client got the phrase %d times", ids, n)
		}
	}
}

func TestAStopStringWithinAChunkOfSeveralTokensEndsTheCountThere(t *testing.T) {
	for _, stream := range []bool{true, false} {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Draft, Judged: true, Whole: !stream}, `,"stop":["two"]`)
		r.request.Body.Stream, r.request.Config.Accept.Threshold = stream, -100
		r.answer = func(engine.Call) (engine.Stream, error) {
			s := letters("x", "", nil)
			c := &s.chunks[0]
			c.Text, c.IDs, c.Logprobs, c.TokenBytes = []byte("one two three four"), []int32{5, 6, 7, 8}, make([]float64, 4), []int{3, 4, 6, 5}
			for range 3 {
				c.AddTop(-0.01, -5)
			}
			return s, nil
		}
		err := r.run(t.Context())
		if u := r.request.usage(); err != nil || !strings.Contains(r.body.String(), `"one "`) || u.Completion != 2 || r.rc.AcceptedTokens != 2 {
			t.Errorf("stream %v: %s, %+v, %v", stream, r.body.String(), u, err)
		}
	}
}

func TestEveryWayOfAnsweringHasTheRequestsDeadline(t *testing.T) {
	const long = 6800*time.Second + 30*time.Second + time.Minute // for 680 tokens
	for name, tc := range map[string]struct {
		plan  plan.Plan
		limit int
		whole bool
		want  time.Duration
	}{
		"a draft":                {plan.Plan{Tier: plan.Draft, Judged: true}, 680, false, long},
		"a draft in one piece":   {plan.Plan{Tier: plan.Draft, Judged: true, Whole: true, Calls: true}, 680, true, long},
		"the target":             {plan.Plan{Tier: plan.Target}, 680, false, long},
		"the target's, in one":   {plan.Plan{Tier: plan.Target}, 680, true, long},
		"a short answer":         {plan.Plan{Tier: plan.Target}, 8, false, 10 * time.Minute},
		"a chat without a limit": {plan.Plan{Tier: plan.Target}, -1, false, 3 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newPlayedRig(t, tc.plan, "")
			r.request.Body.MaxTokens, r.request.Body.Stream = tc.limit, !tc.whole
			r.request.Config.Timeouts = plan.Timeouts{
				DraftFirstToken: 30 * time.Second, TargetFirstToken: 30 * time.Second, StreamIdle: time.Minute,
				Total: 10 * time.Minute, MaxTotal: 3 * time.Hour, MinTokensPerSecond: 0.1,
			}
			r.answer = func(engine.Call) (engine.Stream, error) { return nil, nil }
			_ = r.run(t.Context())
			if len(r.left) == 0 || slices.Min(r.left) != tc.want || slices.Max(r.left) != tc.want {
				t.Errorf("%s: the calls %v had %v, want %v", name, r.calls, r.left, tc.want)
			}
		})
	}
}
