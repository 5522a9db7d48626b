package loadtest

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	kvPoints = 3600 // of all backends of a case together
	kvLines  = 24   // backends that are drawn
	kvMarks  = 100  // deaths that are marked
)

// backend is the course of one backend's state.
type backend struct {
	tier    string
	number  int
	samples []Sample
	peak    float64
}

func (b backend) name() string { return fmt.Sprintf("%s %d", cmp.Or(b.tier, "backend"), b.number) }

// backends sorts a case's samples by backend and time.
func backends(samples []Sample) []backend {
	type id struct {
		tier   string
		number int
	}
	found := map[id]*backend{}
	for _, s := range samples {
		k := id{s.Tier, s.Backend}
		if found[k] == nil {
			found[k] = &backend{tier: s.Tier, number: s.Backend}
		}
		s.KVUsage = min(max(finite(s.KVUsage), 0), 1)
		found[k].samples = append(found[k].samples, s)
		found[k].peak = max(found[k].peak, s.KVUsage)
	}
	out := []backend{}
	for _, b := range found {
		slices.SortStableFunc(b.samples, func(a, b Sample) int { return cmp.Compare(a.At, b.At) })
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b backend) int {
		return cmp.Or(cmp.Compare(a.tier, b.tier), cmp.Compare(a.number, b.number))
	})
	return out
}

// drawn are the backends that a picture has room for: those with the highest
// peaks.
func drawn(all []backend) []backend {
	if len(all) <= kvLines {
		return all
	}
	top := slices.Clone(all)
	slices.SortStableFunc(top, func(a, b backend) int { return cmp.Compare(b.peak, a.peak) })
	return top[:kvLines]
}

// line is the backend's KV usage in at most n points, the highest of each span,
// and the times of its deaths. Where it was dead there is a gap.
func (b backend) line(c clock, n int) (s plotLine, deaths []Sample) {
	s = plotLine{Label: b.name(), Colour: tierColour(b.tier), Thin: true}
	group, gap := max((len(b.samples)+n-1)/max(n, 1), 1), true
	for i, x := range b.samples {
		switch {
		case !x.Alive:
			if i > 0 && b.samples[i-1].Alive {
				deaths = append(deaths, Sample{At: x.At, KVUsage: b.samples[i-1].KVUsage})
				s.gap(c.of(x.At))
			}
			gap = true
		case !gap && i%group != 0:
			last := len(s.Y) - 1
			s.Y[last] = max(s.Y[last], x.KVUsage)
		default:
			s.add(c.of(x.At), x.KVUsage)
			gap = false
		}
	}
	return s, deaths
}

// memory is the picture of the KV usage of a case's backends over time.
func (c clock) memory(m measured) figure {
	all := backends(m.result.Samples)
	shown := drawn(all)
	f := figure{Caption: m.Name, Label: fmt.Sprintf("%s: KV cache usage of %d backends over time; the highest is %s", m.Name, len(all), percent.with(peak(m)))}
	f.Chart = c.chart(m, axis{Name: "KV cache used", Kind: shareAxis, Max: 1}, "no samples of backends")
	if len(all) > len(shown) {
		f.Caption += fmt.Sprintf(", %d of %d backends, those with the highest peaks", len(shown), len(all))
	}
	for _, b := range shown {
		line, deaths := b.line(c, min(kvPoints/len(shown), 360))
		f.Chart.Series = append(f.Chart.Series, line)
		for _, d := range deaths {
			if len(f.Chart.Marks) < kvMarks {
				f.Chart.Marks = append(f.Chart.Marks, mark{c.of(d.At), d.KVUsage, b.name() + " died"})
			}
		}
	}
	f.Chart.sound()
	return f
}

// tierColour is the colour of what belongs to a tier.
func tierColour(tier string) string {
	if tier == "draft" {
		return "draft"
	}
	return "target"
}
