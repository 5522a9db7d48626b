package riskview

import (
	"fmt"

	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/risk"
)

// meanings say when a label calls a draft good.
var meanings = [risk.LabelCount]string{
	risk.LabelExact:      "every token is the target's first choice",
	risk.LabelHigh:       "its tokens are plausible to the target, strictly",
	risk.LabelBalanced:   "its tokens are plausible to the target",
	risk.LabelLoose:      "its tokens are plausible to the target, loosely",
	risk.LabelPrefix:     "most of it, from the start, is the target's first choice",
	risk.LabelJudge:      "the target says in words that it is right",
	risk.LabelRegenerate: "the target's own answer is the same, or the target says that it is right",
}

// labelSettings returns the settings that put a label in force for a route.
func labelSettings(l risk.Label, route string) []string {
	set := func(name, value string) string { return fmt.Sprintf("%s@%s=%s", name, route, value) }
	switch l {
	case risk.LabelExact:
		return []string{set("risk.label", string(plan.LabelPrefix)), set("risk.min_prefix_share", "1")}
	case risk.LabelPrefix:
		return []string{set("risk.label", string(plan.LabelPrefix))}
	case risk.LabelJudge:
		return []string{set("risk.label", string(plan.LabelJudge))}
	case risk.LabelRegenerate:
		return []string{set("risk.label", string(plan.LabelRegenerate))}
	}
	return []string{set("risk.label", string(plan.LabelLenient)), set("speculation.strictness", l.String())}
}

// labelInForce returns the label by which a route's audits count.
func labelInForce(c *plan.Config) risk.Label {
	switch c.Risk.Label {
	case plan.LabelJudge:
		return risk.LabelJudge
	case plan.LabelRegenerate:
		return risk.LabelRegenerate
	case plan.LabelPrefix:
		if c.Risk.MinPrefixShare >= 1 {
			return risk.LabelExact
		}
		return risk.LabelPrefix
	}
	if l, known := risk.ParseLabel(string(c.Strictness)); known {
		return l
	}
	return risk.LabelBalanced
}

// outcomeOf returns what a label says of an audit; false if the audit did not ask, so that it is no sample for the label.
// Whether the judge is asked is drawn before the draft begins. A judge that was asked and did not answer counts as not
// asked. An audit without any outcome is a sample of every label, as lost. A draft that is bad without any label was refused
// before the target was asked: every label would call it bad.
func outcomeOf(e *evidence.LogEntry, l, inForce risk.Label) (risk.Outcome, bool) {
	said := e.Labels.Of(l)
	switch {
	case e.Label != goodLabel && e.Label != badLabel:
		return risk.OutcomeUnknown, true
	case l == inForce, e.Labels == risk.Labels{} && e.Label == badLabel:
		return risk.OutcomeOf(e.Label == goodLabel), true
	}
	return said, said != risk.OutcomeUnknown
}

// The outcomes of log entries.
const goodLabel, badLabel = "good", "bad"

// labelsKnown returns the labels that audits say something of: the one in force first.
func labelsKnown(entries []evidence.LogEntry, inForce risk.Label) []risk.Label {
	var known [risk.LabelCount]bool
	for i := range entries {
		for l, said := range entries[i].Labels.Outcomes {
			known[l] = known[l] || said != risk.OutcomeUnknown
		}
	}
	labels := []risk.Label{inForce}
	for l := range risk.Label(risk.LabelCount) {
		if known[l] && l != inForce {
			labels = append(labels, l)
		}
	}
	return labels
}
