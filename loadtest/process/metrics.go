package process

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ErrNoMetric says that a page has no series of a name.
var ErrNoMetric = errors.New("no such metric")

// Metrics is a page of metrics.
type Metrics string

// Each calls a function with each series of a name, by its labels as on the page, in the order of the page. The error is
// [ErrNoMetric], or names a value that is no number, which is left out.
func (m Metrics) Each(name string, visit func(labels string, v float64)) (err error) {
	err = ErrNoMetric
	for line := range strings.Lines(string(m)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		at := strings.LastIndexByte(rest, ' ')
		v, wrong := strconv.ParseFloat(rest[at+1:], 64)
		switch {
		case wrong != nil:
			err = fmt.Errorf("%s: %w", line, wrong)
			continue
		case errors.Is(err, ErrNoMetric):
			err = nil
		}
		visit(strings.Trim(rest[:at], "{}"), v)
	}
	return err
}

// Total adds up the series of a name whose labels hold all of the words; the error is that of [Metrics.Each].
func (m Metrics) Total(name string, words ...string) (sum float64, err error) {
	err = m.Each(name, func(labels string, v float64) {
		for _, w := range words {
			if !strings.Contains(labels, w) {
				return
			}
		}
		sum += v
	})
	return sum, err
}

// Sum is [Metrics.Total] for who takes a series that is not there for 0.
func (m Metrics) Sum(name string, words ...string) float64 {
	sum, _ := m.Total(name, words...) // as said
	return sum
}

// modeSeries matches the mode in which a gateway is with Redis.
var modeSeries = regexp.MustCompile(`(?m)^foregate_(?:redis|fleet)_mode\{mode="(\w+)"\} 1$`)

// Mode is the degradation level of a gateway toward Redis, such as "local"; "" when the page does not tell.
func (m Metrics) Mode() string {
	if found := modeSeries.FindStringSubmatch(string(m)); found != nil {
		return found[1]
	}
	return ""
}
