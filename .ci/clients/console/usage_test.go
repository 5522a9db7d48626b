package console

import (
	"strings"
	"testing"
)

func usageShown(t *testing.T, b *browser, d *demoWorld) {
	p := b.open(t, d.Admin+"/console/#/tenants")
	p.until("there is a total", `document.querySelector('[data-test=usage-total]')?.dataset.requests > 0`)
	p.until("rows are of tenants", `(() => {
		const row = document.querySelector('[data-test=usage-row]')?.dataset;
		return row?.tenant && !row.route;
	})()`)
	if !p.truth(`(() => {
		const of = (name) => [...document.querySelectorAll('[data-test=' + name + ']')].reduce((sum, el) => sum + Number(el.dataset.requests), 0);
		return of('usage-row') === of('usage-total');
	})()`) {
		t.Error("the rows do not add up to the total")
	}
	p.click(hook("usage-by-route"))
	p.click(hook("usage-by-day"))
	p.click(hook("usage-by-tenant"))
	p.until("rows are of routes and days", `(() => {
		const row = document.querySelector('[data-test=usage-row]')?.dataset;
		return row?.day && row.route && !row.tenant;
	})()`)
	var file struct{ Kind, Name, Text string }
	p.eval(&file, `new Promise((done) => {
		let blob;
		URL.createObjectURL = (b) => ((blob = b), '#/tenants');
		HTMLAnchorElement.prototype.click = async function () {
			done({kind: blob.type, name: this.download, text: await blob.text()});
		};
		document.querySelector('[data-test=usage-csv]').dispatchEvent(new MouseEvent('click'));
	})`)
	named := strings.HasPrefix(file.Kind, "text/csv") && strings.Contains(file.Name, "foregate-usage")
	if !named || !strings.HasPrefix(file.Text, "route,day,requests,ok,") {
		t.Errorf("%+v", file)
	}
	p.click(hook("usage-by-route"))
	p.click(hook("usage-by-day"))
	if !p.truth(`document.querySelector('[data-test=usage-by-day]').checked`) {
		t.Error("rows are of nothing")
	}
	p.shoot("usage")
}
