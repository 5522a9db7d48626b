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
	if said.Of(risk.LabelExact) != risk.OutcomeUnknown {
		l.PrefixShare = new(said.PrefixShare)
	}
}

// labels reads them from a line that [line.check] accepts.
func (l *line) labels() (said risk.Labels) {
	for name, text := range l.Labels {
		label, _ := risk.ParseLabel(name)
		said.Outcomes[label], _ = risk.ParseOutcome(text)
	}
	if l.PrefixShare != nil {
		said.PrefixShare = *l.PrefixShare
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

// hasPrefixShare reports whether the prefix share is a share, and given exactly if the label exact is.
func (l *line) hasPrefixShare() bool {
	_, exact := l.Labels[risk.LabelExact.String()]
	return exact == (l.PrefixShare != nil) && (l.PrefixShare == nil || risk.IsShare(*l.PrefixShare))
}
