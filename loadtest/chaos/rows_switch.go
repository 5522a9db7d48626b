package chaos

import (
	"context"
	"encoding/json"
	"time"
)

// switchRow is what operators reach for when all else fails.
func switchRow() Row {
	return Row{
		ID: "G11", Fault: "kill switch: shed.low, .normal and .high 0; then shed.allow_high yes", Short: true, Added: -1, Tolerated: []string{Shed},
		Promise: "in force ≤ 1 s; high needs the second setting; /admin/status lists the switches; ended ≤ 1 s after the reset", Run: switchedOff,
	}
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
