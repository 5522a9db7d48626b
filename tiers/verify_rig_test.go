package tiers

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/probe"
)

// checkRig is a request whose target's engines answer as a test says.
type checkRig struct {
	dispatch.IgnoreEvents
	asker  Verifier
	target *pool.Pool

	mu       sync.Mutex
	reply    func(a *engine.Attempt) error
	attempts []engine.Attempt
	tickets  []dispatch.Ticket
}

// newCheckRig makes a request of a temperature, "0" or more, whose target has two backends.
func newCheckRig(t *testing.T, temperature string) *checkRig {
	t.Helper()
	r := &checkRig{}
	request := playedRequest(t, r, r, `{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":6,"temperature":`+temperature+`}`, "http://one", "http://two")
	r.target = request.Target.Pool
	request.Receipt = &Receipt{Route: "m", Decision: plan.Decision{Plan: plan.Plan{Judged: true, Mode: plan.ModeVerify, Rule: plan.RuleExact, Scorer: plan.ScorerIDs}}}
	request.Config.Timeouts.TargetFirstToken = 20 * time.Second
	request.Target.Capabilities = &probe.Capabilities{EOS: []int32{90, 91}, Scoring: openai.ScoreCompletions}
	r.asker = NewVerifier(caller{request, request.Identity, r})
	return r
}

// Open implements [engine.Upstream].
func (r *checkRig) Open(_ context.Context, a *engine.Attempt) (engine.Stream, error) {
	r.mu.Lock()
	r.attempts = append(r.attempts, *a)
	r.mu.Unlock()
	if err := r.reply(a); err != nil {
		return nil, err
	}
	return over{}, nil
}

// Enter implements [dispatch.Queue].
func (r *checkRig) Enter(_ context.Context, t dispatch.Ticket, try func(pool.Admission) error) (time.Duration, error) {
	r.tickets = append(r.tickets, t)
	return 0, try(pool.Admission{})
}

// asked names the calls.
func (r *checkRig) asked() (kinds []string) {
	for _, a := range r.attempts {
		kinds = append(kinds, kindOf(a.Call))
	}
	return kinds
}

func (r *checkRig) scores(s ...openai.Scored) *checkRig {
	r.reply = scored(s, openai.Scores{})
	return r
}
func (r *checkRig) ask(d Draft) (Result, error) {
	if d.WithStop == nil {
		d.WithStop = d.Text
	}
	return r.asker.Verify(context.Background(), d)
}
func (r *checkRig) said(t *testing.T, d Draft) Result { t.Helper(); return must(t, r.ask)(d) }
func scored(s []openai.Scored, more openai.Scores) func(*engine.Attempt) error {
	return func(a *engine.Attempt) error {
		more.Tokens = s
		*a.Call.(*engine.Score).Into = more
		return nil
	}
}

func must(t *testing.T, ask func(Draft) (Result, error)) func(Draft) Result {
	return func(d Draft) Result {
		t.Helper()
		res, err := ask(d)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
}

// over is a stream of which nothing comes.
type over struct{ engine.Stream }

func (over) Close() {}

// chosen is the score of a token that is the target's first choice.
func chosen(id int32) openai.Scored { return openai.Scored{Logprob: -0.1, Top: -0.1, TopID: id} }

// unlikely is the score of a token where the target would have chosen another.
func unlikely(other int32) openai.Scored { return openai.Scored{Logprob: -9, Top: -0.01, TopID: other} }

// same fails the test where two lists differ.
func same[T comparable](t *testing.T, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
