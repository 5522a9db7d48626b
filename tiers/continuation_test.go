package tiers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/world"
)

// afresh is the target's own answer in one piece.
func afresh(t *testing.T, c *engine.Relay) *stream {
	t.Helper()
	body := []byte(`{"model":"big","choices":[{"index":0,"message":{"role":"assistant","content":"fresh"},"finish_reason":"stop"}]}`)
	a, err := openai.ParseAnswer(body)
	if err != nil {
		t.Fatal(err)
	}
	*c.Into = a
	return &stream{}
}

func TestAContinuationOfACheckedDraftThatBreaksOffCostsNothingThatWasNotSent(t *testing.T) {
	r := checked(t)
	r.request.Body.Stream = false
	r.answer = func(call engine.Call) (engine.Stream, error) {
		switch c := call.(type) {
		case *engine.ContinueIDs:
			return letters("x", "", &engine.Failure{Kind: engine.Cut}), nil
		case *engine.Relay:
			return afresh(t, c), nil
		}
		return halfRight(call)
	}
	err := r.run(t.Context())
	if o := r.rc; err != nil || o.Tier != plan.Target || o.AcceptedTokens != 0 || o.WastedTokens != 8 || r.begun != 1 ||
		!strings.Contains(r.body.String(), "fresh") {
		t.Errorf("%v: %+v, %d heads, %s", err, o, r.begun, r.body.String())
	}
}

func TestAnAnswerThatIsNotWrittenAgainAsItWasSentIsBrokenOff(t *testing.T) {
	for _, leaves := range []bool{false, true} { // the client, meanwhile
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, "")
		r.answer = func(call engine.Call) (engine.Stream, error) {
			if c, counts := call.(*engine.TokenizeText); counts {
				*c.Into = make([]int32, len(c.Text))
				return &stream{}, nil
			}
			if leaves {
				leave()
			}
			return letters("ZZ", "stop", nil), nil
		}
		a := r.answering()
		if err := a.client.open(0); err != nil {
			t.Fatal(err)
		}
		text := draft.NewTranscript(draft.TranscriptOptions{Text: []byte("what was sent"), Sent: 13})
		text.Rewind(draft.CutPoint{Tokens: 1, Text: 4})
		c := &continuation{answer: a, t: text, pool: r.request.Target}
		err := c.carryOn(ctx, draft.CutPoint{Tokens: 1, Text: 4})
		if _, broken := errors.AsType[*BrokenError](err); broken != leaves || !leaves && err != nil {
			t.Errorf("leaves %v: %v", leaves, err)
		}
		if verdict, _, _, _ := r.clientAnswer(); !leaves && verdict != "ZZ" {
			t.Errorf("%q follows what was sent", verdict)
		}
	}
}

func TestABackendThatHangsUpDoesNotEndAnAnswer(t *testing.T) {
	for _, tier := range []plan.Tier{plan.Target, plan.Draft} {
		hangsUp(t, tier)
	}
}

// hangsUp has an answer of one tier break off as often as it is carried on with.
func hangsUp(t *testing.T, tier plan.Tier) {
	t.Helper()
	const half = `{"id":"a","created":1,"model":"big","choices":[{"index":0,"delta":{"content":"half"},"finish_reason":null}]}`
	r := newPlayedRig(t, plan.Plan{Tier: tier}, "")
	segments := 0
	r.answer = func(call engine.Call) (engine.Stream, error) {
		if c, counts := call.(*engine.TokenizeText); counts {
			*c.Into = make([]int32, len(c.Text))
			return &stream{}, nil
		}
		var parser openai.ChunkParser
		chunk, err := parser.Parse([]byte(half))
		if err != nil {
			t.Fatal(err)
		}
		segments++
		return &stream{chunks: []openai.Chunk{*chunk}, err: &engine.Failure{Kind: engine.Cut, Err: io.EOF}}, nil
	}
	err := r.run(t.Context())
	if _, broken := errors.AsType[*BrokenError](err); !broken || segments != 1+maxFailovers || strings.Contains(r.body.String(), openai.Done) {
		t.Errorf("%v after %d segments: %s", err, segments, r.body.String())
	}
}

func TestAnAuditThatPanicsAsItTakesADraftOverHoldsNoPlace(t *testing.T) {
	r := newPlayedRig(t, plan.Plan{Tier: plan.Draft, Judged: true}, "")
	r.request.audits = audit.New(audit.Options{World: world.System{}})
	r.request.audits.Tasks.Begin(t.Context())
	r.request.Config.Risk.MaxConcurrentAudits = 1
	r.request.Retain = func() func() { panic("of an audit") }
	r.answer = func(engine.Call) (engine.Stream, error) { return letters("x", "", nil), nil }
	r.begin()
	r.rc.Decision.Audit = &plan.AuditDecision{Own: risk.Decision{Audited: true, Floor: -100}}
	defer func() {
		if recover() != "of an audit" {
			t.Error("no panic of the audit")
		}
		r.permitReturned()
	}()
	_ = r.request.answer(t.Context(), Delivery{Sink: r}, &auditor{Request: r.request})
}

func TestATargetThatCouldNotCarryOnCountsUntilItsFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Draft, Judged: true, Whole: true, Resume: plan.ResumeIDs}, "")
		r.request.Body.Stream = false
		r.request.Config.Accept.Threshold = -100
		r.answer = func(call engine.Call) (engine.Stream, error) {
			switch c := call.(type) {
			case *engine.Draft:
				return letters("abcdefghijkl", "", &engine.Failure{Kind: engine.Cut}), nil
			case *engine.Relay:
				time.Sleep(time.Second)
				return afresh(t, c), nil
			}
			time.Sleep(3 * time.Second)
			return nil, nil
		}
		err := r.run(t.Context())
		if o := r.rc; err != nil || o.Tier != plan.Target || o.First != 4*time.Second {
			t.Errorf("%v: %+v; calls %v", err, o, r.calls)
		}
	})
}

// How many tokens the context still holds nobody knows who has no ids of the prompt, and engines refuse more than that.
func TestAContinuationByTextNamesNoLimitThatTheClientDidNot(t *testing.T) {
	for limit, want := range map[int]int{-1: 0, 40: 37} {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, "")
		r.request.Body.MaxTokens = limit
		r.request.ContextWindow = func(string) int { return 100 }
		a := r.answering()
		c := &continuation{answer: a, t: draft.NewTranscript(draft.TranscriptOptions{Text: []byte("some")}), pool: r.request.Target}
		at := c.t.End(3)
		if call, _ := c.byIDs(at); call != nil {
			t.Errorf("limit %d: by ids that nobody knows: %+v", limit, call)
		}
		call, _ := c.byText(at)
		if text := call.(*engine.ContinueText); text.MaxTokens != want {
			t.Errorf("limit %d: %d tokens, want %d", limit, text.MaxTokens, want)
		}
	}
}

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

// cutAfter is the target's own answer, whose backend is lost after these frames.
func cutAfter(frames ...string) *stream {
	s := &stream{err: &engine.Failure{Kind: engine.Cut}}
	for _, text := range frames {
		raw := fmt.Sprintf(`{"model":"big","choices":[{"index":0,"delta":{"content":%q}}]}`, text)
		s.chunks = append(s.chunks, openai.Chunk{
			Raw: []byte(raw), Model: openai.Span{Start: 9, End: 14}, Close: len(raw) - 1, Choices: 1, Plain: true, Text: []byte(text),
		})
	}
	return s
}

// TestATextThatNobodyCountedIsNeverTakenForMoreTokensThanItHas: the answer's backend is lost, and no engine counts its tokens.
// The next one may write at least as many as are left.
func TestATextThatNobodyCountedIsNeverTakenForMoreTokensThanItHas(t *testing.T) {
	for _, tc := range []struct {
		stop   string
		frames []string
		left   int // of 40
	}{
		{"", []string{"one", " two", " and", " more"}, 37}, // up to the last whole word
		{"", []string{"one two three four five", " six"}, 39},
		{`,"stop":["abcd"]`, []string{"one", " two", " three", " four", " more"}, 39}, // the engine may be three bytes behind, of a token each
		{`,"stop":["abcd"]`, []string{"one", " two", " more"}, 40},
	} {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, tc.stop)
		left := -1
		r.answer = func(call engine.Call) (engine.Stream, error) {
			switch q := call.(type) {
			case *engine.Relay:
				return cutAfter(tc.frames...), nil
			case *engine.ContinueText:
				if left < 0 { // it does not repeat the last word, and is asked again
					left = q.MaxTokens
				}
				return letters(" end", "stop", nil), nil
			}
			return nil, &engine.Failure{Kind: engine.Rejected} // it counts nothing
		}
		if err := r.run(t.Context()); err != nil || left != tc.left || !r.rc.Estimated || r.rc.Failovers[0].At <= 0 {
			t.Errorf("%q%s: %d tokens left, want %d, estimated %t, %v; calls %v, %+v", tc.frames, tc.stop, left, tc.left, r.rc.Estimated, err, r.calls, r.rc.Failovers)
		}
	}
}

func TestAnAnswerThatBreaksOffIsCountedByItsFrames(t *testing.T) {
	r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, "")
	r.request.Config.MidstreamFailover = false
	r.answer = func(engine.Call) (engine.Stream, error) { return cutAfter("one", " two", " three"), nil }
	if err := r.run(t.Context()); err == nil || r.rc.TargetTokens != 3 || !r.rc.Estimated {
		t.Errorf("%v, %d tokens, estimated %t", err, r.rc.TargetTokens, r.rc.Estimated)
	}
}

// TestADraftThatIsCutInsideAChunkOfSeveralTokensIsCounted: only an engine knows how many of them are before the cut.
func TestADraftThatIsCutInsideAChunkOfSeveralTokensIsCounted(t *testing.T) {
	for tokens, left := range map[int]int{1: 39, 3: 33} {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Draft, Judged: true, Resume: plan.ResumeText}, "")
		r.request.Config.Accept = accept.Config{Threshold: -100}
		got := 0
		r.answer = func(call engine.Call) (engine.Stream, error) {
			switch q := call.(type) {
			case *engine.Draft:
				s := letters("x", "", &engine.Failure{Kind: engine.Cut})
				c := &s.chunks[0]
				c.Text, c.IDs, c.Logprobs = []byte("one two thr"), make([]int32, tokens), make([]float64, tokens)
				for range tokens - 1 {
					c.AddTop(-0.01, -5)
				}
				return s, nil
			case *engine.TokenizeText:
				*q.Into = make([]int32, 7)
			case *engine.ContinueText:
				got = q.MaxTokens
				return letters(" four", "stop", nil), nil
			}
			return &stream{}, nil
		}
		if err := r.run(t.Context()); err != nil || got != left {
			t.Errorf("%d tokens: %d of 40 are left, want %d, %v; calls %v", tokens, got, left, err, r.calls)
		}
	}
}

// TestThePromptOfADraftWhoseUsageNeverCameIsCounted: its stream is left at a stop string, or breaks off, before the usage. By
// an engine if it can, else what is estimated is marked.
func TestThePromptOfADraftWhoseUsageNeverCameIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		lost    bool // the draft's backend, in mid-answer
		counted int  // by an engine; 0: it cannot
	}{
		"it stopped":                   {"one stop", false, 34},
		"it stopped, nobody counts":    {"one stop", false, 0},
		"continued":                    {"one two three ", true, 34},
		"continued, and nobody counts": {"one two three ", true, 0},
	} {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Draft, Judged: true, Resume: plan.ResumeText}, `,"stop":["stop"],"stream_options":{"include_usage":true}`)
		r.request.Config.Accept = accept.Config{Threshold: -100}
		r.answer = func(call engine.Call) (engine.Stream, error) {
			switch q := call.(type) {
			case *engine.Draft:
				s := letters(c.text, "", nil)
				if c.lost {
					s.err = &engine.Failure{Kind: engine.Cut}
				}
				for i := range s.chunks {
					s.chunks[i].PromptIDs = nil
				}
				return s, nil
			case *engine.ContinueText:
				return letters(" four", "stop", nil), nil
			case *engine.TokenizePrompt:
				if c.counted == 0 {
					return nil, &engine.Failure{Kind: engine.Rejected}
				}
				*q.Into = make([]int32, c.counted)
			}
			return &stream{}, nil
		}
		if err := r.run(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := c.counted
		if want == 0 {
			want = r.request.Body.PromptTokens
		}
		if _, _, prompt, _ := r.clientAnswer(); prompt != want || r.rc.PromptTokens != want || r.rc.Estimated != (c.counted == 0) {
			t.Errorf("%s: a prompt of %d tokens, recorded %d, estimated %t; calls %v", name, prompt, r.rc.PromptTokens, r.rc.Estimated, r.calls)
		}
	}
}

func TestAnAnswerOfMoreThanTextIsNotTakenOver(t *testing.T) {
	for name, change := range map[string]func(r *playedRig, c *openai.Chunk){
		"several answers": func(r *playedRig, _ *openai.Chunk) { r.request.Body.N = 2 },
		"several choices": func(_ *playedRig, c *openai.Chunk) { c.Choices = 2 },
		"a call":          func(_ *playedRig, c *openai.Chunk) { c.Plain = false },
		"logprobs":        func(_ *playedRig, c *openai.Chunk) { c.Foreign = true },
	} {
		r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, "")
		r.answer = func(engine.Call) (engine.Stream, error) {
			s := cutAfter("one", " two", " three")
			change(r, &s.chunks[1])
			return s, nil
		}
		err := r.run(t.Context())
		if _, broken := errors.AsType[*BrokenError](err); !broken || len(r.calls) != 1 || len(r.rc.Failovers) > 0 {
			t.Errorf("%s: %v; calls %v", name, err, r.calls)
		}
	}
}

func TestAnEventOfSeveralLinesIsOneLineForTheClient(t *testing.T) {
	r := newPlayedRig(t, plan.Plan{Tier: plan.Target}, "")
	r.answer = func(engine.Call) (engine.Stream, error) {
		s := cutAfter("one")
		s.err = nil
		c := &s.chunks[0]
		c.Raw = []byte(strings.Replace(string(c.Raw), `,"choices"`, ",\n\n\"choices\"", 1))
		c.Close = len(c.Raw) - 1
		return s, nil
	}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, _, _, _ := r.clientAnswer(); text != "one" || r.rc.PromptTokens != r.request.Body.PromptTokens || !r.rc.Estimated {
		t.Errorf("%q in %s; a prompt of %d tokens, estimated %t", text, r.body.String(), r.rc.PromptTokens, r.rc.Estimated)
	}
}

// TestAContinuationThatTellsNoIDsIsCountedAndFollowedByText: its chunks may hold several tokens, and ids that come later are not all,
// even where an engine counts no token before them.
func TestAContinuationThatTellsNoIDsIsCountedAndFollowedByText(t *testing.T) {
	for counted, left := range map[int]int{20: 20, 0: 40} {
		r := asItComes(t)
		var got []int
		r.answer = func(call engine.Call) (engine.Stream, error) {
			switch q := call.(type) {
			case *engine.Draft:
				return letters("abcd", "", &engine.Failure{Kind: engine.Cut}), nil
			case *engine.ContinueIDs:
				return cutAfter(" several words at once, and"), nil
			case *engine.TokenizeText:
				*q.Into = make([]int32, counted)
			case *engine.ContinueText:
				if got = append(got, q.MaxTokens); len(got) == 1 {
					return letters(" more", "", &engine.Failure{Kind: engine.Cut}), nil
				}
				return letters(" end", "stop", nil), nil
			}
			return &stream{}, nil
		}
		if err := r.run(t.Context()); err != nil || len(got) != 2 || got[0] != left {
			t.Errorf("%d tokens counted: %d are left, want %d, %v; calls %v", counted, got, left, err, r.calls)
		}
	}
}
