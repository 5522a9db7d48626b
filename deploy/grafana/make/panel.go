package main

import (
	"strconv"
	"strings"
)

// panel is one picture. Its kind is made by stat, lines, areas, states or table.
type panel struct {
	kind, title, about string
	unit               string
	w, h               int
	queries            []query
	limits             *limits // drawn as lines, or as colours
	stack              int     // 0 lines; 1 areas on each other; 2 the same, as shares of all
	words              map[int]word
	drop               []string // columns of a table that nobody reads
}

// query is an expression and what its curves are called.
type query struct {
	expr, legend string
	step         string // how often what it asks for is scraped; "" is as the datasource says
}

// limits are values from which a figure is yellow, and red; with low, below which.
type limits struct {
	warn, bad float64
	low       bool
}

// word is what a number means.
type word struct{ text, colour string }

// short spells what most queries choose by: {I} the replicas that a reader has picked, {R} also the
// routes, {P} also the pools, {E} engines, and [r] a range that suits the zoom.
var short = strings.NewReplacer(
	"{I", `{instance=~"$instance"`, "{R", `{instance=~"$instance", route=~"$route"`, "{P", `{instance=~"$instance", pool=~"$pool"`, "{E", `{instance=~"$engine", model_name=~"$model"`, "[r]", "[$__rate_interval]",
)

// q is a query, its expression in short.
func q(expr, legend string) query { return query{expr: short.Replace(expr), legend: legend} }

// eq is a query for what engines tell, which is scraped less often: [r] goes by that.
func eq(expr, legend string) query {
	e := q(expr, legend)
	e.step = "15s"
	return e
}

// stat is a figure of now, with its curve behind it.
func stat(title, unit, about string, qs ...query) panel {
	return panel{kind: "stat", title: title, unit: unit, about: about, w: 4, h: 4, queries: qs}
}

// lines are curves.
func lines(title, unit, about string, qs ...query) panel {
	return panel{kind: "timeseries", title: title, unit: unit, about: about, w: 8, h: 8, queries: qs}
}

// areas are curves that add up.
func areas(title, unit, about string, qs ...query) panel {
	p := lines(title, unit, about, qs...)
	p.stack = 1
	return p
}

// states are bars of what held when.
func states(title, about string, words map[int]word, qs ...query) panel {
	return panel{kind: "state-timeline", title: title, unit: "short", about: about, w: 12, h: 8, queries: qs, words: words}
}

// table is figures of now, a line for each series.
func table(title, unit, about string, q query, drop ...string) panel {
	return panel{kind: "table", title: title, unit: unit, about: about, w: 12, h: 8, queries: []query{q}, drop: drop}
}

func (p panel) size(w, h int) panel { p.w, p.h = w, h; return p }

// over colours what is above warn, and above bad.
func (p panel) over(warn, bad float64) panel { p.limits = &limits{warn, bad, false}; return p }

// under colours what is below warn, and below bad.
func (p panel) under(warn, bad float64) panel { p.limits = &limits{warn, bad, true}; return p }

// shares makes areas shares of their sum.
func (p panel) shares() panel { p.stack, p.unit = 2, "percentunit"; return p }

// named says what numbers mean.
func (p panel) named(words map[int]word) panel { p.words = words; return p }

func (p panel) model(id int, at object) object {
	o := object{
		"id": id, "type": p.kind, "title": p.title, "description": p.about, "datasource": source, "gridPos": at,
		"fieldConfig": object{"defaults": p.defaults(), "overrides": p.overrides()},
		"options":     p.options(), "targets": p.targets(),
	}
	if p.kind == "table" {
		hidden := object{"Time": true}
		for _, name := range p.drop {
			hidden[name] = true
		}
		o["transformations"] = []any{object{"id": "organize", "options": object{"excludeByName": hidden, "renameByName": object{"Value": p.title}}}}
	}
	return o
}

func (p panel) targets() []any {
	var out []any
	for i, q := range p.queries {
		t := object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr, "legendFormat": q.legend, "editorMode": "code", "range": true}
		if q.step != "" {
			t["interval"] = q.step
		}
		if p.kind == "table" {
			t["format"], t["instant"], t["range"] = "table", true, false
		}
		out = append(out, t)
	}
	return out
}

func (p panel) defaults() object {
	d := object{"unit": p.unit, "min": 0, "thresholds": p.thresholds(), "color": object{"mode": "palette-classic"}}
	if p.unit == "currencyUSD" {
		delete(d, "min") // what is saved may be less than nothing
	}
	if p.unit == "percentunit" && p.kind == "timeseries" {
		d["max"] = 1
	}
	switch p.kind {
	case "stat":
		d["color"] = object{"mode": "thresholds"}
		d["noValue"] = "–"
	case "timeseries":
		d["custom"] = p.drawing()
	case "state-timeline":
		d["color"] = object{"mode": "thresholds"}
		d["custom"] = object{"fillOpacity": 80, "lineWidth": 0}
	}
	if p.words != nil {
		values := object{}
		for n, w := range p.words {
			values[strconv.Itoa(n)] = object{"text": w.text, "color": w.colour, "index": n}
		}
		d["mappings"] = []any{object{"type": "value", "options": values}}
	}
	return d
}

// drawing is how curves look.
func (p panel) drawing() object {
	c := object{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": 8, "showPoints": "never", "spanNulls": false, "axisSoftMin": 0,
		"stacking": object{"mode": []string{"none", "normal", "percent"}[p.stack]}, "thresholdsStyle": object{"mode": "off"},
	}
	if p.stack > 0 {
		c["fillOpacity"] = 50
	}
	if p.limits != nil {
		c["thresholdsStyle"] = object{"mode": "dashed"}
	}
	return c
}

// thresholds are steps of colour, the lowest first.
func (p panel) thresholds() object {
	step := func(colour string, from any) object { return object{"color": colour, "value": from} }
	steps := []any{step("green", nil)}
	switch l := p.limits; {
	case l == nil:
	case l.low:
		steps = []any{step("red", nil), step("yellow", l.bad), step("green", l.warn)}
	default:
		steps = append(steps, step("yellow", l.warn), step("red", l.bad))
	}
	return object{"mode": "absolute", "steps": steps}
}

func (p panel) options() object {
	legend := object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}}
	switch p.kind {
	case "stat":
		return object{
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}, "graphMode": "area",
			"colorMode": "value", "textMode": "auto", "justifyMode": "auto", "orientation": "auto",
		}
	case "state-timeline":
		return object{"showValue": "auto", "rowHeight": 0.8, "mergeValues": true, "legend": legend, "tooltip": object{"mode": "single"}}
	case "table":
		return object{"showHeader": true, "cellHeight": "sm", "footer": object{"show": false}}
	}
	return object{"legend": legend, "tooltip": object{"mode": "multi", "sort": "desc"}}
}

// colours are those of names that all boards share, by the legend that makes them.
var colours = map[string][][2]string{
	"{{tier}}":     {{"draft", "green"}, {"target", "blue"}, {"mixed", "orange"}, {"cache", "purple"}},
	"{{verdict}}":  {{"accepted", "green"}, {"rejected", "red"}, {"bypassed", "#808080"}},
	"{{priority}}": {{"high", "red"}, {"normal", "yellow"}, {"low", "#808080"}},
	"objective":    {{"objective", "red"}},
	"limit":        {{"limit", "red"}},
}

// overrides give such names their colours.
func (p panel) overrides() []any {
	out := []any{}
	for _, q := range p.queries {
		for _, c := range colours[q.legend] {
			out = append(out, object{
				"matcher":    object{"id": "byName", "options": c[0]},
				"properties": []any{object{"id": "color", "value": object{"mode": "fixed", "fixedColor": c[1]}}},
			})
		}
	}
	return out
}
