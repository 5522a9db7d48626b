package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/loadtest/pair"
)

type proofLiveCmd struct {
	Target        string `required:"" placeholder:"URL" help:"The engine that answers what the draft cannot, such as http://127.0.0.1:8082. Any server with OpenAI's API."`
	Draft         string `required:"" placeholder:"URL" help:"The engine of the drafts; the same URL as --target if it serves both models."`
	TargetModel   string `placeholder:"NAME" help:"The target's model, if its engine lists several."`
	DraftModel    string `placeholder:"NAME" help:"The draft's model, if its engine lists several."`
	TargetKeyFile string `placeholder:"FILE" help:"A file with the API key of the target's engine, in one line. With make: FLAGS='--target-key-file FILE'."`
	DraftKeyFile  string `placeholder:"FILE" help:"The same of the draft's engine."`
	SameTokenizer bool   `help:"Both models have the same tokenizer and chat template."`

	Requests  int     `default:"500" help:"Questions (1 to 500)."`
	MaxTokens int     `default:"48" help:"Longest answer, in tokens (16 to 2048)."`
	Clients   int     `default:"8" help:"Questions at a time (1 to 16)."`
	Minutes   float64 `default:"30" help:"Longest run, the questions about what the engines can do included."`

	TargetUSDPerMillion string `name:"target-usd-per-million" placeholder:"IN,OUT" help:"Price of the target's prompt and answer tokens, in USD per million."`
	DraftUSDPerMillion  string `name:"draft-usd-per-million" placeholder:"IN,OUT" help:"The same of the draft."`

	Out string `default:"proof-live" placeholder:"DIR" help:"Folder for proof-live.json and proof-live.md; it is made."`
}

// Run measures a pair of engines that run already.
func (c *proofLiveCmd) Run(e *env) error {
	o := pair.Options{
		SameTokenizer: c.SameTokenizer, Requests: c.Requests, MaxTokens: c.MaxTokens, Clients: c.Clients,
		Limit: time.Duration(c.Minutes * float64(time.Minute)), Say: func(format string, args ...any) { e.warn(format+"\n", args...) },
	}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	var err error
	if o.DraftPrice, err = priceOf(c.DraftUSDPerMillion); err != nil {
		return misuse("--draft-usd-per-million %w", err)
	}
	if o.TargetPrice, err = priceOf(c.TargetUSDPerMillion); err != nil {
		return misuse("--target-usd-per-million %w", err)
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil { // before the run, so that a wrong path does not cost one
		return fmt.Errorf("--out: %w", err)
	}
	o.Pair, err = demo.Pair{
		Draft:  demo.Engine{URL: c.Draft, Model: c.DraftModel, KeyFile: c.DraftKeyFile, USDPerHour: 1},
		Target: demo.Engine{URL: c.Target, Model: c.TargetModel, KeyFile: c.TargetKeyFile, USDPerHour: 1},
	}.Find(e.ctx)
	if err != nil {
		return err
	}
	e.warn("Asking %s and %s what they can do …\n", o.Pair.Draft.Model, o.Pair.Target.Model)
	report, err := pair.Run(e.ctx, o)
	if err != nil {
		return fmt.Errorf("proof-live: %w", err)
	}
	all := pair.Reports{report}
	e.say("%s", all.Markdown())
	return writeReports(e, c.Out, "proof-live", all)
}

// writeReports writes the reports as two files of a name: JSON and Markdown.
func writeReports(e *env, dir, name string, all pair.Reports) error {
	text, err := all.JSON()
	if err != nil {
		return err
	}
	for ending, content := range map[string][]byte{".json": text, ".md": []byte(all.Markdown())} {
		if err := os.WriteFile(filepath.Join(dir, name+ending), content, 0o644); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	e.warn("Written to %s: %s.json and %[2]s.md\n", dir, name)
	return nil
}

// priceOf parses IN,OUT; "" is no price.
func priceOf(text string) (p pair.Price, err error) {
	if text == "" {
		return p, nil
	}
	in, out, _ := strings.Cut(text, ",")
	var errIn, errOut error
	p.Input, errIn = strconv.ParseFloat(in, 64)
	p.Output, errOut = strconv.ParseFloat(out, 64)
	if errIn != nil || errOut != nil || !(p.Input > 0) || !(p.Output > 0) || math.IsInf(p.Input+p.Output, 0) { // NaN is refused, too
		return pair.Price{}, fmt.Errorf("%q is not IN,OUT: two prices above 0", text)
	}
	return p, nil
}
