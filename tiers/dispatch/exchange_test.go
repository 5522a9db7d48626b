package dispatch

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

// begun is an exchange that has begun.
func (r *rig) begun(o Request, s *stream) *Exchange {
	r.t.Helper()
	r.answer = func(*engine.Attempt) (engine.Stream, error) { return s, nil }
	x, err := r.d.Open(r.t.Context(), o)
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

func TestAFaultBehindTheFirstByteIsASampleOfItsOwn(t *testing.T) {
	for scores, want := range map[bool][]string{false: {"b0 ok", "b0 upstream_stalled"}, true: nil} {
		r := newRig(t, 1)
		o := r.order()
		if scores {
			o.Scoring = &Score{Tokens: 5, MaxConcurrent: 1}
		}
		s := &stream{chunks: make([]openai.Chunk, 3), err: &engine.Failure{Kind: engine.Stalled}}
		x := r.begun(o, s)
		for range 3 {
			if _, err := x.Next(engine.WantTokens); err != nil {
				t.Fatal(err)
			}
		}
		_, err := x.Next(engine.WantTokens)
		f, ok := err.(*engine.Failure)
		if !ok || f.Pool != "p" || f.Backend != "b0" {
			t.Fatalf("%v", err)
		}
		x.Close(f, 3)
		x.Close(nil, 9) // too late
		if !slices.Equal(r.reports, want) || (r.failed() == 0) != scores || s.closed != 1 {
			t.Errorf("scores %v: breakers were told %v, %d counted, closed %d times", scores, r.reports, r.failed(), s.closed)
		}
		e := r.tries[0]
		if e.Broke != engine.Stalled || e.Failed != "" || e.Tokens != 3 || e.Status != http.StatusOK || e.Score != scores || r.settled != 1 {
			t.Errorf("scores %v: %+v, settled %d times", scores, e, r.settled)
		}
		r.given("at the end")
	}
}

func TestWhatAFirstByteNeverCameOfIsHeldAgainstTheBackendOrNot(t *testing.T) {
	for kind, parents := range map[engine.FailureKind]engine.FailureKind{
		engine.Expired: engine.Timeout, // not a byte in all that time
		engine.Timeout: engine.Timeout, engine.ClientGone: engine.ClientGone, engine.Rejected: engine.Rejected, engine.Refused: engine.Refused,
		engine.Unauthorized: engine.Unauthorized,
	} {
		r := newRig(t, 1)
		r.fails(engine.Failure{Kind: kind})
		_, err := r.d.Open(t.Context(), r.order())
		f, _ := errors.AsType[*engine.Failure](err)
		if f == nil || f.Kind != kind || !slices.Equal(r.reports, []string{"b0 " + string(parents)}) {
			t.Errorf("%s: %v; the breaker was told %v, want %s", kind, err, r.reports, parents)
		}
		if down := r.pool.Snapshot()[0].State == pool.StateDown; down != (kind == engine.Refused) {
			t.Errorf("%s: the backend is down: %v", kind, down)
		}
	}
}

func TestAPassthroughPathThatIsClosedOpensNoBreaker(t *testing.T) {
	r := newRig(t, 1)
	r.fails(engine.Failure{Kind: engine.Unauthorized, Status: http.StatusForbidden, Err: credentials.RefusedBy(http.StatusForbidden)})
	o := r.order()
	o.Call = &engine.Forward{Path: "/v1/closed", Into: new(engine.Forwarded)}
	_, err := r.d.Open(t.Context(), o)
	if f, _ := errors.AsType[*engine.Failure](err); f == nil || f.Kind != engine.Unauthorized || !slices.Equal(r.reports, []string{"b0 " + string(engine.ClientGone)}) {
		t.Errorf("%v; the breaker was told %v", err, r.reports)
	}
	if s := r.pool.Snapshot()[0]; !strings.Contains(s.Why, "passthrough: the engine refuses") || s.State == pool.StateDown {
		t.Errorf("%+v", s)
	}
}

func TestAnErrorThatIsNoFailureIsTheBackends(t *testing.T) {
	r := newRig(t, 1)
	r.answer = func(*engine.Attempt) (engine.Stream, error) { return nil, io.ErrClosedPipe }
	_, err := r.d.Open(t.Context(), r.order())
	if f, ok := errors.AsType[*engine.Failure](err); !ok || f.Kind != engine.Reset || !errors.Is(f, io.ErrClosedPipe) || f.Backend != "b0" {
		t.Errorf("%v", err)
	}
	x := r.begun(r.order(), &stream{err: io.ErrClosedPipe})
	defer x.Drop()
	_, err = x.Next(engine.WantTokens)
	if f, ok := errors.AsType[*engine.Failure](err); !ok || f.Kind != engine.Reset || f.Backend != "b0" {
		t.Errorf("in mid-answer: %v", err)
	}
	x.stream = &stream{err: &engine.Failure{Kind: engine.Cut, Err: io.EOF}}
	if _, err = x.Next(engine.WantTokens); err == io.EOF {
		t.Error("a connection that was closed is the end of an answer")
	}
	f := x.Fail(engine.BadResponse, io.ErrClosedPipe)
	if f.Kind != engine.BadResponse || f.Pool != "p" || f.Backend != "b0" || !errors.Is(f, io.ErrClosedPipe) {
		t.Errorf("%+v", f)
	}
}

func TestWhatAScoresEndSaysOfScoring(t *testing.T) {
	died := &openai.Fault{Message: engineDied + ". See the log."}
	for name, tc := range map[string]struct {
		err  error
		want scoreEnd
	}{
		"it was answered":  {nil, scoreGood},
		"no failure":       {io.EOF, scoreNeutral},
		"a stale one":      {&engine.Failure{Kind: engine.Reset, StaleConnection: true}, scoreNeutral},
		"silent":           {&engine.Failure{Kind: engine.Silent}, scoreNeutral},
		"the client left":  {&engine.Failure{Kind: engine.ClientGone}, scoreNeutral},
		"out of time":      {&engine.Failure{Kind: engine.Expired}, scoreNeutral},
		"out of files":     {&engine.Failure{Kind: engine.Exhausted}, scoreNeutral},
		"no connection":    {&engine.Failure{Kind: engine.Refused}, scoreNeutral},
		"busy":             {&engine.Failure{Kind: engine.Backpressure}, scoreNeutral},
		"a wrong key":      {&engine.Failure{Kind: engine.Unauthorized}, scoreNeutral},
		"a bad request":    {&engine.Failure{Kind: engine.Rejected}, scoreNeutral},
		"reset":            {&engine.Failure{Kind: engine.Reset}, scoreDied},
		"cut":              {&engine.Failure{Kind: engine.Cut}, scoreDied},
		"its engine died":  {&engine.Failure{Kind: engine.ServerError, Fault: died}, scoreDied},
		"an error":         {&engine.Failure{Kind: engine.ServerError}, scoreFault},
		"another error":    {&engine.Failure{Kind: engine.ServerError, Fault: &openai.Fault{Message: "no"}}, scoreFault},
		"no answer":        {&engine.Failure{Kind: engine.Timeout}, scoreFault},
		"not what is read": {&engine.Failure{Kind: engine.BadResponse}, scoreFault},
	} {
		if got := scoreOutcome(tc.err); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestScoresHaveABreakerOfTheirOwn(t *testing.T) {
	r := newRig(t, 2)
	o := r.order()
	o.Call = &engine.Score{}
	o.Scoring = &Score{Tokens: MaxScoreTokens + 1, MaxConcurrent: 1}
	_, err := r.d.Do(t.Context(), o)
	if !errors.Is(err, ErrScoreTooLong) || len(r.attempts) > 0 {
		t.Errorf("too long: %v, %d attempts", err, len(r.attempts))
	}
	o.Scoring.Tokens = 10
	o.Before = func(context.Context) error { // while this one has a place, others go elsewhere, and the third nowhere
		o := o
		o.Before = func(context.Context) error {
			o := o
			o.Before = nil
			if _, err := r.d.Do(t.Context(), o); !errors.Is(err, pool.ErrNoBackend) {
				t.Errorf("the third: %v", err)
			}
			return nil
		}
		if _, err := r.d.Do(t.Context(), o); err != nil {
			t.Errorf("the second: %v", err)
		}
		return nil
	}
	if _, err := r.d.Do(t.Context(), o); err != nil || len(r.attempts) != 2 || r.attempts[0].Backend == r.attempts[1].Backend {
		t.Errorf("%v, %d attempts", err, len(r.attempts))
	}
	o.Before = nil
	r.fails(engine.Failure{Kind: engine.Reset})
	_, _ = r.d.Do(t.Context(), o)
	if open, why, _ := r.d.Scores.State("p"); !open || why != openEngineDied || len(r.reports) > 0 {
		t.Errorf("open %v, %s; the backends' breakers were told %v", open, why, r.reports)
	}
	if b := r.pool.Snapshot(); b[0].State == pool.StateDown || b[1].State == pool.StateDown {
		t.Error("a score that failed took a backend out")
	}
	r.given("at the end")
}

func TestARecordThatIsFullTakesNothingMore(t *testing.T) {
	r := newRig(t, 1)
	r.full = true
	o := r.order()
	o.Header, o.Spans = traced(), true
	x := r.begun(o, &stream{})
	x.Close(&engine.Failure{Kind: engine.Cut}, 3)
	if len(r.tries) > 0 || r.settled > 0 || r.costs != 1 {
		t.Errorf("%+v, settled %d times, %d costs", r.tries, r.settled, r.costs)
	}
	// It stays the request's own span, under an id that nobody else has.
	if a := r.attempts[0]; a.Header["Traceparent"][0] != parent || a.ID != "own-1" {
		t.Errorf("told %v as %s", a.Header, a.ID)
	}
}

func TestEachCallIsASpanOfItsOwnWhereItsRequestIsTraced(t *testing.T) {
	for _, tc := range []struct {
		header http.Header
		spans  bool
		own    bool
	}{
		{traced(), true, true}, {traced(), false, false}, {http.Header{}, true, false}, {nil, true, false},
		{http.Header{"Traceparent": {"00-short"}}, true, false}, {http.Header{"Traceparent": {parent, parent}}, true, false},
	} {
		r := newRig(t, 1)
		o := r.order()
		o.Header, o.Spans = tc.header, tc.spans
		before := tc.header.Get("Traceparent")
		r.begun(o, &stream{}).Drop()
		span, parents := r.tries[0].Span, r.attempts[0].Header.Get("Traceparent")
		want := before
		if tc.own {
			want = parent[:36] + hex.EncodeToString(span[:]) + "-01"
		}
		if parents != want || (span != [8]byte{}) != tc.own || tc.header.Get("Traceparent") != before {
			t.Errorf("%+v: told %q, want %q; the request has %q", tc, parents, want, tc.header.Get("Traceparent"))
		}
	}
	i := Identity{ID: "own", Header: http.Header{"Traceparent": {parent}, "Tracestate": {"a=b"}, "Other": {"x"}}, Spans: true}
	if u := i.Untraced(); u.Spans || u.ID != "own" || len(u.Header) != 1 || len(i.Header) != 3 {
		t.Errorf("%+v of %+v", u, i)
	}
}

func TestWhoTakesAnExchangeOverHearsTheRest(t *testing.T) {
	r := newRig(t, 1)
	x := r.begun(r.order(), &stream{chunks: make([]openai.Chunk, 2)})
	other := &record{}
	x.HandOver(other, 4)
	if e := r.tries[0]; r.settled != 1 || e.Tokens != 4 || e.Took <= 0 || e.Broke != "" {
		t.Errorf("%+v, settled %d times", e, r.settled)
	}
	x.Close(&engine.Failure{Kind: engine.Cut}, 9)
	if r.settled != 1 || r.tries[0].Tokens != 4 || r.costs != 1 || other.costs != 1 || other.settled != 0 {
		t.Errorf("the request's record: %+v, %d costs; the other's: %+v", r.tries[0], r.costs, other)
	}
	r.given("at the end")
}

func TestAnExchangeMayBeEndedFromOutside(t *testing.T) {
	r := newRig(t, 1)
	var own context.Context
	r.answer = func(*engine.Attempt) (engine.Stream, error) { return &stream{}, nil }
	r.d.Upstream = contexts{r, &own}
	x, err := r.d.Open(t.Context(), r.order())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Drop()
	x.Cancel()
	if context.Cause(own) != context.Canceled || t.Context().Err() != nil {
		t.Errorf("%v", context.Cause(own))
	}
}

// contexts notes the context of an attempt.
type contexts struct {
	engine.Upstream
	last *context.Context
}

func (c contexts) Open(ctx context.Context, a *engine.Attempt) (engine.Stream, error) {
	*c.last = ctx //nolint:fatcontext // the test looks at it afterwards
	return c.Upstream.Open(ctx, a)
}

func TestAnAnswerHasNoMoreTokensThanItsCallAllows(t *testing.T) {
	for name, tc := range map[string]struct {
		order  Request
		window int
		want   int
	}{
		"max_tokens":           {Request{Demand: pool.Demand{MaxOutput: 50}}, 0, 50},
		"several answers":      {Request{Demand: pool.Demand{MaxOutput: 50, Answers: 3}}, 0, 150},
		"no limit":             {Request{}, 0, unknownWindow},
		"what a context holds": {Request{}, 4096, 4096},
		"an absurd context":    {Request{}, 1e12, maxWindow},
		"no text":              {Request{Demand: pool.Demand{MaxOutput: 50, NoAnswer: true}}, 0, 0},
	} {
		r := newRig(t, 1)
		r.window = tc.window
		tc.order.Pool = r.pool
		x := &Exchange{services: &r.d.services, request: tc.order}
		if got := x.MaxAnswer(); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
		o := r.order()
		o.Demand, o.MaxPrompt = tc.order.Demand, 77
		o.FirstByteTimeout, o.IdleTimeout = time.Second, time.Minute
		r.begun(o, &stream{}).Drop()
		a := r.attempts[0]
		if a.MaxAnswer != tc.want || a.MaxPrompt != 77 || a.FirstByteTimeout != time.Second || a.IdleTimeout != time.Minute {
			t.Errorf("%s: told %+v", name, a)
		}
	}
}
