package risk

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Label is one of the rules that call an audited draft good or bad. One of them, the setting risk.label, decides what is
// evidence. The others are stored beside it, so that operators can compare what each would have meant.
type Label uint8

// The labels. The first five come from one set of target scores. See plan.Label and accept.Strictness for the rules.
const (
	LabelExact      Label = iota // every token is the target's first choice
	LabelHigh                    // lenient, at each strictness
	LabelBalanced                //
	LabelLoose                   //
	LabelPrefix                  // at least risk.min_prefix_share of the draft are the target's first choices
	LabelJudge                   // the target, asked in words, calls the draft correct
	LabelRegenerate              // the target's own answer is the same, or the judge calls the draft correct
)

// LabelCount is the number of labels.
const LabelCount = 7

var labelNames = [LabelCount]string{"exact", "high", "balanced", "loose", "greedy_prefix", "judge", "regenerate"}

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
	// PrefixShare is the share of the draft before the first token that is not the target's first choice, 0 … 1. It is known
	// if LabelExact is.
	PrefixShare float64
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

// Prefix returns what greedy_prefix would say with another risk.min_prefix_share.
func (l *Labels) Prefix(minShare float64) Outcome {
	if l.Outcomes[LabelExact] == OutcomeUnknown {
		return OutcomeUnknown
	}
	return OutcomeOf(l.PrefixShare >= minShare)
}

// prefixShareName names PrefixShare in the text form.
const prefixShareName = "prefix_share"

// maxLabelsText bounds the text form in bytes; [Labels.String] returns at most 130.
const maxLabelsText = 256

// String returns the text form: known outcomes as words such as "loose=good", and the prefix share if it is known. It is
// empty if nothing is known.
func (l *Labels) String() string {
	var words []string
	for i, o := range l.Outcomes {
		if o != OutcomeUnknown {
			words = append(words, labelNames[i]+"="+o.String())
		}
	}
	if l.Outcomes[LabelExact] != OutcomeUnknown {
		words = append(words, prefixShareName+"="+strconv.FormatFloat(l.PrefixShare, 'f', 4, 64))
	}
	return strings.Join(words, " ")
}

// ParseLabels parses the text form strictly: each name once, and a prefix share exactly if exact is known.
func ParseLabels(text string) (Labels, error) {
	var l Labels
	if len(text) > maxLabelsText {
		return Labels{}, fmt.Errorf("labels of %d bytes", len(text))
	}
	shared := false
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		if name == prefixShareName && !shared {
			x, err := strconv.ParseFloat(value, 64)
			if err != nil || !IsShare(x) {
				return Labels{}, fmt.Errorf("%.80q is no share", word)
			}
			l.PrefixShare, shared = x, true
			continue
		}
		label, known := ParseLabel(name)
		o, said := ParseOutcome(value)
		if !known || !said || l.Outcomes[label] != OutcomeUnknown {
			return Labels{}, fmt.Errorf("%.80q is no label's outcome, or given twice", word)
		}
		l.Outcomes[label] = o
	}
	if shared != (l.Outcomes[LabelExact] != OutcomeUnknown) {
		return Labels{}, fmt.Errorf("%s and %s are not both known or unknown", prefixShareName, LabelExact)
	}
	return l, nil
}

// IsShare reports whether x is a number from 0 to 1.
func IsShare(x float64) bool { return !math.IsNaN(x) && x >= 0 && x <= 1 }

// AuditResult is the outcome of an audit: whether the draft is bad by the label in force, which alone is evidence, and what
// every label says.
type AuditResult struct {
	Bad    bool
	Labels Labels
}
