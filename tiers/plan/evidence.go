package plan

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/probe"
	"github.com/foregate/foregate/tiers/risk"
)

// EvidenceKeyOf returns the key of the evidence for a request. It contains its traffic class, a fingerprint of the models
// behind its route, and the rules for scores and labels. Requests with other keys are never evidence for it.
func EvidenceKeyOf(cfg Config, f Facts) risk.Key {
	rules := rulesOf(cfg, f)
	own := trafficClass(f.Request, cfg.Risk.Low) + "." + rules
	if f.EvidenceTenant != "" {
		own += "." + f.EvidenceTenant
	}
	return risk.Key{Route: f.Request.Model, TrafficClass: own}
}

// greedyClass is the suffix of the class of requests at temperature 0. Their drafts score higher and have other errors
// than sampled drafts; mixed, the score would separate good drafts from bad ones much worse (docs/measurements.md#simulated-drafts).
const greedyClass = "_t0"

// IsGreedy reports whether a traffic class is that of requests at temperature 0.
func IsGreedy(trafficClass string) bool {
	class, _, _ := strings.Cut(trafficClass, ".")
	return strings.HasSuffix(class, greedyClass)
}

// structuredClass is in the class of requests whose answer is constrained. Their drafts score high, because a grammar leaves
// little to choose, and the target judges them without the grammar.
const structuredClass = "_structured"

// trafficClass returns the class of a request by its temperature and its format, and by its priority if that has a bound of its own.
func trafficClass(r *openai.Request, low bool) string {
	class := "all"
	if r.Structured {
		class += structuredClass
	}
	if low {
		class += risk.LowPriority
	}
	if r.Temperature == 0 {
		class += greedyClass
	}
	return class
}

// labelRules is the version of the labelling rules. Evidence of another version does not count. Increase it with each
// change of the plain score, of [accept.LenientCheck], or of an audit that would label drafts differently.
const labelRules = 5

// rulesOf returns a fingerprint of all that must not change while evidence counts: models, tokenizers, templates, the
// inputs of the score, and the labelling rules. The version of the fitted score follows it ([ScoredBy]).
func rulesOf(cfg Config, f Facts) string {
	h := fnv.New32a()
	for _, c := range [...]*probe.Capabilities{f.Draft, f.Target} {
		if c != nil {
			_, _ = fmt.Fprintf(h, "%q %q %q\n", c.Model, c.Tokenizer, c.Template) // a hash never fails
		}
	}
	if f.Variant != "" {
		_, _ = fmt.Fprintf(h, "variant %q\n", f.Variant)
	}
	if f.Revisions != "" {
		_, _ = fmt.Fprintf(h, "revisions %q\n", f.Revisions)
	}
	auditor, _ := AuditorFor(cfg, f)
	_, _ = fmt.Fprintln(h, labelRules, cfg.Risk.Label, auditor, cfg.HoldbackTokens)
	return fmt.Sprintf("%08x", h.Sum32()) + versionSuffix(cfg.Accept.ScoreVersion())
}

// versionSuffix marks the rules of a fitted score; that of the plain score is empty.
func versionSuffix(version int) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf("-v%d", version)
}

// RulesOf returns the fingerprint of models and rules in a key, without the version of the score.
func RulesOf(k risk.Key) string {
	_, rest, _ := strings.Cut(k.TrafficClass, ".")
	rules, _, _ := strings.Cut(rest, ".")
	rules, _, _ = strings.Cut(rules, "-v")
	return rules
}

// ScoreOf returns the version of the score in a key; 0 is the plain score.
func ScoreOf(k risk.Key) int {
	_, rest, _ := strings.Cut(k.TrafficClass, ".")
	rules, _, _ := strings.Cut(rest, ".")
	_, version, _ := strings.Cut(rules, "-v")
	n, _ := strconv.Atoi(version) // 0 without one
	return max(n, 0)
}

// ScoredBy returns the key of the same requests whose drafts are judged by another version of the fitted score; 0 is
// the plain score.
func ScoredBy(k risk.Key, version int) risk.Key {
	class, rest, _ := strings.Cut(k.TrafficClass, ".")
	rules, tenant, separate := strings.Cut(rest, ".")
	rules, _, _ = strings.Cut(rules, "-v")
	k.TrafficClass = class + "." + rules + versionSuffix(version)
	if separate {
		k.TrafficClass += "." + tenant
	}
	return k
}

// Views is the evidence for a request when it arrives.
type Views struct {
	Own           risk.View
	PerMinute     float64   // requests of the traffic class at all replicas
	Now           time.Time // when the evidence was read
	SpareCapacity bool      // the target has spare capacity for audits
}

// cautiousScore is the threshold of a warm-up until enough scores of the kind are known: of the plain score, in nats, with the shipped
// offsets. On pairs of the simulator (2,000 drafts each, 50 to 200 tokens, divergence 0.1 to 0.4) it accepts 32 to 40 % at temperature 0,
// of which as many are wrong as of the best third (4 to 15 %), and 12 to 15 % at temperature 1. Scores of greedy answers lie so near to
// the highest that there are that 0.2 accepts 93 to 98 %. No distribution of the scores of real models is published.
const cautiousScore = 0.316

// maxWarmupStale is how old the evidence may be that a warm-up serves by, whatever a certificate may be.
const maxWarmupStale = time.Minute

// warmup tells whether requests of the kind go by a warm-up now, and by which threshold. None do while the
// evidence is not known, or too old: it may say that the warm-up is over. None do before the evidence knows that it began,
// but the very first.
func (v Views) warmup(cfg *Config) (threshold float64, runs bool) {
	r := &cfg.Risk
	switch own := &v.Own; {
	case cfg.Mode != ModeRisk, !r.Warmup, r.MaxConcurrentAudits < 1, own.Warmup.Began == 0 && !own.New, !v.IsFirstTime(r), own.Refuted:
		return 0, false
	case v.Now.Sub(own.Seen) > min(r.MaxStaleness, maxWarmupStale):
		return 0, false
	case risk.IsKnown(own.Cautious):
		return own.Cautious, true
	case cfg.Accept.ScoreVersion() == 0:
		return cautiousScore, true
	}
	return 0, false // of a fitted score nothing is known beforehand
}

// maxSpareLoad is the target's KV usage up to which it has capacity to spare for the audits of a warm-up, and for checks of served drafts.
const maxSpareLoad = 0.5

// IsSpare reports whether a target with this KV usage has spare capacity for work in the background.
func IsSpare(load float64) bool { return load <= maxSpareLoad }

// UnderLoad returns the views with what follows from the target's KV usage. In the first time of a kind of request, audits beyond the budget
// bring the promise sooner, and looser thresholds once there is one.
func (v Views) UnderLoad(r *Risk, load float64) Views {
	w := v.Own.Warmup
	first := v.IsFirstTime(r) || w.Began != 0 && w.Remaining(v.Now, r.WarmupDuration) > 0 // a certificate that was imported has no first time
	certified := v.Own.Serves() && v.Own.Hi <= v.Own.Op                                   // every threshold is: there is nothing to find
	v.SpareCapacity = first && !v.Own.Infeasible && !certified && IsSpare(load)
	return v
}

// IsFirstTime reports whether the kind is in its warm-up, whether that serves drafts or not.
func (v Views) IsFirstTime(r *Risk) bool {
	return !v.Own.Serves() && !v.Own.Infeasible && v.Own.Warmup.IsRunning(v.Now, r.WarmupDuration)
}

// auditRate is the share of the drafts of the kind that is audited: in a warm-up all, as far as the budget goes; more where the
// target has capacity to spare, and where a new score collects evidence.
func (v Views) auditRate(r *Risk, own risk.View, warmup, collects bool) float64 {
	rate := r.Rates.AuditRate(own, v.PerMinute)
	if (own.Infeasible || own.Refuted) && !own.Serves() {
		return rate
	}
	if collects {
		rate = max(rate, r.Rates.BoostedRate())
	}
	switch {
	case warmup:
		return 1
	case v.SpareCapacity && (own.Serves() || own.Withheld && own.Provable):
		return r.Rates.BoostedRate()
	case v.SpareCapacity:
		return max(rate, own.SpreadOver(r.Rates.ColdStart))
	}
	return rate
}

// Expected is what a kind's drafts are expected to bring: while a threshold is certified, at least
// the share that it accepts by the grid; in a warm-up that serves drafts, at least the share that this accepts; and else
// whatever the best would. It is never more than the target may stand by of the drafts of the request's application.
func (v Views) Expected(cfg *Config, e economy.Expectation) economy.Expectation {
	share := 1.0
	switch _, warm := v.warmup(cfg); {
	case v.Own.Serves():
		share = v.Own.Share
	case warm && v.Own.Warmup.HasOutcomes():
		share = risk.WarmupShare()
	}
	if share < 1 && e.Samples > 0 {
		share = max(share, e.UpperBound)
	}
	share = min(share, 1-v.Own.Refused)
	e.Samples, e.UpperBound = max(e.Samples, 1), share
	return e
}
