package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/tiers/plan"
)

// hash makes a hash of "name=value" words.
func hash(fields ...string) map[string]string {
	h := map[string]string{}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		h[name] = value
	}
	return h
}

// in returns a setting's value as text.
func in(v *Values, name string) string {
	s, ok := lookup(name)
	if !ok {
		return "no such setting"
	}
	return s.Value(v)
}

func TestAHashBecomesASnapshot(t *testing.T) {
	routes := []string{"llama", "org/qwen:7b"}
	for _, tc := range []struct {
		name     string
		last     []string // the hash before, none when nil
		now      []string
		global   []string // name=value expected
		llama    []string
		rejected []string // "name: reason"
		unknown  []string
	}{
		{name: "nothing set", global: []string{"shed.low=0.85", "timeout.total=10m"}},
		{name: "one field", now: []string{"shed.low=0.80"}, global: []string{"shed.low=0.8"}, llama: []string{"shed.low=0.8"}},
		{name: "a route's own", now: []string{"shed.low=0.8", "shed.low@llama=0.7", "speculation.mode@org/qwen:7b=off"},
			global: []string{"shed.low=0.8", "speculation.mode=risk"}, llama: []string{"shed.low=0.7", "speculation.mode=risk"}},
		{name: "a bad value keeps the last good one", last: []string{"shed.low=0.7"}, now: []string{"shed.low=banana"},
			global: []string{"shed.low=0.7"}, rejected: []string{"shed.low: want a plain decimal number, 0 … 1"}},
		{name: "a bad value without a last good one is the default", now: []string{"shed.low=banana"},
			global: []string{"shed.low=0.85"}, rejected: []string{"shed.low: want a plain decimal number, 0 … 1"}},
		{name: "a bad field does not hold up a good one", now: []string{"shed.low=NaN", "retry.max_retries=3"},
			global: []string{"shed.low=0.85", "retry.max_retries=3"}, rejected: []string{"shed.low: want a plain decimal number, 0 … 1"}},
		{name: "a removed field has its default", last: []string{"shed.low=0.7"}, global: []string{"shed.low=0.85"}},
		{name: "unknown names", now: []string{"shed.lo=0.8", "foo=1", "=1", "shed.low@=0.5"}, unknown: []string{
			": unknown setting", "foo: unknown setting", "shed.lo: unknown setting", "shed.low@: unknown route"}},
		{name: "unknown routes and fleet settings", now: []string{"shed.low@lama=0.5", "breaker.open_duration@llama=3s", "shed.low@llama@llama=0.5"}, rejected: []string{
			"breaker.open_duration@llama: is the same for every route and cannot be overridden"},
			unknown: []string{"shed.low@lama: unknown route", "shed.low@llama@llama: unknown route"}},
		{name: "settings of another version leave their neighbours alone", last: []string{"shed.low=0.7", "shed.normal=0.8"},
			now:    []string{"shed.low=0.6", "shed.normal=0.8", "shed.lowest=0.1", "warp.factor=9", "shed.lowest@llama=\xff"},
			global: []string{"shed.low=0.6", "shed.normal=0.8"}, unknown: []string{
				"shed.lowest: unknown setting", "shed.lowest@llama: unknown setting", "warp.factor: unknown setting"}},
		{name: "low above normal: the new one goes", last: []string{"shed.low=0.8"}, now: []string{"shed.low=0.8", "shed.normal=0.7"},
			global: []string{"shed.low=0.8", "shed.normal=0.95"}, rejected: []string{"shed.normal: shed.low 0.8 is above shed.normal 0.7"}},
		{name: "both new: both go", now: []string{"shed.low=0.9", "shed.normal=0.7"},
			global: []string{"shed.low=0.85", "shed.normal=0.95"}, rejected: []string{
				"shed.low: shed.low 0.9 is above shed.normal 0.7", "shed.normal: shed.low 0.9 is above shed.normal 0.7"}},
		{name: "all three together", now: []string{"shed.low=0.6", "shed.normal=0.7", "shed.high=0.8"},
			global: []string{"shed.low=0.6", "shed.normal=0.7", "shed.high=0.8"}},
		{name: "a removal that would break the order is refused too", last: []string{"shed.low=0.5", "shed.normal=0.6", "shed.high=0.7"},
			now: []string{"shed.low=0.5", "shed.high=0.7"}, global: []string{"shed.normal=0.6", "shed.high=0.7"},
			rejected: []string{"shed.normal: cannot be removed: shed.normal 0.95 is above shed.high 0.7; 0.6 stays"}},
		{name: "a release that never ends", now: []string{"shed.hysteresis=0.9"},
			global: []string{"shed.hysteresis=0.05"}, rejected: []string{"shed.hysteresis: shed.hysteresis 0.9 is not below shed.low 0.85, so shedding would never end"}},
		{name: "the kill switch of low", now: []string{"shed.low=0"}, global: []string{"shed.low=0", "shed.hysteresis=0.05"}},
		{name: "high needs a second field", now: []string{"shed.low=0", "shed.normal=0", "shed.high=0"},
			global:   []string{"shed.low=0", "shed.normal=0", "shed.high=1"},
			rejected: []string{"shed.high: shed.high 0 is below 0.5 and would turn even high away; shed.allow_high must be yes as well"}},
		{name: "with both fields high goes too", now: []string{"shed.low=0", "shed.normal=0", "shed.high=0", "shed.allow_high=yes"},
			global: []string{"shed.low=0", "shed.normal=0", "shed.high=0"}},
		{name: "the second field alone does nothing", now: []string{"shed.allow_high=yes"}, global: []string{"shed.high=1"}},
		{name: "the second field cannot be taken away first", last: []string{"shed.low=0", "shed.normal=0", "shed.high=0", "shed.allow_high=yes"},
			now: []string{"shed.low=0", "shed.normal=0", "shed.high=0"}, global: []string{"shed.high=0", "shed.allow_high=yes"},
			rejected: []string{"shed.allow_high: cannot be removed: shed.high 0 is below 0.5 and would turn even high away; shed.allow_high must be yes as well; yes stays"}},
		{name: "a route's rule counts its inherited values", now: []string{"shed.high@llama=0.9"},
			llama: []string{"shed.high=1"}, rejected: []string{"shed.high@llama: shed.normal 0.95 is above shed.high 0.9"}},
		{name: "an override gives way when the global value moved", last: []string{"shed.low@llama=0.9"}, now: []string{"shed.low@llama=0.9", "shed.low=0.7", "shed.normal=0.8"},
			global: []string{"shed.normal=0.8"}, llama: []string{"shed.low=0.7", "shed.normal=0.8"},
			rejected: []string{"shed.low@llama: shed.low 0.9 is above shed.normal 0.8"}},
		{name: "a route may not turn high away alone either", now: []string{"shed.high@llama=0.1", "shed.normal@llama=0.1", "shed.low@llama=0.1"},
			llama:    []string{"shed.high=1", "shed.normal=0.1", "shed.low=0.1"},
			rejected: []string{"shed.high@llama: shed.high 0.1 is below 0.5 and would turn even high away; shed.allow_high must be yes as well"}},
		{name: "a value too long", now: []string{"shed.low=0." + strings.Repeat("8", 5000)},
			rejected: []string{"shed.low: longer than the 4096 bytes that are read"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var last *Snapshot
			if tc.last != nil {
				var bad []RejectedValue
				if last, bad = FromHash(hash(tc.last...), routes, nil); len(bad) > 0 {
					t.Fatalf("the hash before is bad: %v", bad)
				}
			}
			s, rejected := FromHash(hash(tc.now...), routes, last)
			if diff := cmp.Diff(tc.rejected, reasons(rejected)); diff != "" {
				t.Errorf("rejected: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.unknown, reasons(s.Unknown)); diff != "" {
				t.Errorf("unknown: -want +got:\n%s", diff)
			}
			expect(t, "global", s.Global(), tc.global)
			expect(t, "llama", s.Route("llama"), tc.llama)
			if again, _ := FromHash(hash(tc.now...), routes, s); *again.Global() != *s.Global() || !maps.Equal(again.Set, s.Set) {
				t.Errorf("reading the same hash again changed %v to %v", s.Set, again.Set)
			}
		})
	}
}

// reasons lists fields as "name: reason".
func reasons(fields []RejectedValue) []string {
	var out []string
	for _, r := range fields {
		out = append(out, r.Name+": "+r.Reason)
	}
	return out
}

func expect(t *testing.T, scope string, v *Values, want []string) {
	t.Helper()
	for _, w := range want {
		name, value, _ := strings.Cut(w, "=")
		if got := in(v, name); got != value {
			t.Errorf("%s: %s is %s, want %s", scope, name, got, value)
		}
	}
}

func TestAnEndlessHashChangesNothing(t *testing.T) {
	last, _ := FromHash(hash("shed.low=0.7"), nil, nil)
	h := hash("shed.low=0.6")
	for i := range maxFields {
		h[fmt.Sprint("x", i)] = "1"
	}
	s, rejected := FromHash(h, nil, last)
	if in(s.Global(), shedLow) != "0.7" || len(rejected) != 1 || rejected[0].Name != Key {
		t.Errorf("shed.low %s, %v", in(s.Global(), shedLow), rejected)
	}
	delete(h, "x0")
	if s, _ := FromHash(h, nil, last); in(s.Global(), shedLow) != "0.6" {
		t.Error("256 fields are not read")
	}
}

func TestKillSwitchesAreWarnedOf(t *testing.T) {
	s, _ := FromHash(hash("shed.low=0", "shed.normal@r=0", "shed.low@r=0"), []string{"r"}, nil)
	want := []string{
		"shed.low is 0: the whole class is turned away",
		"shed.low@r is 0: the whole class is turned away",
		"shed.normal@r is 0: the whole class is turned away",
	}
	if diff := cmp.Diff(want, s.Warnings()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzFromHash checks that nothing in the hash can panic, and that every
// snapshot is in range, whatever came before.
func FuzzFromHash(f *testing.F) {
	f.Add("shed.low=0.9\nshed.normal=0.5", "shed.low=0.1\nshed.release=0.9")
	f.Add("shed.high=0\nshed.low=0\nshed.normal=0\nshed.allow_high=yes", "shed.high=0\nshed.normal@r=0.2")
	f.Add("timeout.total=1e309\nretry.budget=0x1p-2", "breaker.open_duration@r=1s\nspeculation.mode=\xff")
	f.Add("shed.low@r=0.9\nshed.high@r=0.95", "shed.low=0.5\nshed.normal=0.6\nshed.high=0.7\nshed.low@r=0.9")
	f.Fuzz(func(t *testing.T, before, now string) {
		routes := []string{"r"}
		last, _ := FromHash(hash(strings.Split(before, "\n")...), routes, nil)
		h := hash(strings.Split(now, "\n")...)
		s, rejected := FromHash(h, routes, last)
		for _, v := range []*Values{last.Global(), s.Global(), s.Route("r"), last.Route("r")} {
			checkRange(t, v)
		}
		for _, r := range slices.Concat(rejected, s.Unknown) {
			if len(r.Name) > maxShown || len(r.Value) > maxShown || r.Reason == "" {
				t.Errorf("rejected %+v", r)
			}
		}
		if len(h) > len(s.Set)+len(rejected)+len(s.Unknown) && len(h) <= maxFields {
			t.Errorf("of %d fields %d are set and %d rejected", len(h), len(s.Set), len(rejected)+len(s.Unknown))
		}
	})
}

// checkRange reads every value of v back through its own setting.
func checkRange(t *testing.T, v *Values) {
	t.Helper()
	for _, s := range Specs() {
		if err := check(&s, s.Value(v)); err != nil {
			t.Errorf("accepted: %s: %v", s.Name, err)
		}
	}
	if fields, reason := broken(v); reason != "" {
		t.Errorf("accepted %v: %s", fields, reason)
	}
}

func TestASettingOfOneApplicationIsOfThatAlone(t *testing.T) {
	s, rejected := FromHash(hash("speculation.mode=shadow", "speculation.mode@llama#acme/3f2a=off", "application.name@llama#acme/3f2a=tickets",
		"shed.low@llama#acme/3f2a=0.5", "application.name=all", "application.name@llama=all",
		"application.name@llama#acme/x=two words", "speculation.mode@llama#acme/y=often", "speculation.mode@lama#acme/3f2a=off", "speculation.mode@llama#acme=off"),
		[]string{"llama"}, nil)
	if got, want := s.Applications("llama"), map[string]plan.Application{"acme/3f2a": {Mode: plan.ModeOff, Name: "tickets"}}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := s.Route("llama").Tiers.Mode; got != plan.ModeShadow {
		t.Errorf("its route is in mode %s", got)
	}
	var why []string
	for _, r := range append(rejected, s.Unknown...) {
		why = append(why, r.Name+": "+r.Reason)
	}
	if diff := cmp.Diff([]string{
		"application.name: is of one application: want application.name@ROUTE#TENANT/APPLICATION",
		"application.name@llama: is of one application: want application.name@ROUTE#TENANT/APPLICATION",
		"application.name@llama#acme/x: want 1 to 64 of A-Z a-z 0-9 . _ : -",
		"shed.low@llama#acme/3f2a: is the same for every application of a route",
		"speculation.mode@llama#acme/y: want one of off, shadow, confidence, risk, verify",
		"speculation.mode@lama#acme/3f2a: unknown route", "speculation.mode@llama#acme: unknown route",
	}, why); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var lines []string
	for _, l := range List(s, "llama") {
		if strings.Contains(l.Name, "#acme/3f2a") && l.Problem == "" {
			lines = append(lines, l.Name+" "+l.Value)
		}
	}
	if diff := cmp.Diff([]string{"application.name@llama#acme/3f2a tickets", "speculation.mode@llama#acme/3f2a off"}, lines); diff != "" {
		t.Errorf("listed: -want +got:\n%s", diff)
	}
}
