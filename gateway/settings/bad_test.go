package settings

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
)

// badValues are values that a setting must refuse, by its kind: what no setting takes, what
// other kinds take, and what is just out of range on both sides.
func badValues(t *testing.T, s Spec) []string {
	t.Helper()
	bad := []string{"", "NaN", "+Inf", "1e309", "0x10", "1_0", `{"value":1}`, "null", "\xff\xfe\x00", strings.Repeat("1", 5000), " 1", "1\n", "ten", "٣", "99999999999999999999999"}
	ends := strings.TrimPrefix(s.Range, "milliseconds, ")
	if kind, ends, ok := strings.Cut(s.Range, ", "); ok && kind == "whole number" {
		lo, hi := cutRange(t, ends, strconv.Atoi)
		return append(bad, fmt.Sprint(lo-1), fmt.Sprint(hi+1), "1.5", "10s", "on")
	} else if ok && kind == "duration" {
		lo, hi := cutRange(t, ends, time.ParseDuration)
		return append(bad, (lo - 1).String(), (hi + 1).String(), "10", "10 s", "1h30", "on")
	}
	if strings.Contains(s.Range, " … ") {
		lo, hi := cutRange(t, ends, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
		return append(bad, fmt.Sprint(lo-0.001), fmt.Sprint(hi+0.001), "10s", "50%", "0,5", "on")
	}
	return append(bad, strings.ToUpper(s.Default), s.Default+" ", s.Default+","+s.Default, "0.5", "10s", "true")
}

func cutRange[T any](t *testing.T, ends string, parse func(string) (T, error)) (lo, hi T) {
	t.Helper()
	a, b, _ := strings.Cut(ends, " … ")
	lo, err1 := parse(a)
	hi, err2 := parse(b)
	if err1 != nil || err2 != nil {
		t.Fatalf("the range %q: %v, %v", ends, err1, err2)
	}
	return lo, hi
}

// TestABadValueChangesNothingAndIsVisible sets every setting to every bad value, over a good
// one, with a running neighbour.
func TestABadValueChangesNothingAndIsVisible(t *testing.T) {
	stores(t, func(t *testing.T, s store) {
		c := client(s.addr, nil)
		defer func() { _ = c.Close() }()
		var log logbook
		w := New(Options{Redis: c, Registerer: prometheus.NewPedanticRegistry(), Logger: zerolog.New(&log)})
		poll := func() {
			t.Helper()
			if err := w.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		tried := 0
		for _, spec := range Specs() {
			good := another(spec)
			neighbour := "retry.budget"
			if spec.Name == neighbour {
				neighbour = "speculation.threshold_nats"
			}
			if spec.Name == shedAllowHigh || !strings.HasPrefix(spec.Name, "shed.") { // others of shed need each other
				s.set(spec.Name, good)
			}
			s.set(neighbour, "0.5")
			poll()
			before := *w.Snapshot().Global()
			log.forget()
			values := badValues(t, spec)
			if len(values) < 10 {
				t.Errorf("%s: only %d bad values", spec.Name, len(values))
			}
			for _, value := range values {
				tried++
				s.set(spec.Name, value)
				poll()
				poll()
				rejected := w.Snapshot().Rejected
				if *w.Snapshot().Global() != before {
					t.Errorf("%s = %q changed what is in force", spec.Name, show(value))
				}
				if len(rejected) != 1 || rejected[0].Name != spec.Name || rejected[0].Value != showValue(value) || rejected[0].Reason == "" {
					t.Errorf("%s = %q: rejected %+v", spec.Name, show(value), rejected)
				}
				if testutil.ToFloat64(w.metrics.rejected.WithLabelValues(spec.Name)) != 1 || testutil.CollectAndCount(w.metrics.rejected) != 1 {
					t.Errorf("%s = %q is not in the metric", spec.Name, show(value))
				}
				if lines := log.lines(t); len(lines) != 1 || !strings.Contains(lines[0], "refused; its last good value stays in force "+spec.Name) {
					t.Errorf("%s = %q: log lines %q", spec.Name, show(value), lines)
				}
				log.forget()
			}
			s.del(spec.Name, neighbour)
			poll()
			if len(w.Snapshot().Rejected) > 0 || *w.Snapshot().Global() != Defaults() {
				t.Errorf("%s: removed, there is left %v", spec.Name, w.Snapshot().Rejected)
			}
		}
		t.Logf("%d bad values of %d settings", tried, len(Specs()))
	})
}

// another is a good value that is not the default.
func another(s Spec) string {
	for _, value := range []string{"0.7", "7", "7000", "7s", "700ms", "7m", "yes", "no", "off", "round_robin", "accept", "exact", "lenient", "0.3", "judge", "shadow", "prompt_length", "never", "scarce"} {
		d := Defaults()
		if check(&s, value) == nil && value != s.Value(&d) {
			return value
		}
	}
	return "" // the test says what is wrong with it
}
