// Command vllmsim runs one simulated engine, a vLLM server by default, until it is interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

type flags struct {
	Listen  string `default:"127.0.0.1:8000" help:"Address to listen on; port 0 takes a free one, which is printed."`
	Engine  string `default:"vllm" enum:"${engines}" help:"Whose wire the server speaks: ${engines}. Scheduler and language are the same behind each."`
	Model   string `default:"sim" help:"Served model name."`
	Profile string `default:"a10g-8b" help:"Speeds and sizes of one model on one kind of GPU: ${profiles}."`

	Divergence float64 `group:"The language" default:"0" help:"How far this model strays from the target of the same seed: 0 is the target, 1 the worst draft. It is no measure of a real one: of answers of 100 tokens at temperature 1, at 0.3 a target refuses 5 % (docs/measurements.md#simulated-drafts has more)."`
	Blind      float64 `group:"The language" default:"0" help:"How little a draft's confidence says of where it strays, 0 to 1."`
	Seed       uint64  `group:"The language" default:"1" help:"Seed of the language; a draft and its target share it."`

	TimeScale        float64 `group:"The engine" default:"1" help:"How many times faster than the profile time runs: 20 makes a GPU twenty times as fast."`
	MaxModelLen      int     `group:"The engine" default:"131072" help:"Context length in tokens; never more than the KV cache holds."`
	Policy           string  `group:"The engine" aliases:"scheduling-policy" default:"fcfs" enum:"fcfs,priority" help:"Scheduling policy: fcfs or priority."`
	Blocks           int     `group:"The engine" default:"0" help:"KV blocks of 16 tokens; 0 is the profile's number."`
	MaxNumSeqs       int     `group:"The engine" default:"0" help:"Sequences in a step at most; 0 is the profile's number."`
	MaxBatchedTokens int     `group:"The engine" aliases:"max-num-batched-tokens" default:"0" help:"Tokens in a step at most; 0 is the profile's number."`

	PromptTokensDetails bool `group:"The wire" name:"enable-prompt-tokens-details" help:"Usage tells cached_tokens."`

	Hosted            string `group:"A provider" placeholder:"IN,CACHED,OUT" help:"With the engine openai: a hosted server with these prices, in USD per million tokens. It refuses logprobs and messages of the assistant at the end, and tells at /sim/meter what it has charged."`
	RequestsPerSecond int    `group:"A provider" default:"0" help:"Limit of rates of a hosted server; 0 is none."`

	Answers kong.NamedFileContentFlag `group:"The language" placeholder:"FILE" help:"Answers to chats that offer tools, a JSON list such as '[{\"text\":\"I look.\",\"tool\":\"read\",\"arguments\":{\"path\":\"a.txt\"}},{\"text\":\"Done.\"}]': each chat gets the one with the number of the answers that it holds."`

	Fault string `group:"What goes wrong" placeholder:"JSON" help:"What is wrong from the start, as POST /sim/fault takes it later, such as '{\"status\":503,\"rate\":0.1}' or '{\"score\":\"error\"}'."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return serve(ctx, args, out, errs)
}

// serve runs until ctx ends.
func serve(ctx context.Context, args []string, out, errs io.Writer) int {
	var f flags
	exit := -1
	parser, err := kong.New(&f, kong.Name("vllmsim"), kong.Description("A vLLM server without a GPU, or another engine."),
		kong.Vars{"profiles": strings.Join(vllmsim.ProfileNames(), ", "), "engines": strings.Join(vllmsim.Engines(), ",")},
		kong.Writers(out, errs), kong.Exit(func(code int) { exit = code }))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if exit >= 0 { // --help has been printed
		return exit
	}
	var o vllmsim.Options
	if err == nil {
		o, err = f.options()
	}
	if err != nil {
		return fail(errs, err)
	}
	s, err := vllmsim.New(o)
	if err == nil {
		err = s.Start(f.Listen)
	}
	if err != nil {
		return fail(errs, err)
	}
	_, _ = fmt.Fprintf(out, "vllmsim: %s (%s, divergence %g) on %s\n", f.Model, f.Profile, f.Divergence, s.URL())
	<-ctx.Done()
	if err := s.Terminate(); err != nil {
		return fail(errs, err)
	}
	return 0
}

func (f *flags) options() (o vllmsim.Options, err error) {
	// What is zero in the library stands for a default; here it was said.
	if f.TimeScale == 0 {
		return o, errors.New("time scale 0 stands still")
	}
	if f.MaxModelLen == 0 {
		return o, errors.New("a context of 0 tokens holds nothing")
	}
	o = vllmsim.Options{Engine: f.Engine, Model: f.Model, Profile: f.Profile, Divergence: f.Divergence, Blind: f.Blind, Seed: f.Seed,
		TimeScale: f.TimeScale, MaxModelLen: f.MaxModelLen, Policy: f.Policy, BlocksOverride: f.Blocks, MaxNumSeqs: f.MaxNumSeqs,
		MaxBatchedTokens: f.MaxBatchedTokens, PromptTokensDetails: f.PromptTokensDetails}
	if f.Answers.Contents != nil {
		if o.Answers, err = vllmsim.ParseAnswers(f.Answers.Contents); err != nil {
			return o, err
		}
	}
	if o.Hosted, err = vllmsim.ParseHosted(f.Hosted); err != nil {
		return o, err
	}
	o.Hosted.RequestsPerSecond = f.RequestsPerSecond
	if f.Fault != "" {
		o.Fault, err = vllmsim.ParseFault([]byte(f.Fault))
	}
	return o, err
}

func fail(errs io.Writer, err error) int {
	_, _ = fmt.Fprintln(errs, "vllmsim:", strings.TrimPrefix(err.Error(), "vllmsim: "))
	return 1
}
