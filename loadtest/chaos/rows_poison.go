package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// poisonRows are settings and headers that mean harm.
func poisonRows() []Row {
	return []Row{
		{
			ID: "G10", Fault: "every setting set to the same bad value, by HSET, again with the next bad value", Short: true, MaxLogLines: 1000,
			Promise: "no setting changes; each is listed in the metric and in /admin/status of all replicas ≤ 1 s; at most one log line per setting and value", Run: poisoned,
		},
		{
			ID: "G11", Fault: "kill switch: shed.low, .normal and .high 0; then shed.allow_high yes", Short: true, Added: -1, Tolerated: []string{Shed},
			Promise: "in force ≤ 1 s; high needs the second setting; /admin/status lists the switches; ended ≤ 1 s after the reset", Run: switchedOff,
		},
		{
			ID: "G12", Fault: "100,000 tenants' names (short form: 3,000) and random bytes in headers", Added: -1, Short: true,
			Promise: "≤ 5,000 series; 0 panics; 0 failed otherwise", MaxLogLines: 1000,
			Setup: Setup{Config: trusting}, Run: crowdOfNames,
		},
	}
}

// badValues are such for every setting.
var badValues = []string{
	"NaN", "", "banana", "1e309", "-1e9", "\x00\xff", strings.Repeat("9", 5000), "Inf", "--1", "1 2", "0,5x", "{}", "[]", "null", "１", "1e", "+-1", "0x", "%s", "'; DROP",
}

// status is what of /admin/status is looked at.
type status struct {
	Settings struct {
		Rejected []struct{ Name, Value string }
		Switches []string
	}
}

func (g *Gateway) status(ctx context.Context) (s status) {
	page, _ := g.Page(ctx, "/admin/status") // one that does not answer shows nothing
	_ = json.Unmarshal([]byte(page), &s)    // as above
	return s
}

// inForce are all settings of a gateway, by name.
func (g *Gateway) inForce(ctx context.Context) (map[string]string, error) {
	page, err := g.Page(ctx, "/admin/settings")
	if err != nil {
		return nil, err
	}
	var reported struct {
		Settings []struct{ Name, Value string }
	}
	if err := json.Unmarshal([]byte(page), &reported); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, s := range reported.Settings {
		out[s.Name] = s.Value
	}
	return out, nil
}

func poisoned(ctx context.Context, w *Testbed) error {
	before, err := w.Gateways[0].inForce(ctx)
	if err != nil {
		return err
	}
	times := len(badValues)
	if w.Short() {
		times = 7
	}
	w.injections++
	w.Phase(During)
	worst, lines := time.Duration(0), 0
	client := w.Redis.Servers[0].Client
	for _, bad := range badValues[:times] {
		hash := map[string]string{}
		for name := range before {
			hash[name] = bad
		}
		was, shown := w.Gateways[0].Lines(), w.shown(ctx)
		if err := client.HSet(ctx, settingsKey, hash).Err(); err != nil {
			return err
		}
		worst = max(worst, w.Until(ctx, time.Second, fmt.Sprintf("%.10q is refused by all", bad), func() bool {
			return w.refuse(ctx, before) && !slices.ContainsFunc(w.shown(ctx), func(value string) bool { return slices.Contains(shown, value) })
		}))
		for _, g := range w.Gateways {
			now, err := g.inForce(ctx)
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(now, before) {
				w.Fail("gateway %d: %.10q has changed the settings", g.Number, bad)
			}
		}
		lines = max(lines, w.Gateways[0].Lines()-was)
	}
	if lines == 0 || lines > len(before) {
		w.Fail("%d log lines for %d settings", lines, len(before))
	}
	if err := client.Del(ctx, settingsKey).Err(); err != nil {
		return err
	}
	w.Until(ctx, time.Second, "nothing is refused any more", func() bool {
		return !slices.ContainsFunc(w.Gateways, func(g *Gateway) bool { return len(g.status(ctx).Settings.Rejected) > 0 })
	})
	w.Note("%d settings, %d values; shown by all within %v, %d of %d times; at most %d log lines each time", len(before), times, round(worst), times, times, lines)
	return nil
}

// shown are the refused values of one setting, the same at every gateway, that they show.
func (w *Testbed) shown(ctx context.Context) (values []string) {
	for _, g := range w.Gateways {
		value := "none"
		for _, r := range g.status(ctx).Settings.Rejected {
			if r.Name == "shed.low" {
				value = "refused: " + r.Value
			}
		}
		values = append(values, value)
	}
	return values
}

// refuse reports whether all gateways name all of the settings, on both pages.
func (w *Testbed) refuse(ctx context.Context, names map[string]string) bool {
	for _, g := range w.Gateways {
		m, err := g.Metrics(ctx)
		if err != nil || len(g.status(ctx).Settings.Rejected) < len(names) {
			return false
		}
		for name := range names {
			if v, ok := m.Value(`foregate_settings_rejected{name="` + name + `"}`); !ok || v != 1 {
				return false
			}
		}
	}
	return true
}

// switchedOff sheds all of low and normal, then of high too, and ends that.
func switchedOff(ctx context.Context, w *Testbed) error {
	w.injections++
	w.Phase(During)
	client := w.Redis.Servers[0].Client
	are := func(want map[string]string) func() bool {
		return func() bool {
			for class, kind := range want {
				for _, g := range w.Gateways {
					if w.Load.Send(g, Request{Tenant: Tenants[0], Priority: class, Tokens: 3}).Kind != kind {
						return false
					}
				}
			}
			return true
		}
	}
	step := func(what string, want map[string]string, pairs ...any) error {
		if err := client.HSet(ctx, settingsKey, pairs...).Err(); err != nil {
			return err
		}
		w.Note("%s after %v", what, round(w.Until(ctx, time.Second, what, are(want))))
		return nil
	}
	if err := step("low and normal shed, high not", map[string]string{"low": Shed, "normal": Shed, "high": Answered}, "shed.low", 0, "shed.normal", 0, "shed.high", 0); err != nil {
		return err
	}
	if err := w.Hold(ctx, w.Span(time.Second, 3*time.Second)); err != nil {
		return err
	}
	for _, g := range w.Gateways {
		if s := g.status(ctx).Settings; len(s.Switches) == 0 || len(s.Rejected) != 1 {
			w.Fail("gateway %d shows the switches %q, refused %v", g.Number, s.Switches, s.Rejected)
		}
	}
	if err := step("all shed", map[string]string{"low": Shed, "normal": Shed, "high": Shed}, "shed.allow_high", "yes"); err != nil {
		return err
	}
	if err := client.Del(ctx, settingsKey).Err(); err != nil {
		return err
	}
	w.Note("over after %v", round(w.Until(ctx, time.Second, "nobody is shed", are(map[string]string{"low": Answered, "normal": Answered, "high": Answered}))))
	return nil
}

// trusting has gateways believe headers, so that anybody may be any tenant.
func trusting(_ int, file map[string]any) {
	file["identity"] = map[string]any{"mode": "trusted_headers", "trusted_proxies": []string{"127.0.0.0/8"},
		"unlisted_tenants": "default", "default_tenant": map[string]any{"max_priority": "high"}}
	delete(file, "tenants")
}

const (
	maxSeries = 5000
	nameConns = 8 // connections on which names are sent
)

// crowdOfNames sends requests with a new tenant each, by hand, some with bytes that no
// header may have.
func crowdOfNames(ctx context.Context, w *Testbed) error {
	names := 3000
	if !w.Short() {
		names = 100_000
	}
	w.injections++
	w.Phase(During)
	var sent atomic.Int64
	var all sync.WaitGroup
	for c := range nameConns {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), simSeed)) //nolint:gosec // the same each time
			for n := c; n < names && ctx.Err() == nil; n += nameConns {
				if tellName(w.Gateways[n%len(w.Gateways)].listen, n, random) {
					sent.Add(1)
				}
			}
		})
	}
	all.Wait()
	var series []int
	for _, g := range w.Gateways {
		m, err := g.Metrics(ctx)
		if err != nil {
			return err
		}
		n := 0
		for line := range strings.Lines(string(m)) {
			if !strings.HasPrefix(line, "#") {
				n++
			}
		}
		if series = append(series, n); n > maxSeries {
			w.Fail("gateway %d has %d series", g.Number, n)
		}
		if panics, _ := m.Value("foregate_panics_total"); panics > 0 {
			w.Fail("gateway %d: %v panics", g.Number, panics)
		}
	}
	w.Note("%d names of %d answered; series %v", sent.Load(), names, series)
	if int(sent.Load()) < names {
		w.Fail("%d of %d were answered", sent.Load(), names)
	}
	return nil
}

// tellName sends one request as a tenant of its own, on a connection of its own, and
// reports whether there was an answer. One in eight asks for a model that there is.
func tellName(addr string, n int, random *rand.Rand) bool {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }() // all was read
	_ = conn.SetDeadline(time.Now().Add(clientPatience))
	model, name := "none", fmt.Sprintf("tenant-%d", n)
	if n%8 == 0 {
		model = RouteModel
	}
	noise := make([]byte, 24)
	for i := range noise {
		noise[i] = byte(random.IntN(256))
		if noise[i] == '\n' || noise[i] == '\r' {
			noise[i] = ' '
		}
	}
	where := []string{"X-Tenant-ID", "X-Priority", "X-RAG-Hash", "X-Request-ID", "X-Noise", "Traceparent"}[n%6]
	headers := map[string]string{"X-Tenant-ID": name, "X-Priority": "low"}
	if n%3 == 0 {
		headers[where] = string(noise)
	}
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}],"max_tokens":1}`, model)
	var head strings.Builder
	for _, key := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(&head, "%s: %s\r\n", key, headers[key])
	}
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n%s",
		len(body), head.String(), body)
	if err != nil {
		return false
	}
	answer, _ := io.ReadAll(io.LimitReader(conn, maxAnswer)) // what there is of it
	return strings.HasPrefix(string(answer), "HTTP/1.1 ") && !strings.HasPrefix(string(answer), "HTTP/1.1 5")
}
