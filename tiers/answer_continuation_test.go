package tiers

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
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
