package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/loadtest/engines"
	"github.com/foregate/foregate/loadtest/pair"
)

// recordFlags are what [pairCmd] takes to record drafts in place of measuring.
type recordFlags struct {
	Record  string `placeholder:"FILE" help:"Instead, record drafts of the near and of the worse draft on vLLM without their text, with every label, for loadtest/applications. The three engines run already (.ci/engines/start vllm MODEL PORT MODEL --max-num-seqs 256)."`
	Near    string `default:"http://127.0.0.1:8192" placeholder:"URL" help:"With --record: the near draft's engine."`
	Worse   string `default:"http://127.0.0.1:8193" placeholder:"URL" help:"With --record: the worse draft's engine."`
	Target  string `default:"http://127.0.0.1:8191" placeholder:"URL" help:"With --record: the target's engine."`
	PerTask int    `default:"400" help:"With --record: prompts of each kind of question."`
	Judged  int    `default:"4" help:"With --record: one in so many prompts has labels in words, too."`
	Clients int    `default:"256" help:"With --record: requests in flight."`
}

// record records drafts until all are there, or its minutes are over; what was recorded until then is kept.
func (c *pairCmd) record(e *env) (err error) {
	if min(c.PerTask, c.Judged, c.Clients) < 1 || c.MaxTokens < pair.MinMaxTokens {
		return misuse("--per-task, --judged and --clients must be above 0, and --max-tokens at least %d", pair.MinMaxTokens)
	}
	file, err := os.Create(c.Record)
	if err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	ctx, cancel := context.WithTimeout(e.ctx, time.Duration(c.Minutes*float64(time.Minute)))
	defer cancel()
	near, worse := &realPairs[0], &realPairs[1]
	r := pair.Recording{
		Drafts:  []pair.Drafter{{Name: near.id, Engine: demo.Engine{URL: c.Near, Model: near.draft}}, {Name: worse.id, Engine: demo.Engine{URL: c.Worse, Model: worse.draft}}},
		Target:  demo.Engine{URL: c.Target, Model: engines.VLLMTarget},
		PerTask: c.PerTask, Judged: c.Judged, MaxTokens: c.MaxTokens, Clients: c.Clients, Out: file,
		Say: func(format string, args ...any) { e.warn(format+"\n", args...) },
	}
	return r.Record(ctx)
}
