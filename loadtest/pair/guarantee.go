package pair

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/process"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/risk"
)

// Guarantee is what came of mode risk through the gateway.
type Guarantee struct {
	Why             string     `json:"why,omitempty"` // why nothing was certified
	MaxDisagreement float64    `json:"max_disagreement"`
	Label           string     `json:"label"`
	Imported        int        `json:"imported"` // audits of the other questions; 0: nothing was certified
	Requests        int        `json:"requests"`
	Served          int        `json:"served"`    // drafts that were served unchecked
	Disagreed       Proportion `json:"disagreed"` // of the served drafts that the target was asked about, those that it does not stand by
}

// held says whether the bound held, as far as the counts tell.
func (g *Guarantee) held() string {
	switch d := &g.Disagreed; {
	case d.Of == 0:
		return "nothing was served"
	case d.share() <= g.MaxDisagreement:
		return "held"
	case d.Low <= g.MaxDisagreement:
		return "exceeded, within the interval"
	}
	return "broken"
}

// The labels.
const (
	labelLenient = "lenient"     // by the target's scores
	labelSame    = "same answer" // as the target's own, asked alone
)

// sameScore is how far the scores of two drafts of one question may be apart, in nats, to be taken for the same draft: engines
// round otherwise in other batches.
const sameScore = 0.1

// labelled are the drafts with the label that mode risk uses here: lenient if the target scores texts. The draft is that which
// the engine wrote when it was asked alone, and counts if the gateway's was the same.
func (r *run) labelled() []audit {
	if r.missing[modeVerify] != "" {
		return r.sameAnswers()
	}
	alone := answered(r.ways[wayDraft])
	var all []audit
	for i := range r.ways[wayLenient] {
		s := &r.ways[wayLenient][i]
		own := alone[s.prompt]
		good, known := s.label()
		if !known || own == nil || own.score == nil {
			continue
		}
		if a := auditOf(own, good); math.Abs(a.score-s.receipt.Verdict.Score) <= sameScore {
			all = append(all, a)
		}
	}
	return all
}

// sameAnswers are the drafts that say what the target says, asked alone, and those that do not.
func (r *run) sameAnswers() (all []audit) {
	own := answered(r.alone)
	for i := range r.ways[wayDraft] {
		s := &r.ways[wayDraft][i]
		if t := own[s.prompt]; s.err == nil && s.score != nil && t != nil {
			all = append(all, auditOf(s, accept.SameAnswer([]byte(s.text), []byte(t.text))))
		}
	}
	return all
}

func auditOf(s *sample, good bool) audit {
	return audit{question: s.prompt, score: float64(s.score.Score()), features: s.score.Features(), good: good}
}

// label is what the target said of the whole draft, if it was asked.
func (s *sample) label() (good, known bool) {
	rc := s.receipt
	if s.err != nil || rc == nil || rc.Verdict == nil || len(rc.Checks) == 0 {
		return false, false
	}
	last := rc.Checks[len(rc.Checks)-1]
	return last.Pass, last.Tokens == rc.Verdict.Tokens && (last.Reason == reasonAgrees || last.Reason == reasonDisagrees)
}

// The reasons of checks that say something of the draft. A judge, for one, may answer neither yes nor no.
const reasonAgrees, reasonDisagrees = "target_agrees", "target_disagrees"

// evidencePart is how many of n questions make the audits that are imported: half of them, and of few as many as place thresholds.
func evidencePart(n int) int { return max(n/2, min(risk.GridScores+10, n-60)) }

// askRisk asks a part of the questions in mode risk, after the audits of the others were imported.
func (r *run) askRisk(ctx context.Context) {
	half := evidencePart(len(r.list))
	label := labelLenient
	setting := "lenient"
	if r.missing[modeVerify] != "" {
		label, setting = labelSame, "regenerate"
	}
	var past []audit
	for _, a := range r.audits {
		if a.question < half {
			past = append(past, a)
		}
	}
	rate, certified := promised(past)
	g := &Guarantee{MaxDisagreement: rate, Label: label}
	r.report.Guarantee = g
	settings := map[string]string{
		"risk.max_disagreement": strconv.FormatFloat(rate, 'g', -1, 64), "risk.label": setting, "risk.warmup": "shadow", "risk.refit": "off",
	}
	list := r.list[half:]
	switch {
	case r.missing[wayRisk] != "":
	case len(past) < risk.GridScores:
		g.Why = fmt.Sprintf("%d audits of the first questions are too few; %d are wanted", len(past), risk.GridScores)
	case !certified:
		g.Why = fmt.Sprintf("%d audits certify no threshold at any ε up to %g", len(past), promisedRates[len(promisedRates)-1])
	default:
		if err := r.importAudits(ctx, settings, past, rate); err != nil {
			g.Why = r.places.hide(err.Error())
		} else {
			g.Imported = len(past)
		}
	}
	if g.Imported == 0 {
		list = list[:min(someQuestions, len(list))] // the target answers all of them
	}
	r.askGateway(ctx, wayRisk, list, half, settings)
	r.countServed(g)
}

// countServed counts the served drafts, and those that the target does not stand by: it was asked about the drafts of the same
// questions before.
func (r *run) countServed(g *Guarantee) {
	labels := map[int]bool{}
	for _, a := range r.audits {
		labels[a.question] = a.good
	}
	judged, bad := 0, 0
	for i := range r.ways[wayRisk] {
		s := &r.ways[wayRisk][i]
		if s.err != nil {
			continue
		}
		if g.Requests++; s.tier != poolDraft {
			continue
		}
		g.Served++
		if good, known := labels[s.prompt]; known {
			if judged++; !good {
				bad++
			}
		}
	}
	g.Disagreed = proportion(bad, judged)
}

// importAudits makes audits the evidence of the route, as foregate risk import does, and waits until they are in force.
func (r *run) importAudits(ctx context.Context, settings map[string]string, past []audit, rate float64) error {
	values := map[string]string{"speculation.mode": wayRisk}
	for name, v := range settings {
		values[name] = v
	}
	if err := r.set(ctx, routePair, values); err != nil {
		return err
	}
	store := evidence.New(evidence.Options{Redis: r.stores.Control, Rule: func(string) risk.Rule { return ruleFor(rate) }})
	key, err := r.evidenceKey(ctx, store)
	if err != nil {
		return err
	}
	if done, err := store.Certify(ctx, key, risk.PlanImport(ruleFor(rate), nil, entriesOf(past))); err != nil || !done {
		return fmt.Errorf("the audits were not imported: %v, %w", done, err)
	}
	return r.untilCertified(ctx)
}

// evidenceKey asks the gateway a question until it has evidence for such ones, because not every draft is audited, and returns
// its key.
func (r *run) evidenceKey(ctx context.Context, store *evidence.Store) (key risk.Key, err error) {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	err = process.Poll(ctx, noLimit, func() bool {
		if s := r.gate().ask(ctx, r.list[0].text); s.err != nil {
			return false
		}
		known, err := store.All(ctx)
		for i := range known {
			if k := known[i].Key; err == nil && k.Route == routePair && strings.HasPrefix(k.TrafficClass, "all") {
				key = k
			}
		}
		return key.Route != ""
	})
	return key, err
}

// certifiedTries is how many questions are asked at most until the imported audits are in force: a replica reads evidence once a second.
const certifiedTries = 20

// untilCertified asks until a draft is judged by a certified threshold.
func (r *run) untilCertified(ctx context.Context) error {
	reason := ""
	for range certifiedTries {
		s := r.gate().ask(ctx, r.list[0].text)
		if s.err == nil {
			s.receipt, s.err = r.receipt(ctx, s.id)
		}
		if s.err != nil {
			return s.err
		}
		if s.receipt.Verdict != nil {
			return nil
		}
		reason = s.reason()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settingsTimeout / certifiedTries):
		}
	}
	return fmt.Errorf("the imported audits are not in force: %s", reason)
}
