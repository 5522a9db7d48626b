package console

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/foregate/foregate/clients/programs"
)

// demoPace is how much faster than real hardware the pools of these demonstrations are: enough
// requests for charts to move, and not so many that the machine does nothing else.
const demoPace = "4"

// TestConsole shows the console of a demonstration in a browser, as its operators would use it.
func TestConsole(t *testing.T) {
	b := browse(t)
	d := startDemo(t, "--time-scale", demoPace)
	for _, c := range []struct {
		name string
		test func(t *testing.T, b *browser, d *demoWorld)
	}{
		{"ALinkSignsInAndLeavesNoTokenBehind", linkSignsIn},
		{"ChartsDrawAndMoveAndTellWhatMetricsTell", chartsMove},
		{"AReceiptOpensAsAWaterfallOfItsTimes", receiptOpens},
		{"ThePhaseOfARouteIsToldInOneLine", phaseTold},
		{"APointOfTheFrontierProposesASettingAndChangesNothing", frontierProposes},
		{"UsageIsShownByWhatIsChosenAndIsThereAsAFile", usageShown},
		{"ABackendIsDrainedAndUndrained", backendDrained},
		{"ALightAndADarkThemeAreRemembered", themesRemembered},
		{"KeysReachEverything", keysReachEverything},
		{"EscapeClosesAndFocusReturns", escapeCloses},
		{"EveryPageIsAccessibleAndFitsAPhone", pagesAreAccessible},
		{"DialogsAreAccessible", dialogsAreAccessible},
		{"AThresholdChangedInThePageChangesShedding", thresholdSheds},
	} {
		t.Run(c.name, func(t *testing.T) {
			own := *d
			own.t = t
			c.test(t, b, &own)
		})
	}
}

func linkSignsIn(t *testing.T, b *browser, d *demoWorld) {
	p := b.open(t, d.Console)
	p.until("signed in", `document.querySelector('[data-test=session]').dataset.signedIn === 'true'`)
	if address := p.text(`location.href`); strings.Contains(address, "token") {
		t.Errorf("the address still is %s", address)
	}
	if kept := p.text(`JSON.stringify([Object.entries(localStorage), document.cookie])`); strings.Contains(kept, d.token()) {
		t.Errorf("outlives its tab: %s", kept)
	}
	p.visit(d.Admin + "/console/")
	p.until("still signed in after a reload", `document.querySelector('[data-test=session]').dataset.signedIn === 'true'`)
	p.click(hook("session"))
	p.until("signed out", `document.querySelector('[data-test=session]').dataset.signedIn === 'false'`)
	if kept := p.text(`JSON.stringify(Object.entries(sessionStorage))`); strings.Contains(kept, d.token()) {
		t.Errorf("after signing out there still is %s", kept)
	}
	p.forgiven = regexp.MustCompile(`401`)
	p.click(hook("session"))
	p.write("signin-token", "not the token, but as long as one would be")
	p.click(hook("signin-submit"))
	p.until("a wrong token is refused", `document.querySelector('[data-test=signin-error]').textContent !== ''`)
	p.write("signin-token", d.token())
	p.click(hook("signin-submit"))
	p.until("signed in by hand", `!document.querySelector('[data-test=signin-dialog]') && document.querySelector('[data-test=session]').dataset.signedIn === 'true'`)
}

// phaseTold compares what the console says of the route's phase with what the replica does.
func phaseTold(t *testing.T, b *browser, d *demoWorld) {
	p := b.open(t, d.Admin+"/console/#/risk")
	row := `document.querySelector('[data-test=risk-row]')`
	p.until("the page of the guarantee tells the phase and what the warm-up served", `['warmup', 'certified', 'infeasible', 'stopped'].includes(`+row+`?.dataset.state) && `+
		`/of [\d,]+ drafts? served/.test(`+row+`.textContent)`)
}

// chartNames are the hooks of all charts.
var chartNames = []string{"chart-requests", "chart-acceptance", "chart-cache", "chart-ttft", "chart-latency", "chart-kv", "chart-shed", "chart-cost"}

// inks tells for each chart how many colours its canvas has, and what it looks like, as a number.
const inks = `Object.fromEntries([...document.querySelectorAll('figure[data-test^=chart-], figure[data-test=frontier-chart]')].map((f) => {
	const drawn = f.querySelector('canvas'), c = document.createElement('canvas');
	if (!drawn) return [f.dataset.test, {}];
	[c.width, c.height] = [drawn.width, drawn.height];
	const copy = c.getContext('2d', {willReadFrequently: true});
	copy.drawImage(drawn, 0, 0);
	const all = new Uint32Array(copy.getImageData(0, 0, c.width, c.height).data.buffer);
	let sum = 7;
	for (const px of all) sum = (Math.imul(sum, 31) + px) | 0;
	return [f.dataset.test, {colours: new Set(all).size, sum, points: Number(f.dataset.points)}];
}))`

type ink struct{ Colours, Sum, Points int }

func chartsMove(t *testing.T, b *browser, d *demoWorld) {
	p := b.open(t, d.Admin+"/console/#/overview")
	drawn := func() (charts map[string]ink, all bool) {
		p.eval(&charts, inks)
		for _, name := range chartNames {
			if charts[name].Points < 3 || charts[name].Colours < 3 {
				return charts, false
			}
		}
		return charts, true
	}
	var before, after map[string]ink
	programs.Within(t, pageWait, "every chart is drawn", func() (ok bool) { before, ok = drawn(); return ok })
	programs.Within(t, pageWait, "two more samples are drawn", func() bool {
		after, _ = drawn()
		return after["chart-requests"].Points >= before["chart-requests"].Points+2
	})
	for _, name := range chartNames {
		if after[name].Sum == before[name].Sum || after[name].Points <= before[name].Points {
			t.Errorf("%s did not move: %v, then %v", name, before[name], after[name])
		}
	}
	programs.Within(t, pageWait, "the money is the usage's", func() bool {
		var is bool
		p.eval(&is, `(async () => {
			const told = Number(document.querySelector('[data-test=tile-spent]').dataset.value);
			const used = await (await fetch('../admin/usage?by=day')).json();
			return told > 0 && told <= used.total.usd && told > used.total.usd / 2;
		})()`)
		return is
	})
	p.until("what the figures are of is told", `document.querySelector('[data-test=scope]').textContent === 'Figures of 2 replicas'`)
	for name, want := range map[string]string{"tile-replicas": "2", "tile-redis": "shared"} {
		programs.Within(t, pageWait, name+" tells "+want, func() bool { return p.attr(name, "data-value") == want }) // a busy machine is slow to hear Redis
	}
	lines := strings.Fields(p.attr("chart-kv", "data-lines"))
	if slices.Sort(lines); !slices.Equal(lines, []string{"high=1", "low=0.85", "normal=0.95"}) {
		t.Errorf("the lines above which classes are shed: %q", lines)
	}
	if got := p.attr("live", "data-state"); got != "live" {
		t.Errorf("the stream is %q", got)
	}
}

func receiptOpens(t *testing.T, b *browser, d *demoWorld) {
	p := b.open(t, d.Admin+"/console/#/receipts")
	want := d.receiptOf("mixed", "draft")
	row := fmt.Sprintf(`tr[data-test=receipt-row][data-id=%q] a`, want.ID)
	p.until("it is listed", fmt.Sprintf(`document.querySelector(%q)`, row))
	p.click(hook("auto-refresh")) // so that the row stays where it is
	p.click(row)
	p.until("it is open", fmt.Sprintf(`document.querySelector('[data-test=receipt]')?.dataset.id === %q`, want.ID))
	if got := p.text(`location.hash`); got != "#/receipts/"+want.ID {
		t.Errorf("its address is %s", got)
	}
	var bars []struct {
		Kind     string
		At, Wide float64 // shares of the lane
	}
	p.eval(&bars, `[...document.querySelectorAll('[data-test=waterfall-bar]')].map((el) => {
		const lane = el.parentElement.getBoundingClientRect(), bar = el.getBoundingClientRect();
		return {kind: el.dataset.kind, at: (bar.left - lane.left) / lane.width, wide: bar.width / lane.width};
	})`)
	most := want.MS.Total
	for _, try := range want.Attempts {
		most = max(most, want.MS.Began+try.AtMS+try.MS)
	}
	for _, c := range want.Checks {
		most = max(most, want.MS.Began+c.AtMS+c.MS)
	}
	if want.Verdict != nil {
		most = max(most, want.MS.Began+want.Verdict.AtMS)
	}
	const near = 0.02 // of the lane; short bars have a least width, to be seen
	for _, try := range want.Attempts {
		found := false
		for _, bar := range bars {
			found = found || (bar.Kind == try.Role && math.Abs(bar.At-(want.MS.Began+try.AtMS)/most) < near && math.Abs(bar.Wide-try.MS/most) < near)
		}
		if !found {
			t.Errorf("no bar of %s at %.1f ms for %.1f of %.1f ms among %v", try.Role, want.MS.Began+try.AtMS, try.MS, most, bars)
		}
	}
	if got := p.text(`document.querySelector('[data-test=receipt-raw]').textContent`); !json.Valid([]byte(got)) || !strings.Contains(got, want.ID) {
		t.Errorf("as JSON it is %.200s", got)
	}
	deep := b.open(t, d.Admin+"/console/#/receipts/"+want.ID)
	deep.until("its address opens it", fmt.Sprintf(`document.querySelector('[data-test=receipt]')?.dataset.id === %q`, want.ID))
}

func backendDrained(t *testing.T, b *browser, d *demoWorld) {
	p := b.open(t, d.Console)
	p.turn("#/backends")
	const first = `tr[data-test=backend-row][data-pool="llama-8b-a10g"]`
	var id string
	p.eval(&id, fmt.Sprintf(`document.querySelector('%s').dataset.backend`, first))
	row := fmt.Sprintf(`tr[data-test=backend-row][data-backend=%q]`, id)
	p.click(row + ` ` + hook("drain"))
	p.write("drain-why", "a new driver")
	p.click(hook("drain-submit"))
	p.until("the page tells that it is drained", fmt.Sprintf(`document.querySelector('%s')?.dataset.state === 'drained'`, row))
	if got := d.backendState("llama-8b-a10g", id); got != "drained" {
		t.Errorf("the gateway tells %q", got)
	}
	if got := p.text(fmt.Sprintf(`document.querySelector('%s').textContent`, row)); !strings.Contains(got, "a new driver") {
		t.Errorf("why is not told: %s", got)
	}
	p.click(row + ` ` + hook("undrain"))
	p.until("the page tells that it is up", fmt.Sprintf(`document.querySelector('%s')?.dataset.state === 'up'`, row))
	if got := d.backendState("llama-8b-a10g", id); got != "up" {
		t.Errorf("the gateway tells %q", got)
	}
}

func themesRemembered(t *testing.T, b *browser, d *demoWorld) {
	p := b.open(t, d.Admin+"/console/")
	bright := func() (share float64) { // of the page's ground, 0 … 1
		p.eval(&share, `getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g).slice(0, 3).reduce((a, v) => a + v / 765, 0)`)
		return share
	}
	shown := func() string { return p.text(`document.documentElement.dataset.theme`) }
	for _, c := range []struct{ system, click, want string }{
		{system: "light", want: "light"}, {system: "dark", want: "dark"},
		{system: "dark", click: "light", want: "light"}, {system: "light", click: "dark", want: "dark"},
		{system: "light", click: "auto", want: "light"},
	} {
		p.prefer(c.system)
		if c.click != "" {
			p.click(hook("theme"))
		}
		p.until("the theme "+c.want, fmt.Sprintf(`document.documentElement.dataset.theme === %q`, c.want))
		if got := bright(); (got > 0.5) != (c.want == "light") {
			t.Errorf("%s: the ground is %.0f %% bright", c.want, 100*got)
		}
		p.do("reload", chromedp.Reload())
		p.ready()
		if got, mode := shown(), p.attr("theme", "data-mode"); got != c.want || (c.click != "" && mode != c.click) {
			t.Errorf("after a reload it is %s by %s, want %s", got, mode, c.want)
		}
	}
}

// changeShedLow sets shed.low on the page of the settings, and returns when that was said to be done.
func changeShedLow(p *page, to, why string) time.Time {
	p.t.Helper()
	p.turn("#/overview")
	p.turn("#/settings")
	p.until("the setting is listed", `document.querySelector('[data-test="edit-shed.low"]')`)
	p.click(hook("edit-shed.low"))
	p.write("setting-input", to)
	p.until("it was tried", `document.querySelector('[data-test=setting-check]').dataset.state === 'ok'`)
	p.click(hook("setting-save"))
	return confirm(p, why)
}

// confirm says why, and waits until what was asked for is done.
func confirm(p *page, why string) time.Time {
	p.t.Helper()
	p.write("confirm-why", why)
	p.until("it may be done", `!document.querySelector('[data-test=confirm-submit]').disabled`)
	p.click(hook("confirm-submit"))
	p.until("it is done", `!document.querySelector('[data-test=confirm-dialog]') && document.querySelector('[data-test=toast][data-kind=ok]')`)
	done := time.Now()
	p.eval(nil, `for (const close of document.querySelectorAll('[data-test=toast] button')) close.click()`)
	return done
}

// shedsWithin waits until low requests are shed, or no longer are, and says how long that took.
func (d *demoWorld) shedsWithin(done time.Time, limit time.Duration, want bool) {
	d.t.Helper()
	programs.Within(d.t, limit+pageWait, fmt.Sprintf("requests of priority low are shed: %v", want), func() bool {
		began := time.Now()
		status, shed := d.send("low")
		if (status == http.StatusServiceUnavailable) != (shed != "") {
			d.t.Errorf("status %d with X-Shed-Reason %q", status, shed)
		}
		if (shed != "") != want {
			return false
		}
		if took := began.Sub(done); took > limit {
			d.t.Errorf("that took %v, want at most %v", took, limit)
		}
		return true
	})
}

func thresholdSheds(t *testing.T, b *browser, d *demoWorld) {
	const soon = 2 * time.Second
	p := b.open(t, d.Console)
	p.until("signed in", `document.querySelector('[data-test=session]').dataset.signedIn === 'true'`)
	p.turn("#/settings")
	p.forgiven = regexp.MustCompile(`422`)
	p.click(hook("edit-shed.low"))
	p.write("setting-input", "7")
	p.until("it is refused", `document.querySelector('[data-test=setting-check]').dataset.state === 'bad'`)
	if got := p.text(`document.querySelector('[data-test=setting-check]').textContent`); !strings.Contains(got, "0 … 1") {
		t.Errorf("the range is not told: %s", got)
	}
	p.click(hook("setting-cancel"))

	d.shedsWithin(changeShedLow(p, "0.8", "a version to go back to"), soon, false)
	d.shedsWithin(changeShedLow(p, "0", "the night batch fills the pools"), soon, true)
	if status, shed := d.send("normal"); status != http.StatusOK {
		t.Errorf("priority normal: status %d %s", status, shed)
	}
	p.until("the history tells why", `document.querySelector('[data-test=history-row]')?.textContent.includes('the night batch fills the pools')`)
	if row := p.text(`document.querySelector('[data-test=history-row]').textContent`); !strings.Contains(row, "demothe night batch") {
		t.Errorf("the history does not tell who: %s", row)
	}
	p.until("the page warns of a class that is turned away whole", `document.querySelector('.troubles')?.textContent.includes('shed.low')`)
	p.shoot("history")
	p.turn("#/overview")
	p.until("the overview draws what is shed", `Number(document.querySelector('[data-test=chart-shed]').dataset.last) > 0`)
	p.until("and the line", `document.querySelector('[data-test=chart-kv]').dataset.lines.split(' ').includes('low=0')`)
	p.shootWhole("shedding")

	p.turn("#/settings")
	p.until("the version before is listed", `document.querySelectorAll('[data-test=history-row]').length > 1`)
	p.click(hook("rollback-" + p.text(`document.querySelectorAll('[data-test=history-row]')[1].dataset.version`)))
	d.shedsWithin(confirm(p, "it was the wrong night"), soon, false)
}

func TestConsoleWithoutATokenOnlyShows(t *testing.T) {
	b := browse(t)
	simulator := programs.StartSimulator(t, "--model", "m", "--time-scale", "20")
	served := programs.StartGateway(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: embedded}
pools: {only: {model: m, backends: [%q]}}
routes: [{model: llama-3, target: only}]
drain: {delay: 0s, grace: 1s}
`, simulator))
	p := b.open(t, served.Admin+"/console/")
	for _, hash := range []string{"#/overview", "#/backends", "#/settings", "#/receipts", "#/tenants", "#/risk"} {
		p.turn(hash)
		if found := p.text(`[...document.querySelectorAll('[data-test^=edit-],[data-test=drain],[data-test=undrain],[data-test^=rollback-]')].map((el) => el.dataset.test).join()`); found != "" {
			t.Errorf("%s offers %s", hash, found)
		}
	}
	if !p.truth(`document.querySelector('[data-test=session]').hidden`) {
		t.Error("one is asked to sign in, where nobody can")
	}
	p.turn("#/settings")
	if !p.truth(`document.querySelector('[data-test=settings-readonly]')?.checkVisibility()`) {
		t.Error("the settings do not say that they only show")
	}
	p.shoot("readonly")
	p.forgiven = regexp.MustCompile(`403`)
	var answer struct {
		Status int
		Code   string
	}
	for _, path := range []string{"settings", "settings/rollback", "drain?pool=only&backend=x"} {
		p.eval(&answer, fmt.Sprintf(`fetch('../admin/%s', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"set":{"shed.low":"0"},"why":"x"}'}).then(async (r) => ({status: r.status, code: (await r.json()).error?.code}))`, path))
		if answer.Status != http.StatusForbidden || answer.Code != "read_only" {
			t.Errorf("POST %s: %d %s, want 403 read_only", path, answer.Status, answer.Code)
		}
	}
}

func TestConsoleWarnsOfAnswersThatCanBeForged(t *testing.T) {
	b := browse(t)
	redis := programs.Redis(t)
	served := programs.StartGateway(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: %q}
pools: {only: {model: m, backends: [%q]}}
routes: [{model: llama-3, target: only}]
drain: {delay: 0s, grace: 1s}
`, redis, programs.StartSimulator(t, "--model", "m", "--time-scale", "20")))
	p := b.open(t, served.Admin+"/console/")
	for _, hash := range []string{"#/overview", "#/settings"} {
		p.turn(hash)
		p.until(hash+" warns", `/Warning cache.seal_keys_file: there is none/.test(document.querySelector('.troubles')?.textContent ?? '')`)
	}
}
