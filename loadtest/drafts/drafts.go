// Package drafts is the form in which drafts of a real pair of models are kept without their text: of each one the task, what
// the gateway scores it by, and what each label says of it. Start at [Draft]; loadtest/pair records them, and
// loadtest/applications replays them.
package drafts

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/foregate/foregate/tiers/accept"
)

// Draft is one draft of a task's prompt.
type Draft struct {
	Task     string
	Model    string          // that wrote it, such as near
	Features accept.Features // as far as a thousandth of a nat
	Score    float64         // the plain score, nats, as far as a thousandth

	Gap     float64 // the most that a token's logprob by the target is below that of its first choice, nats
	Lenient bool    // the target, scoring its tokens, finds all plausible enough
	Exact   bool    // each token is the target's first choice
	Same    bool    // the target's own answer is the same, but for white space
	Judged  bool    // the target was asked in words, too
	Judge   bool    // asked in words, it calls the draft correct
	Alike   bool    // its own answer is the same, or it says in words that both say the same
}

// Labels are the labels of the gateway (risk.label), in the order of its documentation, and two bounds of [Draft.Gap] that
// a study called high and balanced.
var Labels = []string{"lenient", "exact", "judge", "regenerate", "high", "balanced"}

// The largest gaps of the study's labels, nats.
const highGap, balancedGap = 1, 2.3

// Good reports whether the target stands by the draft, by one of the [Labels], and whether it was asked.
func (d *Draft) Good(label string) (good, asked bool) {
	switch label {
	case "exact":
		return d.Exact, true
	case "judge":
		return d.Judge, d.Judged
	case "regenerate":
		return d.Alike, d.Judged
	case "high":
		return d.Gap <= highGap, true
	case "balanced":
		return d.Gap <= balancedGap, true
	}
	return d.Lenient, true
}

// Head is the first line of a file of drafts. Numbers are thousandths of a nat. Labels are 0 or 1: lenient, exact, same, then
// judge and alike, or nothing if it was not asked in words.
var Head = "task,model," + strings.Join(accept.FeatureNames[:], ",") + ",score,gap,labels"

// Line is the draft's line, without its end.
func (d *Draft) Line() string {
	fields := []string{d.Task, d.Model}
	for _, v := range append(d.Features[:], d.Score, d.Gap) {
		fields = append(fields, strconv.Itoa(int(math.Round(1000*v))))
	}
	labels, bits := d.labels(), ""
	if !d.Judged {
		labels = labels[:scoredLabels]
	}
	for _, is := range labels {
		bits += map[bool]string{false: "0", true: "1"}[*is]
	}
	return strings.Join(append(fields, bits), ",")
}

// scoredLabels is how many labels take no question in words.
const scoredLabels = 3

func (d *Draft) labels() []*bool { return []*bool{&d.Lenient, &d.Exact, &d.Same, &d.Judge, &d.Alike} }

// Read reads a file of drafts. It fails at a line that is not as the first one says.
func Read(r io.Reader) (all []Draft, err error) {
	lines := bufio.NewScanner(r)
	if !lines.Scan() || lines.Text() != Head {
		return nil, fmt.Errorf("drafts: the first line is %q, not %q", lines.Text(), Head)
	}
	for lines.Scan() {
		d, err := parse(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("drafts: draft %d: %w", len(all)+1, err)
		}
		all = append(all, d)
	}
	return all, lines.Err()
}

func parse(line string) (d Draft, err error) {
	fields := strings.Split(line, ",")
	if len(fields) != strings.Count(Head, ",")+1 {
		return d, fmt.Errorf("%d fields", len(fields))
	}
	d.Task, d.Model = fields[0], fields[1]
	values := make([]float64, len(fields)-3)
	for i := range values {
		n, err := strconv.Atoi(fields[2+i])
		if err != nil {
			return d, err
		}
		values[i] = float64(n) / 1000
	}
	n := copy(d.Features[:], values)
	d.Score, d.Gap = values[n], values[n+1]
	bits, labels := fields[len(fields)-1], d.labels()
	if d.Judged = len(bits) == len(labels); !d.Judged && len(bits) != scoredLabels || strings.Trim(bits, "01") != "" {
		return d, fmt.Errorf("labels %q", bits)
	}
	for i := range bits {
		*labels[i] = bits[i] == '1'
	}
	return d, nil
}
