package auditlog

import "github.com/foregate/foregate/tiers/risk"

// setLabels writes what every label says of the draft; nothing if nothing is known.
func (l *line) setLabels(said *risk.Labels) {
	for label := range risk.Label(risk.LabelCount) {
		if o := said.Of(label); o != risk.OutcomeUnknown {
			if l.Labels == nil {
				l.Labels = make(map[string]string, risk.LabelCount)
			}
			l.Labels[label.String()] = o.String()
		}
	}
}

// labels reads them from a line that [line.check] accepts.
func (l *line) labels() (said risk.Labels) {
	for name, text := range l.Labels {
		label, _ := risk.ParseLabel(name)
		said.Outcomes[label], _ = risk.ParseOutcome(text)
	}
	return said
}

// hasLabels reports whether the labels are known ones, each good or bad.
func (l *line) hasLabels() bool {
	for name, text := range l.Labels {
		_, known := risk.ParseLabel(name)
		if _, said := risk.ParseOutcome(text); !known || !said {
			return false
		}
	}
	return true
}
