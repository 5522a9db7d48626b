package process

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNoMetric says that a page has no series of a name.
var ErrNoMetric = errors.New("no such metric")

// Sum adds up the series of a name on a page of metrics whose labels hold all of the words. The error is [ErrNoMetric], or
// names a value that is no number; the sum is then that of the others.
func Sum(page, name string, words ...string) (sum float64, err error) {
	err = ErrNoMetric
lines:
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		for _, w := range words {
			if !strings.Contains(rest, w) {
				continue lines
			}
		}
		v, wrong := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		switch {
		case wrong != nil:
			err = fmt.Errorf("%s: %w", line, wrong)
		case errors.Is(err, ErrNoMetric):
			err = nil
		}
		if wrong == nil {
			sum += v
		}
	}
	return sum, err
}
