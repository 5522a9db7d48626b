package pool

import (
	"errors"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/economy"
)

func TestTheBoundOfAHostedCallCountsThePromptAndEveryAnswer(t *testing.T) {
	price := economy.TokenPrice{Input: 1, Cached: .1, Output: 10}
	for _, c := range []struct {
		d    Demand
		want float64
	}{
		{Demand{PromptTokens: 100}, 100 + 10*AssumedAnswer},
		{Demand{PromptTokens: 100, MaxOutput: 7}, 170},
		{Demand{PromptTokens: 100, MaxOutput: 7, Answers: 3}, 310},
		{Demand{PromptTokens: 100, NoAnswer: true}, 100},
	} {
		if got := economy.CostOfWork(price, c.d.Bound()); got != c.want {
			t.Errorf("%+v: %v, want %v", c.d, got, c.want)
		}
	}
}

// TestAHostedBackendThatWantsNoRequestsIsFullUntilThen: whoever can wait does, and hears for how long.
func TestAHostedBackendThatWantsNoRequestsIsFullUntilThen(t *testing.T) {
	now := time.Unix(1000, 0)
	p := fixed(t, Options{Backends: []string{"https://provider.example"}, External: true, Now: func() time.Time { return now }})
	pick := func(limit float64) error {
		var l Lease
		err := p.PickInto(&l, &Demand{PromptTokens: 10, Admission: Admission{MaxUsage: limit}})
		if err == nil {
			l.Done(0)
		}
		return err
	}
	var many [2 * maxUnknownRequests]Lease
	for i := range many {
		if err := p.PickInto(&many[i], &Demand{PromptTokens: 10, Admission: Admission{MaxUsage: .5}}); err != nil {
			t.Fatalf("request %d: %v: the memory of a hosted backend is not the operator's to care for", i, err)
		}
	}
	many[0].Pause(3 * time.Second)
	if p.Load() != 1 {
		t.Errorf("load %g: nothing is to spare where each token is paid", p.Load())
	}
	full, ok := errors.AsType[*FullError](pick(.95))
	if !ok || !full.Paused || full.Wait != 3*time.Second {
		t.Fatalf("%+v", full)
	}
	if why := p.Snapshot()[0].Why; why != "wants no requests for 3s, by its limit of rates" {
		t.Errorf("operators are told %q", why)
	}
	if err := pick(0); err != nil {
		t.Errorf("what cannot wait is not sent: %v", err)
	}
	many[0].Pause(time.Second) // the longest counts
	now = now.Add(2 * time.Second)
	if !errors.Is(pick(1), ErrFull) {
		t.Error("the pause is over too soon")
	}
	now = now.Add(time.Second)
	if err := pick(.5); err != nil {
		t.Errorf("the pause goes on: %v", err)
	}
	many[0].Pause(time.Hour)
	if now = now.Add(maxRatePause); pick(.5) != nil {
		t.Error("a pause is longer than its bound")
	}
	own := fixed(t, Options{})
	var l Lease
	if err := own.PickInto(&l, &Demand{PromptTokens: 10}); err != nil {
		t.Fatal(err)
	}
	l.Pause(time.Minute)
	if err := own.PickInto(&l, &Demand{PromptTokens: 10, Admission: Admission{MaxUsage: .5}}); err != nil {
		t.Errorf("a backend of the operator's own is paused: %v", err)
	}
}

func TestWhatTheProvidersCacheSavesIsLearned(t *testing.T) {
	p := fixed(t, Options{External: true, Price: Price{Tokens: economy.TokenPrice{Input: 10, Cached: 1, Output: 30}}})
	if e := p.ExpectedPrice(); e.Input != 10 || e.Output != 30 {
		t.Errorf("%+v", e)
	}
	var l Lease
	if err := p.PickInto(&l, &Demand{PromptTokens: 10}); err != nil {
		t.Fatal(err)
	}
	defer l.Done(0)
	for range 1000 {
		if usd, known := l.Charge(economy.Work{Prompt: 100, Cached: 50, Answer: 10}); usd != 50*10+50*1+10*30 || !known {
			t.Fatalf("paid %g, %t", usd, known)
		}
	}
	if e := p.ExpectedPrice(); e.Input < 5.4 || e.Input > 5.6 || e.Output != 30 {
		t.Errorf("with half of the prompts in the cache: %+v", e)
	}
	p.SetPrice(Price{Tokens: economy.TokenPrice{Input: 20, Cached: 20, Output: 60}})
	if e := p.ExpectedPrice(); e.Input != 20 || e.Output != 60 {
		t.Errorf("new prices: %+v", e)
	}
}
