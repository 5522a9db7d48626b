package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/planner"
	"github.com/foregate/foregate/loadtest/trace"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/risk"
)

type planCmd struct {
	Find    planFindCmd    `cmd:"" default:"withargs" help:"Find the cheapest fleets; what foregate plan does without a command."`
	Check   planCheckCmd   `cmd:"" help:"Compare a plan with what a running gateway has counted in the last week."`
	Measure planMeasureCmd `cmd:"" help:"Measure an engine by three loads, and print its profile for --profiles."`
}

type planFindCmd struct {
	Trace  string        `arg:"" optional:"" placeholder:"FILE" help:"What clients asked: Azure's CSV (TIMESTAMP, ContextTokens, GeneratedTokens), receipts as JSON lines, LiteLLM's spend log as JSON lines or CSV, or the log of a vLLM server with --enable-log-requests and --enable-log-outputs. - is the standard input."`
	SLO    string        `required:"" name:"slo" placeholder:"SLO" help:"What to hold: ttft_p50, ttft_p95, ttft_p99, e2e_p50, e2e_p95, e2e_p99 and lost (a share of the requests, by default 0), such as ttft_p99=1s,e2e_p99=30s."`
	Growth float64       `default:"1" help:"How many times the load to plan for."`
	Prices string        `default:"aws" placeholder:"FILE" help:"Prices: aws, market, or a YAML file such as usd_per_gpu_hour: {H100: 2.5}."`
	Extra  string        `name:"profiles" type:"path" placeholder:"FILE" help:"Profiles of your own engines beside the lab's, as foregate plan measure prints them."`
	Target string        `default:"llama-3.1-70b" placeholder:"MODEL" help:"Model that answers, of the lab's profiles."`
	Draft  string        `default:"llama-3.1-8b" placeholder:"MODEL" help:"Model that drafts; none is without drafts."`
	Accept []float64     `name:"acceptance" default:"0.3,0.5,0.7" help:"Acceptances that drafts may have at the bound on disagreement."`
	From   string        `placeholder:"URL" help:"Instead of --acceptance: the admin listener of a running gateway, whose audits tell it."`
	Max    float64       `name:"max-disagreement" default:"0.1" placeholder:"SHARE" help:"Bound on the disagreement of drafts that are served unverified (risk.max_disagreement)."`
	Rate   float64       `placeholder:"N" help:"Instead of a trace: requests a second."`
	Prompt int           `placeholder:"TOKENS" help:"Instead of a trace: median length of prompts, without --shared-prefix."`
	Output int           `placeholder:"TOKENS" help:"Instead of a trace: median length of answers. Of a log without answers: the length of each."`
	For    time.Duration `placeholder:"DURATION" help:"Instead of a trace: how long; by default 1h."`

	Repeats float64 `placeholder:"SHARE" help:"Share of the requests that repeat an earlier one word for word, where the trace does not tell."`
	Shared  int     `name:"shared-prefix" placeholder:"TOKENS" help:"Tokens that all prompts begin with, where the trace does not tell."`

	Spare int    `placeholder:"N" help:"Servers of each pool that may be away while the SLO holds: 1 is N+1."`
	Seeds int    `default:"3" help:"Runs of each fleet that holds the SLO; other seeds ask the same in another order."`
	JSON  bool   `name:"json" help:"Print the plan as JSON."`
	Out   string `type:"path" placeholder:"DIR" help:"Write foregate.yaml and values.yaml (for the Helm chart) for the cheapest fleet to this folder, and the plan as index.html and plan.json."`

	TokenFile string `type:"path" env:"FOREGATE_ADMIN_TOKEN_FILE" help:"For --from: file with an operator's token alone." placeholder:"FILE"`
	tlsFlags
}

// Run reads the load, seeks fleets, and prints those that hold the SLO. Interrupted, it prints what is known.
func (c *planFindCmd) Run(e *env) error {
	o, err := c.options(e)
	if err != nil {
		return err
	}
	o.Trace.Assumed = append(o.Trace.Assumed, o.Assumed...)
	s := o.Trace.Summary()
	_, _ = fmt.Fprintf(e.stderr, "%sPlanning; Ctrl-C prints what is known.\n", s.Text()) // beside the answer
	o.Progress = func(text string) { _, _ = fmt.Fprintln(e.stderr, text) }
	answer, err := planner.Plan(e.ctx, o)
	if err != nil {
		return err
	}
	if c.JSON {
		j := json.NewEncoder(e.stdout)
		j.SetIndent("", "  ")
		err = j.Encode(answer)
	} else {
		_, err = fmt.Fprint(e.stdout, answer.Text())
	}
	if err == nil && c.Out != "" && len(answer.Fleets) > 0 {
		err = c.write(e, &o.Market, answer)
	}
	if err == nil && answer.Interrupted {
		return errSilent
	}
	return err
}

// options are what the command line asks for.
func (c *planFindCmd) options(e *env) (o planner.Options, err error) {
	o = planner.Options{Acceptance: slices.Compact(slices.Sorted(slices.Values(c.Accept))), MaxDisagreement: c.Max, Growth: c.Growth, Seeds: c.Seeds, Workers: runtime.GOMAXPROCS(0)}
	if c.From != "" {
		if err := c.ask(e, &o); err != nil {
			return o, fmt.Errorf("--from: %w", err)
		}
	}
	if o.SLO, err = loadtest.ParseSLO(c.SLO); err != nil {
		return o, err
	}
	if c.Extra != "" {
		text, err := os.ReadFile(c.Extra)
		if err == nil {
			err = vllmsim.AddProfiles(c.Extra, text)
		}
		if err != nil {
			return o, fmt.Errorf("--profiles: %w", err)
		}
	}
	prices, err := c.prices()
	if err != nil {
		return o, err
	}
	if o.Market, o.LeftOut, err = planner.NewMarket(c.Target, c.Draft, prices); err != nil {
		return o, err
	}
	o.Market.Away = c.Spare
	load := trace.Load{Rate: c.Rate, Prompt: c.Prompt, Output: c.Output, Repeats: c.Repeats, Shared: c.Shared, For: c.For}
	switch {
	case c.Trace == "":
		o.Trace, err = trace.Describe(load)
		return o, err
	case c.Rate != 0 || c.Prompt != 0 || c.For != 0:
		return o, fmt.Errorf("--rate, --prompt and --for are for a load without a trace")
	}
	in := os.Stdin
	if c.Trace != "-" {
		f, err := os.Open(c.Trace)
		if err != nil {
			return o, err
		}
		defer func() { _ = f.Close() }() // it was read
		in = f
	}
	if o.Trace, err = trace.Read(in, load); err != nil {
		return o, fmt.Errorf("%s: %w", c.Trace, err)
	}
	return o, nil
}

// ask asks a running gateway for the acceptance of its drafts.
func (c *planFindCmd) ask(e *env, o *planner.Options) error {
	var all risk.Frontiers
	from := replicaFlags{adminFlags: adminFlags{Admin: c.From, TokenFile: c.TokenFile, tlsFlags: c.tlsFlags}}
	if _, err := from.ask(e, http.MethodGet, "/admin/risk/frontier", nil, &all); err != nil {
		return err
	}
	acceptance, audits := accepted(all.Frontiers, c.Max)
	if audits == 0 {
		return fmt.Errorf("no kind of request of this gateway has audits enough to tell its acceptance: run mode shadow, or give --acceptance")
	}
	if o.Acceptance = acceptance; len(acceptance) == 0 {
		return fmt.Errorf("%d audits show no drafts that would be served at a disagreement of %g: plan with --draft none", audits, c.Max)
	}
	o.Assumed = append(o.Assumed, fmt.Sprintf("Acceptance %v: lowest, likeliest and highest of %d audits.", o.Acceptance, audits))
	return nil
}

// accepted are the acceptances that a gateway's audits have shown for drafts with at most a disagreement: by requests, the mean over
// its kinds of request of the lowest, the likeliest and the highest share of the drafts that would be served.
func accepted(all []risk.Frontier, maxDisagreement float64) (shares []float64, audits int) {
	sum, weights := [3]float64{}, 0.0
	for i := range all {
		f := &all[i]
		at := -1
		for k := range f.Points {
			if f.Points[k].MaxDisagreement <= maxDisagreement {
				at = k
			}
		}
		if !f.Known || at < 0 || f.RequestsPerDay == nil {
			continue
		}
		share, weight := f.Points[at].Share, *f.RequestsPerDay
		for k, v := range [...]float64{share.Low, share.Estimate, share.High} {
			sum[k] += v * weight
		}
		weights += weight
		audits += f.Audits
	}
	for _, v := range sum {
		if share := math.Round(v/weights*100) / 100; share > 0 && share < 1 {
			shares = append(shares, share)
		}
	}
	return slices.Compact(shares), audits
}

// prices are one of the lab's lists, or a file.
func (c *planFindCmd) prices() (vllmsim.PriceList, error) {
	lists, err := vllmsim.Prices()
	if err != nil {
		return vllmsim.PriceList{}, err
	}
	var names []string
	for _, l := range lists {
		if l.Name == c.Prices {
			return l, nil
		}
		names = append(names, l.Name)
	}
	text, err := os.ReadFile(c.Prices)
	if err != nil {
		return vllmsim.PriceList{}, fmt.Errorf("--prices: neither %s nor a file: %w", strings.Join(names, ", "), err)
	}
	return vllmsim.ParsePrices(c.Prices, text)
}

// write writes what runs a fleet.
func (c *planFindCmd) write(e *env, m *planner.Market, a *planner.Answer) error {
	f := &a.Fleets[0]
	plan, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil { //nolint:gosec // nothing in it is secret
		return err
	}
	page, err := a.Page(c.SLO)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"foregate.yaml": m.Config(f, c.Max), "values.yaml": m.Values(f, c.Max), "plan.json": string(plan) + "\n", "index.html": page} {
		if err := os.WriteFile(filepath.Join(c.Out, name), []byte(text), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	_, err = fmt.Fprintf(e.stderr, "%s has foregate.yaml and values.yaml for %s, and the plan as index.html and plan.json.\n", c.Out, f.Name)
	return err
}
