package console

import (
	"strings"
	"testing"
)

// frontierProposes looks at what each maximum of disagreement would give, and chooses one: by a click into the chart, then by the
// button of another. The setting is what it was until somebody confirms.
func frontierProposes(t *testing.T, b *browser, d *demoWorld) {
	p := b.open(t, d.Console)
	p.turn("#/risk")
	const chart = `document.querySelector('[data-test=frontier-chart][data-route="llama-3"]')`
	p.until("the frontier has points", `Number(`+chart+`?.dataset.points) >= 9`)
	p.until("the chart is drawn", `(`+inks+`)['frontier-chart']?.colours >= 3`)
	if got := p.attr("frontier-chart", "data-eps"); got != "0.1" {
		t.Errorf("the rate in force is %s", got)
	}
	if got := p.attr("frontier-chart", "data-label"); got != "lenient" {
		t.Errorf("the label is %s", got)
	}
	p.click(`[data-test=frontier-chart] .u-over`)
	p.until("a click into the chart proposes a rate", `Number(document.querySelector('[data-test=frontier-proposal]')?.dataset.value) > 0`)
	p.click(`[data-test=frontier-point][data-rate="0.15"]`)
	p.until("a button proposes its own", `document.querySelector('[data-test=frontier-proposal]')?.dataset.value === '0.15'`)
	if got := p.text(`document.querySelector('[data-test=frontier-proposal]').textContent`); !strings.Contains(got, "foregate settings set risk.max_disagreement@llama-3=0.15") {
		t.Errorf("the proposal is %s", got)
	}
	p.shoot("frontier")
	p.click(hook("frontier-review"))
	p.until("the change is shown", `document.querySelector('[data-test=confirm-changes]')?.textContent.includes('risk.max_disagreement@llama-3')`)
	p.click(hook("confirm-cancel"))
	p.until("the dialog is gone", `!document.querySelector('[data-test=confirm-dialog]')`)
	var told struct {
		Settings []struct{ Name, Value string }
	}
	d.ask("/admin/settings?route=llama-3", &told)
	for _, s := range told.Settings {
		if name, _, _ := strings.Cut(s.Name, "@"); name == "risk.max_disagreement" && s.Value != "0.1" {
			t.Errorf("%s was changed to %s", s.Name, s.Value)
		}
	}
}
