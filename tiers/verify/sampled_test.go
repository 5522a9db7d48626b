package verify

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/plan"
)

func TestTheLikeliestTokensOfEachPlaceAreAskedFor(t *testing.T) {
	r := newRig(t, "0.8")
	places := [][]accept.Token{{{ID: 5, Logprob: -0.1}}, {{ID: 6, Logprob: -0.2}}}
	r.reply = func(a *engine.Attempt) error {
		*a.Call.(*engine.ScoreListed).Into = places
		return nil
	}
	l, err := r.asker.ScoreListed(context.Background(), Question{Prompt: []int32{1}, IDs: []int32{5, 6}})
	if err != nil || len(l.Places) != 2 || l.Computed != 3 || l.Backend == "" || r.question().Top != plan.SampledTop || !r.tickets[0].NoWait {
		t.Errorf("%+v, %v, %+v", l, err, r.question())
	}
	r.reply = func(a *engine.Attempt) error {
		*a.Call.(*engine.ScoreListed).Into = places[:1]
		return &engine.Failure{Kind: engine.BadResponse, Err: engine.ErrListed}
	}
	l, err = r.asker.ScoreListed(context.Background(), Question{Prompt: []int32{1}, IDs: []int32{5, 6}})
	if !errors.Is(err, engine.ErrListed) || l.Places != nil || l.Computed != 0 || l.Backend == "" {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestAPlaceHoldsWhatBothSidesListed(t *testing.T) {
	law := accept.Sampling{Temperature: 1, TopP: 1, TopK: 1}
	drafted := [][]accept.Token{{{ID: 5, Logprob: -0.1}, {ID: 6, Logprob: -3}}, {{ID: 7, Logprob: -0.1}, {ID: 8, Logprob: -3}}}
	got := NewPositions(drafted, law, drafted[:1], accept.Sampling{Temperature: 1, TopP: 1})
	want := accept.NewPosition(accept.DraftDistribution(drafted[0], law), accept.TargetLowerBounds(drafted[0], accept.Sampling{Temperature: 1, TopP: 1}))
	if len(got) != 1 || !reflect.DeepEqual(got[0], want) || reflect.DeepEqual(want, accept.Position{}) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestDrawsAreMadeWhereThePromptIsWarmAndOnceMoreElsewhere(t *testing.T) {
	r := newRig(t, "0.8")
	warm := r.target.Snapshot()[1].ID
	q := Question{Prompt: make([]int32, 4000), IDs: []int32{5}, Warm: warm}
	draws := func(a *engine.Attempt) error {
		*a.Call.(*engine.Draws).Into = make([]engine.Draw, a.Call.(*engine.Draws).N)
		return nil
	}
	r.reply = draws
	got, at, err := r.asker.Draws(context.Background(), q, 8)
	a := r.attempts[0]
	if err != nil || len(got) != 8 || at != warm || a.Backend != warm || a.FirstByteTimeout != 3*time.Second || a.MaxAnswer != 8 {
		t.Fatalf("%d draws at %q, %v: %+v", len(got), at, err, a)
	}
	if ticket := r.tickets[0]; ticket.NoWait || ticket.Class != 2 {
		t.Errorf("%+v: the answer has begun as far as its law goes", ticket)
	}
	r.attempts = nil
	r.reply = func(a *engine.Attempt) error {
		if a.Backend == warm {
			return &engine.Failure{Kind: engine.Reset}
		}
		return draws(a)
	}
	got, at, err = r.asker.Draws(context.Background(), q, 1)
	if err != nil || len(got) != 1 || at != "" || len(r.attempts) != 2 || r.attempts[1].Backend == warm {
		t.Errorf("%d draws at %q, %v by %v", len(got), at, err, r.backends())
	}
	r.attempts = nil
	r.reply = func(*engine.Attempt) error { return &engine.Failure{Kind: engine.Reset} }
	if got, _, err = r.asker.Draws(context.Background(), q, 1); err == nil || got != nil || len(r.attempts) != 2 {
		t.Errorf("%d draws, %v by %v", len(got), err, r.backends())
	}
}
