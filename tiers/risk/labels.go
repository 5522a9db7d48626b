package risk

import (
	"fmt"
	"strings"
)

// Label is one of the rules that call an audited draft good or bad. One of them, the setting risk.label, decides what is
// evidence. The others are stored beside it, so that operators can compare what each would have meant.
type Label uint8

// The labels. The first two come from one set of target scores. See plan.Label for the rules.
const (
	LabelExact      Label = iota // every token is the target's first choice
	LabelLenient                 // every token is plausible to the target
	LabelJudge                   // the target, asked in words, calls the draft correct
	LabelRegenerate              // the target's own answer is the same, or the judge calls the draft correct
)

// LabelCount is the number of labels.
const LabelCount = 4

var labelNames = [LabelCount]string{"exact", "lenient", "judge", "regenerate"}

// String returns the name of the label.
func (l Label) String() string {
	if int(l) >= LabelCount {
		return "unknown"
	}
	return labelNames[l]
}

// ParseLabel returns the label with a name.
func ParseLabel(name string) (Label, bool) {
	for i, n := range labelNames {
		if n == name {
			return Label(i), true
		}
	}
	return 0, false
}

// Outcome is what a label says of a draft.
type Outcome uint8

// The outcomes.
const (
	OutcomeUnknown Outcome = iota // the target was not asked in this way, or did not answer
	OutcomeGood
	OutcomeBad
)

// OutcomeOf returns the outcome for a draft that the target accepted or not.
func OutcomeOf(good bool) Outcome {
	if good {
		return OutcomeGood
	}
	return OutcomeBad
}

// String returns good, bad or unknown.
func (o Outcome) String() string {
	switch o {
	case OutcomeGood:
		return "good"
	case OutcomeBad:
		return "bad"
	}
	return "unknown"
}

// ParseOutcome parses good or bad.
func ParseOutcome(text string) (Outcome, bool) {
	switch text {
	case "good":
		return OutcomeGood, true
	case "bad":
		return OutcomeBad, true
	}
	return OutcomeUnknown, false
}

// Labels holds what each label says of one draft. The zero value says nothing.
type Labels struct {
	Outcomes [LabelCount]Outcome // by Label
}

// Of returns what one label says.
func (l *Labels) Of(label Label) Outcome {
	if int(label) >= LabelCount {
		return OutcomeUnknown
	}
	return l.Outcomes[label]
}

// Set stores what one label says.
func (l *Labels) Set(label Label, good bool) { l.Outcomes[label] = OutcomeOf(good) }

// maxLabelsText bounds the text form in bytes; [Labels.String] returns at most 55.
const maxLabelsText = 256

// String returns the text form: known outcomes as words such as "lenient=good". It is empty if nothing is known.
func (l *Labels) String() string {
	var words []string
	for i, o := range l.Outcomes {
		if o != OutcomeUnknown {
			words = append(words, labelNames[i]+"="+o.String())
		}
	}
	return strings.Join(words, " ")
}

// ParseLabels parses the text form strictly: each name once.
func ParseLabels(text string) (Labels, error) {
	var l Labels
	if len(text) > maxLabelsText {
		return Labels{}, fmt.Errorf("labels of %d bytes", len(text))
	}
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		label, known := ParseLabel(name)
		o, said := ParseOutcome(value)
		if !known || !said || l.Outcomes[label] != OutcomeUnknown {
			return Labels{}, fmt.Errorf("%.80q is no label's outcome, or given twice", word)
		}
		l.Outcomes[label] = o
	}
	return l, nil
}

// AuditResult is the outcome of an audit: whether the draft is bad by the label in force, which alone is evidence, and what
// every label says.
type AuditResult struct {
	Bad    bool
	Labels Labels
}
