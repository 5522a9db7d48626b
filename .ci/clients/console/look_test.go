package console

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// consoleViews are all pages, but that of one receipt.
var consoleViews = []string{"overview", "backends", "settings", "receipts", "tenants", "risk"}

// axeCore reads axe-core, which make browser installs.
func axeCore(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("..", "..", "axe", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatalf("%v: make browser installs it", err)
	}
	return string(script)
}

// accessible has axe-core look for what is serious or critical. A policy against scripts does not
// keep out what the browser's own tools run.
func (p *page) accessible(script, where string) {
	p.t.Helper()
	if !p.truth(`window.axe`) {
		p.do("axe-core", chromedp.Evaluate[chromedp.Void](script+";0"))
	}
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	p.eval(&found, `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => ({id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => ({html: n.html, failureSummary: n.failureSummary}))})))`)
	for _, v := range found {
		p.t.Errorf("%s: %s (%s): %s", where, v.ID, v.Impact, v.Help)
		for _, n := range v.Nodes {
			p.t.Logf("    %s\n      %s", n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", "; "))
		}
	}
}

// overflowing names what is wider than the window, "" where nothing is.
const overflowing = `(() => {
	if (document.documentElement.scrollWidth <= innerWidth) return '';
	const inner = (el) => el.parentElement && (['auto', 'scroll', 'hidden'].includes(getComputedStyle(el.parentElement).overflowX) || inner(el.parentElement));
	return document.documentElement.scrollWidth + ' px: ' + [...document.querySelectorAll('body *')].filter((el) => el.getBoundingClientRect().right > innerWidth + 0.5 && !inner(el)).slice(0, 5).map((el) => el.outerHTML.slice(0, 120)).join(' | ');
})()`

// fits waits until nothing is wider than the window: charts take a moment to follow it.
func (p *page) fits(where string) {
	p.t.Helper()
	p.until(where+": nothing is wider than the window", `(`+overflowing+`) === ''`)
}

func pagesAreAccessible(t *testing.T, b *browser, d *demoWorld) {
	script := axeCore(t)
	p := b.open(t, d.Console)
	p.until("signed in", `document.querySelector('[data-test=session]').dataset.signedIn === 'true'`)
	p.until("nothing covers the page", `!document.querySelector('[data-test=toast]')`)
	receipt := d.receiptOf("mixed", "draft").ID
	for _, view := range append(consoleViews, "receipts/"+receipt) {
		p.turn("#/" + view)
		name, _, one := strings.Cut(view, "/")
		if one {
			name = "receipt"
		}
		if name == "overview" {
			p.until("charts are drawn", `document.querySelectorAll('figure canvas').length >= 7`)
		}
		if name == "receipts" { // some rows instead of hundreds alike
			p.write("filter-tenant", receipt[:1])
		}
		for _, width := range []int64{1280, 390} {
			for _, theme := range []string{"light", "dark"} {
				p.look(width, theme)
				where := fmt.Sprintf("%s-%s-%d", name, theme, width)
				p.fits(where)
				if name == "settings" || name == "receipts" { // many rows alike
					p.shoot(where)
				} else {
					p.shootWhole(where)
				}
				p.accessible(script, where)
			}
		}
	}
}

func dialogsAreAccessible(t *testing.T, b *browser, d *demoWorld) {
	script := axeCore(t)
	p := b.open(t, d.Console)
	p.until("signed in", `document.querySelector('[data-test=session]').dataset.signedIn === 'true'`)
	for _, theme := range []string{"light", "dark"} {
		p.look(390, theme)
		check := func(name string) {
			p.until(name, fmt.Sprintf(`document.querySelector('%s')`, hook(name)))
			p.fits(name)
			p.accessible(script, name+"-"+theme)
			p.shoot(fmt.Sprintf("%s-%s-390", name, theme))
		}
		p.turn("#/backends")
		p.press("?")
		check("help-dialog")
		p.press(kb.Escape)
		p.click(hook("drain"))
		check("drain-dialog")
		p.press(kb.Escape)
		p.turn("#/settings")
		p.click(hook("edit-shed.low"))
		p.write("setting-input", "0.7")
		p.until("it was tried", `document.querySelector('[data-test=setting-check]').dataset.state === 'ok'`)
		check("setting-editor")
		p.click(hook("setting-save"))
		p.until("it was tried again", `!document.querySelector('[data-test=confirm-submit]').disabled`)
		if wide := p.text(`[...document.querySelectorAll('dialog .scroll')].filter((el) => el.scrollWidth > el.clientWidth).map((el) => el.textContent).join()`); wide != "" {
			t.Errorf("what one agrees to is not all in sight: %s", wide)
		}
		check("confirm-dialog")
		p.press(kb.Escape)
		p.click(hook("session"))
		p.until("signed out", `document.querySelector('[data-test=session]').dataset.signedIn === 'false'`)
		p.click(hook("session"))
		check("signin-dialog")
		p.write("signin-token", d.token())
		p.click(hook("signin-submit"))
		p.until("signed in again", `!document.querySelector('[data-test=signin-dialog]') && document.querySelector('[data-test=session]').dataset.signedIn === 'true'`)
	}
}

// listening notes what gets the focus, and whether one can see that. Things are told apart by
// their words, because rows are made anew while one looks. Of a point of the frontier the rate counts, which comes first:
// the rest changes with each audit.
const listening = `(() => {
	const words = (el) => el.getAttribute('aria-label') ?? el.textContent.trim().slice(0, 40);
	const key = (el) => [el.localName, el.dataset.test, el.getAttribute('href'), el.dataset.test === 'frontier-point' ? words(el).split('%')[0] : words(el)].join('|');
	const seen = window.seen = new Set(), unseen = window.unlit = new Set();
	window.reachable = () => [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter((el) => !el.disabled && el.tabIndex >= 0 && el.checkVisibility({visibilityProperty: true})).map(key);
	document.addEventListener('focusin', (e) => {
		seen.add(key(e.target));
		const s = getComputedStyle(e.target);
		if ((s.outlineStyle === 'none' || parseFloat(s.outlineWidth) === 0) && s.boxShadow === 'none') unseen.add(key(e.target));
	});
	document.activeElement?.blur();
	return 0;
})()`

func keysReachEverything(t *testing.T, b *browser, d *demoWorld) {
	for _, view := range append(consoleViews, "receipts/"+d.receiptOf("mixed", "draft").ID) {
		p := b.open(t, d.Admin+"/console/#/"+view)
		if view == "receipts" {
			p.click(hook("auto-refresh"))
			p.write("filter-tenant", d.receiptOf("draft").ID)
		}
		if view == "risk" { // its chart and its applications come with answers of their own
			p.until("the frontier and the applications are drawn", fmt.Sprintf(`document.querySelector('%s') && document.querySelector('%s')`, hook("frontier-point"), hook("applications")))
		}
		p.eval(nil, listening)
		var want []string
		p.eval(&want, `reachable()`)
		if len(want) < 8 {
			t.Fatalf("%s: only %v can be reached at all", view, want)
		}
		p.press(strings.Repeat(kb.Tab, len(want)+3))
		var missed, unlit []string
		p.eval(&missed, `reachable().filter((k) => !seen.has(k))`)
		p.eval(&unlit, `[...unlit]`)
		if len(missed) > 0 {
			t.Errorf("%s: Tab does not reach %q", view, missed)
		}
		if len(unlit) > 0 {
			t.Errorf("%s: one cannot see that the focus is on %q", view, unlit)
		}
	}
	p := b.open(t, d.Admin+"/console/")
	for keys, want := range map[string]string{"gb": "backends", "gs": "settings", "gr": "receipts", "gt": "tenants", "go": "overview"} {
		p.press(keys[:1])
		p.press(keys[1:])
		p.until(keys+" opens "+want, fmt.Sprintf(`document.querySelector('[data-test=view]').dataset.view === %q`, want))
	}
}

func escapeCloses(t *testing.T, b *browser, d *demoWorld) {
	p := b.open(t, d.Console)
	p.until("signed in", `document.querySelector('[data-test=session]').dataset.signedIn === 'true'`)
	closes := func(opener, dialog string) {
		p.until(opener+" is there", fmt.Sprintf(`document.querySelector('%s')`, hook(opener)))
		p.do("focus", chromedp.Focus(chromedp.CSS(hook(opener))))
		label := p.text(`document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent`)
		p.press(kb.Enter)
		p.until(dialog+" opens, with the focus in it", fmt.Sprintf(`document.querySelector('%s')?.contains(document.activeElement)`, hook(dialog)))
		p.press(strings.Repeat(kb.Tab, 12)) // more than it has of anything
		if dialog != "setting-editor" && !p.truth(fmt.Sprintf(`document.activeElement === document.body || document.querySelector('%s').contains(document.activeElement)`, hook(dialog))) {
			t.Errorf("%s: Tab leaves it for %s", dialog, p.text(`document.activeElement.outerHTML`))
		}
		p.do("focus", chromedp.Focus(chromedp.CSS(hook(dialog)+` button`)))
		if dialog == "drain-dialog" {
			p.eval(nil, `history.back()`) // as Back does
		} else {
			p.press(kb.Escape)
		}
		p.until(dialog+" is closed", fmt.Sprintf(`!document.querySelector('%s')`, hook(dialog)))
		if got := p.text(`document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.slice(0, 60)`); got != label {
			t.Errorf("%s: the focus is on %q, not back on %q", dialog, got, label)
		}
	}
	closes("help", "help-dialog")
	p.turn("#/backends")
	closes("drain", "drain-dialog")
	p.turn("#/settings")
	closes("edit-shed.low", "setting-editor")
	p.click(hook("edit-shed.low"))
	p.write("setting-input", "0.7")
	p.until("it was tried", `document.querySelector('[data-test=setting-check]').dataset.state === 'ok'`)
	closes("setting-save", "confirm-dialog")
}
