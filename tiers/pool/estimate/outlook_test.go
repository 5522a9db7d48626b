package estimate

import (
	"math"
	"testing"
	"time"
)

func TestTheOutlookIsOfOurRequestsAndOfThoseTakenToBeLikeThem(t *testing.T) {
	type f = *Inputs
	facts := Inputs{Capacity: 100_000, Engines: 1, Replicas: 1, Speed: speed, Pooled: speed, Prompt: 500, Output: 200, Variance: 10_000}
	margin := func(variance float64) float64 { return 3*math.Sqrt(variance) + 5000 }
	for name, c := range map[string]struct {
		ours int // requests of ours that have begun to answer, with 100 tokens to come each
		asks int // of ours whose prompt of 1,000 tokens is being computed
		set  func(f)
		want Forecast
	}{
		"nothing is there":              {0, 0, func(f) {}, Forecast{Margin: 5000}},
		"one of ours":                   {1, 0, func(f f) { f.Running = 1 }, Forecast{Growth: 128, Margin: margin(100)}},
		"one of ours, three like it":    {1, 0, func(f f) { f.Running = 4 }, Forecast{Growth: 4 * 128, Margin: margin(400)}},
		"four of others, like the mean": {0, 0, func(f f) { f.Running = 4 }, Forecast{Growth: 4 * 100, Margin: margin(40_000)}},
		"the last block is half full":   {0, 0, func(f f) { f.Running, f.BlockSize = 4, 16 }, Forecast{Growth: 4*100 + 4*8, Margin: margin(40_000)}},
		"others that wait":              {0, 0, func(f f) { f.Waiting = 2 }, Forecast{Growth: 200, Margin: margin(20_000), OthersTokens: 1000}},
		"a prompt of ours":              {0, 1, func(f) {}, Forecast{Growth: 128, Margin: margin(100), OwnPartly: 1000}},
		"a prompt, half of it seen": {0, 1, func(f f) { f.ReadAt = start.Add(125 * time.Millisecond) },
			Forecast{Growth: 128, Margin: margin(100), OwnPartly: 500}},
		"three of ours, another replica": {0, 3, func(f f) { f.Replicas = 2 },
			Forecast{Growth: 5 * 128, Margin: margin(500), OwnPartly: 3000, OthersTokens: 2000}},
		"of two engines each has half": {0, 0, func(f f) { f.Running, f.Engines = 4, 2 }, Forecast{Growth: 200, Margin: margin(20_000)}},
	} {
		a, f := NewAccount(start), facts
		for range c.ours {
			r := &Request{Began: start, Output: 100, Variance: 100}
			a.Start(r, Totals{Requests: 1, Waiting: 1, PromptTokens: 1000})
			a.FirstToken(r, start)
			a.Read(start.Add(time.Second)) // it knows the request
		}
		for range c.asks {
			a.Start(&Request{Began: start, Output: 100, Variance: 100}, Totals{Requests: 1, Waiting: 1, Queued: 1000, PromptTokens: 1000})
		}
		c.set(&f)
		got := a.Forecast(start, &f)
		off := math.Abs(got.Growth-c.want.Growth) + math.Abs(got.Margin-c.want.Margin) +
			math.Abs(got.OwnPartly-c.want.OwnPartly) + math.Abs(got.OthersTokens-c.want.OthersTokens)
		if off > 1e-6 {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
