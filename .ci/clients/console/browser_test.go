// Package console tests the console in a browser, as its operators use it.
package console

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/foregate/foregate/clients/programs"
)

const (
	browserEnv = "FOREGATE_BROWSER" // require: tests of pages run, and fail without a Chromium; else they are skipped
	shotsEnv   = "FOREGATE_SHOTS"   // a folder for screenshots; "" writes none
	pageWait   = time.Minute        // for a page to show what is waited for, on a machine that does much else
)

// browser is a Chromium without a window.
type browser struct{ ctx context.Context }

// browse starts one for this test.
func browse(t *testing.T) *browser {
	t.Helper()
	if os.Getenv(browserEnv) != "require" {
		t.Skipf("the tests of the console in a browser run by make browser (%s=require)", browserEnv)
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatal("there is no chromium, chromium-browser or google-chrome in PATH")
	}
	// Without a sandbox, as root runs it; and it asks nobody but the pages' listener.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("%s does not start: %v", path, err)
	}
	return &browser{ctx}
}

// page is a tab of a browser, with cookies and a memory of its own. What goes wrong in it fails the test.
type page struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	faults   []string
	forgiven *regexp.Regexp // faults that the test makes on purpose
}

// open opens an address and waits until the page shows something.
func (b *browser) open(t *testing.T, address string) *page {
	t.Helper()
	p := b.newPage(t)
	p.visit(address)
	return p
}

func (b *browser) newPage(t *testing.T) *page {
	t.Helper()
	p := &page{t: t}
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.hear))
	p.begin(ctx)
	t.Cleanup(func() {
		if t.Failed() {
			p.shoot("failed-" + strings.ReplaceAll(t.Name(), "/", "-"))
		}
		end()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, fault := range p.faults {
			if p.forgiven == nil || !p.forgiven.MatchString(fault) {
				t.Errorf("in the page: %s", fault)
			}
		}
	})
	return p
}

// begin opens the tab of a context, which lives as long as the context.
func (p *page) begin(ctx context.Context) {
	p.t.Helper()
	p.ctx = ctx
	if err := chromedp.Do(ctx, protocol(network.Enable, network.EnableParams{}), protocol(log.Enable, cdp.Empty{}), protocol(runtime.Enable, cdp.Empty{})); err != nil {
		p.t.Fatalf("a tab: %v", err)
	}
}

// protocol is a command of the browser's protocol as an action.
func protocol[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// hear notes what browsers tell the developers of a page: exceptions, errors, warnings, breaches
// of the policy, requests that failed.
func (p *page) hear(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			fault += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			fault = fmt.Sprintf("console.%s: %s", e.Type, e.Args[0].Value)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			fault = fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled && e.ErrorText != "net::ERR_ABORTED" { // a page that is left drops what it asked
			fault = fmt.Sprintf("request failed: %s %s", e.Type, e.ErrorText)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			fault = fmt.Sprintf("status %d: %s", e.Response.Status, e.Response.URL)
		}
	}
	if fault != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = append(p.faults, fault)
	}
}

// do carries out actions within pageWait.
func (p *page) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageWait)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

func (p *page) visit(address string) {
	p.t.Helper()
	p.do("open "+address, chromedp.Navigate(address))
	p.ready()
}

// ready waits until the open view shows something.
func (p *page) ready() {
	p.t.Helper()
	p.until("the view is ready", `document.querySelector('[data-test=view]')?.dataset.ready === 'true'`)
}

// turn opens one of the pages by its address, and waits for it.
func (p *page) turn(hash string) {
	p.t.Helper()
	view := strings.Split(strings.TrimPrefix(hash, "#/"), "/")
	name := view[0]
	if len(view) > 1 {
		name = "receipt"
	}
	p.until("no dialog is left in the history", `!history.state?.dialog`)
	p.eval(nil, fmt.Sprintf(`location.hash = %q`, hash))
	p.until(hash, fmt.Sprintf(`(({dataset: d}) => d.view === %q && d.ready === 'true')(document.querySelector('[data-test=view]'))`, name))
}

// eval runs a script in the page; what it gives is read into out, unless that is nil.
func (p *page) eval(out any, script string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, pageWait)
	defer cancel()
	raw, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](script, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	if err != nil {
		p.t.Fatalf("%s: %v", script, err)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(raw, out); err != nil {
		p.t.Fatalf("%s: %v: %s", script, err, raw)
	}
}

func (p *page) text(script string) (s string) {
	p.t.Helper()
	p.eval(&s, script)
	return s
}

func (p *page) truth(script string) (is bool) {
	p.t.Helper()
	p.eval(&is, `!!(`+script+`)`)
	return is
}

// until waits for a condition in the page.
func (p *page) until(what, script string) {
	p.t.Helper()
	programs.Within(p.t, pageWait, what+": "+script, func() bool { return p.truth(script) })
}

// hook is the selector of a hook of the pages.
func hook(name string) string { return fmt.Sprintf(`[data-test="%s"]`, name) }

// attr is an attribute of the first element with a hook, "" where there is none.
func (p *page) attr(name, attr string) string {
	p.t.Helper()
	return p.text(fmt.Sprintf(`document.querySelector(%q)?.getAttribute(%q) ?? ''`, hook(name), attr))
}

// click clicks the first that a selector finds, as a mouse would.
func (p *page) click(selector string) {
	p.t.Helper()
	p.do("click "+selector, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

// write replaces what is in a field, as a keyboard would.
func (p *page) write(name, text string) {
	p.t.Helper()
	p.do("write into "+name, chromedp.Focus(chromedp.CSS(hook(name))), chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector(%q).select()`, hook(name))), chromedp.KeyEvent(text))
}

// press sends a key, e.g. kb.Tab.
func (p *page) press(key string) {
	p.t.Helper()
	p.do("a key", chromedp.KeyEvent(key))
}

// look sets how wide the window is, in CSS pixels, and which colours the system prefers.
func (p *page) look(width int64, theme string) {
	p.t.Helper()
	p.do("look", protocol(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1}))
	p.prefer(theme)
	p.until("the window is so wide", fmt.Sprintf(`innerWidth === %d`, width))
}

// prefer sets which colours the system prefers.
func (p *page) prefer(theme string) {
	p.t.Helper()
	p.do("the system's theme", protocol(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}))
	p.until("colours have changed", `document.getAnimations().length === 0`)
}

// shoot writes what the window shows to the folder of screenshots.
func (p *page) shoot(name string) {
	p.t.Helper()
	p.keepShot(name, chromedp.CaptureScreenshot())
}

// shootWhole writes the page from its beginning to its end.
func (p *page) shootWhole(name string) {
	p.t.Helper()
	p.keepShot(name, chromedp.FullScreenshot(100))
}

func (p *page) keepShot(name string, shot chromedp.Action[[]byte]) {
	p.t.Helper()
	dir := os.Getenv(shotsEnv)
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.ctx, pageWait)
	defer cancel()
	png, err := chromedp.Run(ctx, shot)
	if err != nil {
		p.t.Fatalf("screenshot %s: %v", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		p.t.Fatal(err)
	}
}
