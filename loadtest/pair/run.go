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
func (m *run) askEngines(ctx context.Context) error {
	if err := m.askEngine(ctx, wayAlone, poolTarget, m.Pair.Target); err != nil {
		return err
	}
	m.alone = m.ways[wayAlone]
	answered := false
	for i := range m.alone {
		answered = answered || m.alone[i].err == nil
	}
	switch {
	case answered:
		return m.askEngine(ctx, wayDraft, poolDraft, m.Pair.Draft)
	case len(m.alone) == 0:
		return context.Cause(ctx)
	}
	return fmt.Errorf("the target answers no question: %w", m.alone[0].err)
}

// askEngine asks an engine without the gateway.
func (m *run) askEngine(ctx context.Context, name, tier string, e demo.Engine) error {
	engine, err := engineAsker(e, m.client, m.MaxTokens)
	if err != nil {
		return err
	}
	engine.scores = name == wayDraft
	m.Say("%s: %d questions", name, len(m.list))
	began := time.Now()
	samples := engine.askAll(ctx, m.list, m.Clients)
	took := time.Since(began)
	for i := range samples {
		samples[i].tier = tier
	}
	m.add(ctx, name, len(m.list), took, samples)
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
func (m *run) askGateway(ctx context.Context, name string, list []question, first int, settings map[string]string) {
	mode := name
	if name == wayLenient {
		mode = modeVerify
	}
	if why := m.missing[mode]; why != "" {
		m.skip(name, needs[mode]+"; "+why)
		return
	}
	values := maps.Clone(common)
	maps.Copy(values, settings)
	values["speculation.mode"] = mode
	if err := m.set(ctx, routePair, values); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		m.skip(name, err.Error())
		return
	}
	m.Say("%s: %d questions", name, len(list))
	gate := m.gate()
	began := time.Now()
	samples := gate.askAll(ctx, list, m.Clients)
	took := time.Since(began)
	for i := range samples {
		s := &samples[i]
		s.prompt += first
		if s.err == nil {
			s.receipt, s.err = m.receipt(ctx, s.id)
		}
		if s.err == nil {
			s.tier = s.receipt.Tier
		}
	}
	m.add(ctx, name, len(list), took, samples)
}

// gate asks the gateway.
func (m *run) gate() asker {
	return asker{client: m.client, url: m.base, model: routePair, tokens: m.MaxTokens}
}

// add puts the samples of a way into the report: of so many questions, in so much time.
func (m *run) add(ctx context.Context, name string, asked int, took time.Duration, samples []sample) {
	m.ways[name] = samples
	own := m.alone
	if name == wayAlone {
		own = samples
	}
	row := rowOf(name, samples, own)
	row.Asked, row.Seconds = asked, took.Seconds()
	row.Failure = m.places.hide(row.Failure)
	if missed := asked - len(samples); missed > 0 {
		row.Why = fmt.Sprintf("%d of %d questions were not put: %v", missed, asked, context.Cause(ctx))
	}
	m.report.Ways = append(m.report.Ways, row)
}

// skip puts a way into the report that was not measured.
func (m *run) skip(name, why string) {
	m.report.Ways = append(m.report.Ways, Way{Name: name, Why: m.places.hide(why)})
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
