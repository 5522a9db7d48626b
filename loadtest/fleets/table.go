package fleets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Read reads what was found before. A file that is not there has nothing; so has no name.
func Read(file string) (found []Found, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // named by who runs it
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return found, nil
}

// spread is the mean of something over the seeds, with the range.
type spread struct {
	sum, low, high float64
	n              int
}

func (s *spread) add(v float64) {
	if s.n == 0 {
		s.low, s.high = v, v
	}
	s.sum, s.n, s.low, s.high = s.sum+v, s.n+1, min(s.low, v), max(s.high, v)
}

func (s *spread) mean() float64 { return s.sum / float64(max(1, s.n)) }

// of are the seeds' figures of a fleet.
func of(found []Found, fleet string, value func(*Found) float64) (s spread) {
	for i := range found {
		if found[i].Fleet == fleet {
			s.add(value(&found[i]))
		}
	}
	return s
}

// Table has a row for each fleet of [Grid] that was found, with means over the seeds. × is the rent of a token divided by that of
// the target alone.
func Table(found []Found) string {
	var b strings.Builder
	b.WriteString("| fleet | mode | acceptance (seen) | AUROC | seeds | requests/s | TTFT p50 / p99 | E2E p99 | disagreement | $/M AWS | × | $/M market | × |\n|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	var alone Fleet
	for _, f := range Grid() {
		if f.Mode == TargetOnly {
			alone = f
		}
		name := f.String()
		mean := func(value func(*Found) float64) float64 { s := of(found, name, value); return s.mean() }
		seeds := of(found, name, func(*Found) float64 { return 1 }).n
		if seeds == 0 {
			continue
		}
		rent := func(fleet, list string) spread {
			return of(found, fleet, func(f *Found) float64 { return f.Rent[list] })
		}
		engines, acceptance, auroc := fmt.Sprintf("%d × %s", f.Target.Count, f.Target.Profile), "–", "–"
		if f.Mode != TargetOnly {
			engines += fmt.Sprintf(" + %d × %s", f.Draft.Count, f.Draft.Profile)
			acceptance = fmt.Sprintf("%.2f (%.2f)", f.Law.Acceptance, mean(func(f *Found) float64 { return f.Acceptance }))
			auroc = fmt.Sprintf("%.2f", f.Law.AUROC)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %.1f | %.2f / %.2f s | %.0f s | %.3f |", engines, f.Mode, acceptance, auroc, seeds,
			mean(func(f *Found) float64 { return f.PerSecond }), mean(func(f *Found) float64 { return f.TTFT50 })/1000,
			mean(func(f *Found) float64 { return f.TTFT99 })/1000, mean(func(f *Found) float64 { return f.E2E99 })/1000, mean(func(f *Found) float64 { return f.Disagreement }))
		for _, list := range []string{"aws", "market"} {
			own, beside := rent(name, list), rent(alone.String(), list)
			ratio := "–"
			if beside.n > 0 {
				ratio = fmt.Sprintf("%.2f", own.mean()/beside.mean())
			}
			fmt.Fprintf(&b, " %.2f (%.2f–%.2f) | %s |", own.mean(), own.low, own.high, ratio)
		}
		b.WriteString("\n")
	}
	return b.String()
}
