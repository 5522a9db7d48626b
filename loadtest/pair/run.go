package pair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/demo"
)

const (
	seamHoldback = 8 // tokens of a draft that is broken off later
	// firstCut is the number of events after which a draft is broken off at the earliest: after the hold-back, with room for
	// events that have no token.
	firstCut = seamHoldback + 4
)

// errOver is the reason for what was not reached.
var errOver = errors.New("the time of the run was over")

// common are the settings of every way: each prompt is drafted and generated anew, whatever it costs, and slow machines have time.
var common = map[string]string{
	"economy.guard": "off", "cache.mode": "off", "timeout.draft_first_token": "1m", "timeout.target_first_token": "20m", // and a score may take a twentieth of that
}

// run is a run in progress.
type run struct {
	Options
	*replica
	list    []prompt
	alone   []sample            // of the target without the gateway
	ways    map[string][]sample // by the way's name
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
	m := &run{Options: o, replica: rep, list: prompts(o.Requests), ways: map[string][]sample{}, missing: map[string]string{}}
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
	m.askModes(ctx)
	m.askSeams(ctx)
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
	return newHider([]string{o.Pair.Draft.URL, o.Pair.Target.URL, rep.base, rep.admin, rep.cutter.url}, keys), nil
}

// askEngines asks the target twice without the gateway, the second time in the opposite order, and the draft once.
func (m *run) askEngines(ctx context.Context) error {
	for _, w := range []struct {
		name, tier string
		engine     demo.Engine
	}{{wayAlone, poolTarget, m.Pair.Target}, {wayAgain, poolTarget, m.Pair.Target}, {wayDraft, poolDraft, m.Pair.Draft}} {
		engine, err := engineAsker(w.engine, m.client, m.MaxTokens)
		if err != nil {
			return err
		}
		m.Say("%s: %d questions", w.name, len(m.list))
		list := slices.Clone(m.list)
		if w.name == wayAgain {
			slices.Reverse(list) // an engine that reuses what it has computed rounds otherwise after other questions
		}
		samples := engine.askAll(ctx, list, m.Clients)
		for i := range samples {
			s := &samples[i]
			s.tier = w.tier
			if w.name == wayAgain {
				s.prompt = len(list) - 1 - s.prompt
			}
		}
		if w.name == wayAlone {
			m.alone = samples
		}
		m.add(ctx, w.name, samples)
	}
	for i := range m.alone {
		if m.alone[i].err == nil {
			return nil
		}
	}
	if len(m.alone) == 0 {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the target answers no question: %w", m.alone[0].err)
}

// needs is what each mode takes.
var needs = map[string]string{
	wayRisk:       "mode risk needs the logprobs of drafts, and a target that can check them",
	wayConfidence: "mode confidence needs the logprobs of drafts",
	wayVerify:     "mode verify needs a target that tells the logprobs of a given text",
}

// askModes asks the gateway in each mode: first in mode off, which takes no more of the engines than answers. Those that ask the
// target about each draft come before the mode confidence: they show where the scores of drafts lie.
func (m *run) askModes(ctx context.Context) {
	for _, mode := range []string{wayOff, wayRisk} {
		m.askGateway(ctx, mode, routePair, nil)
	}
	m.askGateway(ctx, wayLenient, routePair, map[string]string{"speculation.verify_rule": "lenient"})
	var scores []float64
	for _, mode := range []string{wayRisk, wayLenient} {
		scores = append(scores, scoresOf(m.ways[mode])...)
	}
	m.askGateway(ctx, wayConfidence, routePair, map[string]string{"speculation.threshold_nats": nats(median(scores))})
	m.askGateway(ctx, wayVerify, routePair, nil)
}

// askSeams has the target draft for itself, and breaks its drafts off in the middle.
func (m *run) askSeams(ctx context.Context) {
	for _, u := range m.drafts(routeSame).UnavailableModes {
		if u.Name == wayConfidence {
			m.skip(waySeams, needs[wayConfidence]+"; "+strings.ReplaceAll(u.Reason, poolSame, poolTarget))
			return
		}
	}
	m.cutter.armed.Store(true)
	defer m.cutter.armed.Store(false)
	m.askGateway(ctx, waySeams, routeSame, map[string]string{
		"speculation.threshold_nats":  "-20",
		"speculation.holdback_tokens": strconv.Itoa(seamHoldback), "speculation.holdback_ms": "60000",
	})
}

// askGateway asks the gateway all questions with settings of a route, unless its mode is not available.
func (m *run) askGateway(ctx context.Context, name, route string, settings map[string]string) {
	mode := name
	switch name {
	case waySeams:
		mode = wayConfidence
	case wayLenient:
		mode = wayVerify
	}
	if why := m.missing[mode]; why != "" && route == routePair {
		m.skip(name, needs[mode]+"; "+why)
		return
	}
	values := maps.Clone(common)
	maps.Copy(values, settings)
	values["speculation.mode"] = mode
	if err := m.set(ctx, route, values); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		m.skip(name, err.Error())
		return
	}
	m.Say("%s: %d questions", name, len(m.list))
	gate := asker{client: m.client, url: m.base, model: route, tokens: m.MaxTokens}
	clients := m.Clients
	if name == waySeams {
		clients = 1 // the cutter counts on it
	}
	samples := gate.askAll(ctx, m.list, clients)
	for i := range samples {
		s := &samples[i]
		if s.err == nil {
			s.receipt, s.err = m.receipt(ctx, s.id)
		}
		if s.err == nil {
			s.tier = s.receipt.Tier
		}
	}
	m.add(ctx, name, samples)
}

// nats is a value of a setting, as the settings in force show it.
func nats(v float64) string {
	v = min(max(v, -20), 20)
	text := strconv.FormatFloat(v, 'f', 3, 64)
	short, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err) // it was just formatted
	}
	return strconv.FormatFloat(short+0, 'g', -1, 64) // 0 instead of -0
}

// add puts the samples of a way into the report.
func (m *run) add(ctx context.Context, name string, samples []sample) {
	m.ways[name] = samples
	row := rowOf(name, samples, m.alone)
	row.Failure = m.places.hide(row.Failure)
	if missed := len(m.list) - len(samples); missed > 0 {
		row.Why = fmt.Sprintf("%d of %d questions were not put: %v", missed, len(m.list), context.Cause(ctx))
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
			continue // the target's engine a second time
		}
		e := Engine{Pool: v.Pool, Model: model, Scoring: v.Scoring, Continues: v.Continues}
		for _, u := range v.Missing {
			e.Missing = append(e.Missing, Lack{u.Name, u.Reason})
		}
		all = append(all, e)
	}
	return all
}
