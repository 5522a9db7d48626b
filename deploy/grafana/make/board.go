package main

// object is a JSON object; its members are written in the order of their names.
type object = map[string]any

// board is a dashboard.
type board struct {
	file, title, about string
	vars               []string // of variables, beside the datasource and the replica
	rows               []row
}

// row is a heading and the panels under it, which flow from left to right.
type row struct {
	title  string
	panels []panel
}

const (
	wide = 24 // columns of Grafana's grid

	// schema is that of Grafana 11; later ones bring it up to date themselves.
	schema = 39
)

// source is the datasource that a reader has picked.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// model is the board as Grafana keeps it.
func (b board) model() object {
	variables := []any{
		object{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": object{}, "refresh": 1, "hide": 0},
	}
	for _, name := range append([]string{"instance"}, b.vars...) {
		variables = append(variables, variable(name))
	}
	return object{
		"uid": "foregate-" + b.file, "title": "Foregate / " + b.title, "description": b.about,
		"tags": []string{"foregate"}, "editable": true, "graphTooltip": 1, "schemaVersion": schema, "version": 1,
		"time": object{"from": "now-1h", "to": "now"}, "refresh": "10s", "timezone": "browser",
		"templating":  object{"list": variables},
		"annotations": object{"list": annotations()},
		"links": []any{object{
			"title": "Foregate", "type": "dashboards", "tags": []string{"foregate"}, "asDropdown": false,
			"includeVars": true, "keepTime": true, "targetBlank": false, "icon": "dashboard",
		}},
		"panels": b.layout(),
	}
}

// variable is a choice that queries name: which replicas, routes, pools, or engines and their models.
func variable(name string) object {
	v := map[string][2]string{
		"instance": {"Replica", "label_values(foregate_requests_in_flight, instance)"},
		"route":    {"Route", `label_values(foregate_requests_total{route!=""}, route)`},
		"pool":     {"Pool", "label_values(foregate_backend_up, pool)"},
		"model":    {"Model", "label_values(vllm:num_requests_running, model_name)"},
		"engine":   {"Engine", "label_values(vllm:num_requests_running, instance)"},
	}[name]
	return object{
		"name": name, "label": v[0], "type": "query", "datasource": source, "definition": v[1],
		"query": object{"query": v[1], "refId": "Variable", "qryType": 1},
		"multi": true, "includeAll": true, "allValue": ".*", "current": object{"text": "All", "value": "$__all"},
		"refresh": 2, "sort": 1, "hide": 0,
	}
}

// annotations mark what explains a curve: settings that changed, replicas that started, alerts.
func annotations() []any {
	mark := func(name, colour, expr, title string, atValue, on bool) object {
		return object{
			"name": name, "datasource": source, "enable": on, "hide": false, "iconColor": colour, "expr": expr,
			"titleFormat": title, "step": "15s", "useValueForTime": atValue,
			"target": object{"refId": "Annotation", "expr": expr},
		}
	}
	return []any{
		mark("Settings", "purple", `max(foregate_settings_applied_timestamp_seconds{instance=~"$instance"}) * 1000`, "Live settings changed", true, true),
		mark("Starts", "blue", `max by (instance) (process_start_time_seconds{job="foregate", instance=~"$instance"}) * 1000`, "{{instance}} started", true, true),
		mark("Alerts", "red", `ALERTS{alertname=~"Foregate.+", alertstate="firing"}`, "{{alertname}}", false, true),
	}
}

// layout gives panels their places and numbers: rows below each other, panels beside each other as
// long as they fit.
func (b board) layout() []any {
	var out []any
	id, y := 0, 0
	for _, r := range b.rows {
		id++
		out = append(out, object{"id": id, "type": "row", "title": r.title, "collapsed": false, "panels": []any{}, "gridPos": grid(0, y, wide, 1)})
		y++
		x, tallest := 0, 0
		for _, p := range r.panels {
			if x+p.w > wide {
				x, y, tallest = 0, y+tallest, 0
			}
			id++
			out = append(out, p.model(id, grid(x, y, p.w, p.h)))
			x, tallest = x+p.w, max(tallest, p.h)
		}
		y += tallest
	}
	return out
}

func grid(x, y, w, h int) object { return object{"x": x, "y": y, "w": w, "h": h} }
