package pair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/demo"
)

// errOver is the reason for what was not reached.
var errOver = errors.New("the time of the run was over")

// common are the settings of every way: each prompt is drafted and generated anew, whatever it costs, and slow machines have time.
var common = map[string]string{
	"economy.guard": "off", "cache.mode": "off", "timeout.draft_first_token": "2m", "timeout.target_first_token": "20m", // and a score may take a twentieth of that
	"timeout.stream_idle": "2m", "timeout.total": "20m", "speculation.max_concurrent_scores": strconv.Itoa(MaxClients),
}

// someQuestions is how many questions are put in the ways that need not be asked all.
const someQuestions = 24

// run is a run in progress.
type run struct {
	Options
	*replica
	list    []question
	alone   []sample            // of the target without the gateway
	ways    map[string][]sample // by the way's name
	audits  []audit             // by the rule lenient, or by the target's own answers
	places  *hider              // of what the report does not tell
	report  Report
	missing map[string]string // why a mode of the pair is not available
}

// Run measures a pair. What it could not measure is in the report with the reason. An error is of the options, of the
// replica's start, or of engines that cannot be asked at all. Run uses the network, and ends at the latest some seconds after
// Limit.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, errOver)
	defer cancel()
	rep, err := startReplica(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer rep.stop()
	if err := rep.awaitEngines(ctx, o.Say); err != nil {
		return nil, err
	}
	m := &run{Options: o, replica: rep, list: questions(o.Requests), ways: map[string][]sample{}, missing: map[string]string{}}
	if m.places, err = placesOf(&o, rep); err != nil {
		return nil, err
	}
	drafts := rep.drafts(routePair)
	for _, u := range drafts.UnavailableModes {
		m.missing[u.Name] = u.Reason
	}
	m.report = newReport(&o, rep.app.Status().Engines)
	for _, e := range m.report.Engines {
		m.places.hideMissing(e.Missing)
	}
	if err := m.askEngines(ctx); err != nil {
		return nil, err
	}
	m.askGateway(ctx, wayLenient, m.list, 0, map[string]string{"speculation.verify_rule": "lenient"})
	m.audits = m.labelled()
	m.askRisk(ctx)
	m.measure()
	return &m.report, nil
}

// placesOf are the addresses of engines and gateway, and the engines' keys.
func placesOf(o *Options, rep *replica) (*hider, error) {
	var keys []string
	for _, e := range []demo.Engine{o.Pair.Draft, o.Pair.Target} {
		a, err := engineAsker(e, nil, 0)
		if err != nil {
			return nil, err
		}
		keys = append(keys, a.key)
	}
	return newHider([]string{o.Pair.Draft.URL, o.Pair.Target.URL, rep.base, rep.admin}, keys), nil
}

// askEngines asks the target and the draft all questions without the gateway.
func (r *run) askEngines(ctx context.Context) error {
	if err := r.askEngine(ctx, wayAlone, poolTarget, r.Pair.Target); err != nil {
		return err
	}
	r.alone = r.ways[wayAlone]
	answered := false
	for i := range r.alone {
		answered = answered || r.alone[i].err == nil
	}
	switch {
	case answered:
		return r.askEngine(ctx, wayDraft, poolDraft, r.Pair.Draft)
	case len(r.alone) == 0:
		return context.Cause(ctx)
	}
	return fmt.Errorf("the target answers no question: %w", r.alone[0].err)
}

// askEngine asks an engine without the gateway.
func (r *run) askEngine(ctx context.Context, name, tier string, e demo.Engine) error {
	engine, err := engineAsker(e, r.client, r.MaxTokens)
	if err != nil {
		return err
	}
	engine.scores = name == wayDraft
	r.Say("%s: %d questions", name, len(r.list))
	began := time.Now()
	samples := engine.askAll(ctx, r.list, r.Clients)
	took := time.Since(began)
	for i := range samples {
		samples[i].tier = tier
	}
	r.add(ctx, name, len(r.list), took, samples)
	return nil
}

// modeVerify is the mode of the way that has all drafts checked.
const modeVerify = "verify"

// needs is what each mode takes.
var needs = map[string]string{
	wayRisk:    "mode risk needs the logprobs of drafts, and a target that can check them",
	modeVerify: "mode verify needs a target that tells the logprobs of a given text",
}

// askGateway asks the gateway questions, of which the first is number first of all, with settings of the route, unless its mode is
// not available.
func (r *run) askGateway(ctx context.Context, name string, list []question, first int, settings map[string]string) {
	mode := name
	if name == wayLenient {
		mode = modeVerify
	}
	if why := r.missing[mode]; why != "" {
		r.skip(name, needs[mode]+"; "+why)
		return
	}
	values := maps.Clone(common)
	maps.Copy(values, settings)
	values["speculation.mode"] = mode
	if err := r.set(ctx, routePair, values); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		r.skip(name, err.Error())
		return
	}
	r.Say("%s: %d questions", name, len(list))
	gate := r.gate()
	began := time.Now()
	samples := gate.askAll(ctx, list, r.Clients)
	took := time.Since(began)
	for i := range samples {
		s := &samples[i]
		s.prompt += first
		if s.err == nil {
			s.receipt, s.err = r.receipt(ctx, s.id)
		}
		if s.err == nil {
			s.tier = s.receipt.Tier
		}
	}
	r.add(ctx, name, len(list), took, samples)
}

// gate asks the gateway.
func (r *run) gate() asker {
	return asker{client: r.client, url: r.base, model: routePair, tokens: r.MaxTokens}
}

// add puts the samples of a way into the report: of so many questions, in so much time.
func (r *run) add(ctx context.Context, name string, asked int, took time.Duration, samples []sample) {
	r.ways[name] = samples
	own := r.alone
	if name == wayAlone {
		own = samples
	}
	row := rowOf(name, samples, own)
	row.Asked, row.Seconds = asked, took.Seconds()
	row.Failure = r.places.hide(row.Failure)
	if missed := asked - len(samples); missed > 0 {
		row.Why = fmt.Sprintf("%d of %d questions were not put: %v", missed, asked, context.Cause(ctx))
	}
	r.report.Ways = append(r.report.Ways, row)
}

// skip puts a way into the report that was not measured.
func (r *run) skip(name, why string) {
	r.report.Ways = append(r.report.Ways, Way{Name: name, Why: r.places.hide(why)})
}

// engineReports says what the engines can do.
func engineReports(views []gateway.EngineView, o *Options) []Engine {
	models := map[string]string{poolDraft: o.Pair.Draft.Model, poolTarget: o.Pair.Target.Model}
	var all []Engine
	for i := range views {
		v := &views[i]
		model, ours := models[v.Pool]
		if !ours {
			continue
		}
		e := Engine{Pool: v.Pool, Model: model, Scoring: v.Scoring, Continues: v.Continues}
		for _, u := range v.Missing {
			e.Missing = append(e.Missing, Lack{u.Name, u.Reason})
		}
		all = append(all, e)
	}
	return all
}
