// Package pair measures a pair of models behind the gateway, on engines that run already: any two servers with OpenAI's API.
// It starts one replica in this process, with Redis inside, asks it and the engines a bounded number of questions, and says
// what it could measure there, and for the rest why not. Start at [Run].
//
// Questions are asked at temperature 0. All are put to both engines without the gateway, and to the gateway in mode verify with
// the lenient rule, so that each draft has a score and a label: an audit. What mode risk would do with such audits is computed
// by the gateway's own functions (tiers/risk, tiers/refit). Then half of the audits are imported, and mode risk serves the other
// questions by the threshold that they certify: of each served draft the label is known. Some questions have
// right answers. An answer is exact if it is the target's own, byte for byte; an engine need not agree with itself, so the
// share of its second answers that equal the first is shown beside it.
package pair

import (
	"fmt"
	"time"

	"github.com/foregate/foregate/gateway/demo"
)

// The bounds of a run.
const (
	MaxRequests  = 500  // a pass; a replica keeps the receipts of its last 1,000 requests
	MinMaxTokens = 16   // of an answer: a draft is judged from 8 tokens on
	MaxMaxTokens = 2048 // of an answer
	MaxClients   = 16
)

// Options say what is measured and how much is asked of the engines.
type Options struct {
	Pair          demo.Pair // as [demo.Pair.Find] returns it; its prices per hour are of no effect
	SameTokenizer bool      // draft and target have the same tokenizer and chat template

	Name      string        // of the pair, for the report; "": the models' names
	Build     string        // what the engines are installed from; "": not told
	Requests  int           // questions in all, 1 … [MaxRequests]
	MaxTokens int           // of an answer, [MinMaxTokens] … [MaxMaxTokens]
	Clients   int           // requests in flight, 1 … [MaxClients]
	Limit     time.Duration // of the whole run, the probe of the engines included; above 0

	DraftPrice, TargetPrice Price // zero: unknown, so that no dollars are shown

	Say func(format string, args ...any) // a line of progress
}

// Price is what an engine's tokens cost, in USD per million.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// known reports whether both prices are given.
func (p Price) known() bool { return p.Input > 0 && p.Output > 0 }

// Check returns what is wrong with the options, nil if nothing is.
func (o *Options) Check() error {
	for _, b := range []struct {
		name            string
		value, lo, high int
	}{
		{"requests", o.Requests, 1, MaxRequests},
		{"max-tokens", o.MaxTokens, MinMaxTokens, MaxMaxTokens},
		{"clients", o.Clients, 1, MaxClients},
	} {
		if b.value < b.lo || b.value > b.high {
			return fmt.Errorf("--%s must be between %d and %d, but is %d", b.name, b.lo, b.high, b.value)
		}
	}
	if o.Limit <= 0 {
		return fmt.Errorf("--minutes must be above 0, but is %g", o.Limit.Minutes())
	}
	return nil
}
