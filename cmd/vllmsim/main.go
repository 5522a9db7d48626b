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
	"time"

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

	Ties      float64 `group:"The language" default:"0" help:"Share of places, 0 to 1, where the two best tokens are level within 0.125 nat, so that scoring may not stand by what was written."`
	Tokenizer string  `group:"The language" default:"default" enum:"default,other" help:"Token ids on the wire: default, or other ones for the same texts."`

	TimeScale        float64 `group:"The engine" default:"1" help:"How many times faster than the profile time runs: 20 makes a GPU twenty times as fast."`
	MaxModelLen      int     `group:"The engine" default:"131072" help:"Context length in tokens; never more than the KV cache holds."`
	Policy           string  `group:"The engine" aliases:"scheduling-policy" default:"fcfs" enum:"fcfs,priority" help:"Scheduling policy: fcfs or priority."`
	Blocks           int     `group:"The engine" default:"0" help:"KV blocks of 16 tokens; 0 is the profile's number."`
	MaxNumSeqs       int     `group:"The engine" default:"0" help:"Sequences in a step at most; 0 is the profile's number."`
	MaxBatchedTokens int     `group:"The engine" aliases:"max-num-batched-tokens" default:"0" help:"Tokens in a step at most; 0 is the profile's number."`
	MaxQueuedReqs    int     `group:"The engine" name:"max-num-queued-reqs" default:"0" help:"Requests at once, running and waiting, before others get a 503 (vLLM 0.29); n choices count n times; 0 is no limit."`
	MaxQueuedTokens  int     `group:"The engine" name:"max-num-queued-tokens" default:"0" help:"Prompt tokens in prefill from which on others get a 503 (vLLM 0.29); 0 is no limit."`
	DataParallelSize int     `group:"The engine" default:"1" help:"Engines behind the one address, each with its own KV cache; the header X-data-parallel-rank chooses one."`

	StreamInterval int `group:"The wire" name:"stream-interval" default:"1" help:"Tokens in a chunk of a stream; the first one and the end do not wait."`

	APIKey         []string `group:"The wire" name:"api-key" env:"VLLM_API_KEY" placeholder:"KEY" help:"Keys of which requests to /v1/… need one as Authorization: Bearer KEY. /health, /metrics and /tokenize stay open, as vLLM's."`
	KeyForAllPaths bool     `group:"The wire" name:"key-for-all-paths" help:"All paths need the key, as with a proxy in front of vLLM."`
	SSLCertFile    string   `group:"The wire" name:"ssl-certfile" placeholder:"FILE" help:"PEM file of the server's certificate: the listener speaks TLS."`
	SSLKeyFile     string   `group:"The wire" name:"ssl-keyfile" placeholder:"FILE" help:"PEM file of its private key."`
	SSLCACerts     string   `group:"The wire" name:"ssl-ca-certs" placeholder:"FILE" help:"PEM file of the authorities of client certificates."`
	SSLCertReqs    int      `group:"The wire" name:"ssl-cert-reqs" default:"0" help:"Client certificates: 0 asks for none, 1 verifies one that is shown, 2 requires one."`

	PromptTokensDetails bool `group:"The wire" name:"enable-prompt-tokens-details" help:"Usage tells cached_tokens."`

	SGLang  bool     `group:"The wire" name:"sglang" help:"SGLang's scoring on vLLM's wire: POST /generate with logprob_start_len, and none of the routes that are vLLM's alone; metrics stay vLLM's. --engine sglang is the whole of it."`
	Without []string `group:"The wire" placeholder:"FEATURE" help:"Features that the engine lacks: ${features}."`

	OOM     bool          `group:"What goes wrong" help:"A running sequence that finds no KV block kills the engine instead of preempting another."`
	Restart time.Duration `group:"What goes wrong" default:"60s" help:"How long connections are refused after a death, in the profile's time."`
	Hazard  []string      `group:"What goes wrong" placeholder:"NAME" help:"What goes wrong unseen: ${hazards}. POST /sim/fault takes them later, such as '{\"hazards\":[\"thinks_first\"]}'."`
	Fault   string        `group:"What goes wrong" placeholder:"JSON" help:"What is wrong from the start, as POST /sim/fault takes it later, such as '{\"status\":503,\"rate\":0.1}', '{\"score\":\"die\"}' or '{\"spot_notice_seconds\":120}'."`
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
		kong.Vars{"profiles": strings.Join(vllmsim.ProfileNames(), ", "), "features": strings.Join(vllmsim.Features(), ", "),
			"engines": strings.Join(vllmsim.Engines(), ","), "hazards": strings.Join(vllmsim.HazardNames(), ", ")},
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

func (f *flags) options() (vllmsim.Options, error) {
	o := vllmsim.Options{Engine: f.Engine, Hazards: f.Hazard, Model: f.Model, Profile: f.Profile, Divergence: f.Divergence, Blind: f.Blind, Seed: f.Seed,
		TimeScale: f.TimeScale, MaxModelLen: f.MaxModelLen, Policy: f.Policy, BlocksOverride: f.Blocks,
		MaxNumSeqs: f.MaxNumSeqs, MaxBatchedTokens: f.MaxBatchedTokens, MaxQueuedReqs: f.MaxQueuedReqs,
		MaxQueuedTokens:  f.MaxQueuedTokens,
		DataParallelSize: f.DataParallelSize, PromptTokensDetails: f.PromptTokensDetails, OOM: f.OOM, Restart: f.Restart,
		StreamInterval: f.StreamInterval, Ties: f.Ties, SGLang: f.SGLang, Without: f.Without}
	o.APIKeys, o.KeyForAllPaths = f.APIKey, f.KeyForAllPaths
	var err error
	if o.TLS, err = (vllmsim.SSL{CertFile: f.SSLCertFile, KeyFile: f.SSLKeyFile, CACerts: f.SSLCACerts, CertReqs: f.SSLCertReqs}).Config(); err != nil {
		return o, err
	}
	// What is zero in the library stands for a default; here it was said.
	if f.TimeScale == 0 {
		return o, errors.New("time scale 0 stands still")
	}
	if f.DataParallelSize == 0 {
		return o, errors.New("a server of 0 engines answers nothing")
	}
	if f.StreamInterval == 0 {
		return o, errors.New("a stream interval of 0 tokens is none")
	}
	if f.MaxModelLen == 0 {
		return o, errors.New("a context of 0 tokens holds nothing")
	}
	if f.Restart == 0 {
		o.Restart = time.Nanosecond
	}
	if f.Tokenizer != "default" {
		o.Tokenizer = f.Tokenizer
	}
	if f.Fault == "" {
		return o, nil
	}
	o.Fault, err = vllmsim.ParseFault([]byte(f.Fault))
	return o, err
}

func fail(errs io.Writer, err error) int {
	_, _ = fmt.Fprintln(errs, "vllmsim:", strings.TrimPrefix(err.Error(), "vllmsim: "))
	return 1
}
