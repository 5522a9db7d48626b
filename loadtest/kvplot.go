package loadtest

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"time"
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
func (b backend) line(c clock, n int) (points []point, deaths []Sample) {
	group, gap := max((len(b.samples)+n-1)/max(n, 1), 1), true
	for i, s := range b.samples {
		if !s.Alive {
			if i > 0 && b.samples[i-1].Alive {
				deaths = append(deaths, Sample{At: s.At, KVUsage: b.samples[i-1].KVUsage})
			}
			gap = true
			continue
		}
		q := point{c.of(s.At), s.KVUsage, gap}
		if !gap && i%group != 0 {
			points[len(points)-1].y = max(points[len(points)-1].y, q.y)
			continue
		}
		points, gap = append(points, q), false
	}
	return points, deaths
}

// memory is the picture of the KV usage of a case's backends over time.
func (c clock) memory(m measured) template.HTML {
	all := backends(m.result.Samples)
	shown := drawn(all)
	label := fmt.Sprintf("%s: KV cache usage of %d backends over time; the highest is %s", m.Name, len(all), percent.with(peak(m)))
	p := c.begin(m, label, scale{hi: 1}, "KV cache used", percent.with)
	died, each := []func(){}, kvPoints/max(len(shown), 1)
	for _, b := range shown {
		points, deaths := b.line(c, min(each, 360))
		p.line("kv "+tierClass(b.tier), fmt.Sprintf("%s, at most %s", b.name(), percent.with(b.peak)), points)
		for _, d := range deaths {
			died = append(died, func() {
				p.mark("death", cross, point{x: c.of(d.At), y: d.KVUsage}, b.name()+" died before "+trimmed(c.of(d.At.Round(time.Millisecond)))+" "+c.name)
			})
		}
	}
	for _, mark := range died[:min(len(died), kvMarks)] {
		mark() // on top of all lines
	}
	if len(all) == 0 {
		p.say("no samples of backends")
	}
	if len(all) > len(shown) {
		fmt.Fprintf(&p.b, `<text class="e none" x="%s" y="13">%d of %d backends, highest peaks</text>`, px(p.x.to), len(shown), len(all))
	}
	return p.end()
}

// tierClass is the class of what belongs to a tier.
func tierClass(tier string) string {
	if tier == "draft" {
		return "draft"
	}
	return "target"
}
