package chaos

import (
	"context"
	"fmt"
	"time"
)

// redisRows are faults of one Redis server and of the way to it.
func redisRows() []Row {
	rows := []Row{
		{
			ID: "R1", Fault: "Redis killed, and restarted empty", Promise: "0 failed; level local ≤ 1.5 s, reported ≤ 2 s; shared again ≤ 2 s",
			Short: true, Recover: backAgain, Run: killed,
		},
		{
			ID: "R1c", Fault: "Redis killed, tenants at half of their limits, requests in pairs", Promise: "0 failed, 0 limited; shared again ≤ 2 s",
			Setup: Setup{Rate: -1, Config: limitEach(1200)}, Recover: backAgain, Run: killedWithPairs,
		},
		{
			ID: "R2a", Fault: "Redis frozen (SIGSTOP)", Promise: "0 failed; + ≤ 15 ms p99; level local ≤ 1.5 s, reported ≤ 2 s; shared again ≤ 2 s",
			Short: true, Recover: backAgain, Run: withinRedisBudget(frozen),
		},
		{
			ID: "R2c", Fault: "black hole: open connections lose all data, new ones work", Promise: "0 failed; + ≤ 15 ms p99; shared again ≤ 2 s",
			Recover: backAgain, Run: withinRedisBudget(blackHole),
		},
		{
			ID: "R2d", Fault: "Redis' replies cut in the middle, by RST and FIN", Promise: "0 failed; shared again ≤ 2 s",
			Recover: backAgain, Run: cutShort,
		},
	}
	const aBitLate = 3 * lookupBudget / 2
	for i, d := range []time.Duration{aBitLate, 500 * time.Millisecond} {
		rows = append(rows, Row{
			ID: "R3" + string(rune('a'+i)), Fault: fmt.Sprintf("every answer of Redis %v late", d),
			Promise: "0 failed; + ≤ 15 ms p99; ≤ 30 connections and 20 per 1,000 requests; shared again ≤ 2 s",
			Recover: backAgain, Run: withinRedisBudget(slow(d)),
		})
	}
	return rows
}

const (
	// alone is how long after Redis' end a gateway relies on nobody else's word.
	alone = 1500 * time.Millisecond
	// says is how much later its metrics tell that: with the next exchange, which is late
	// itself by then (250 ms between them, 250 ms of patience with each).
	says = 500 * time.Millisecond
	// backAgain is how long after Redis' return gateways share again: a pool that fails fast
	// dials once a second, and an exchange comes twice in scrape.interval.
	backAgain = 2 * time.Second
)

// local waits until every gateway is on its own, and notes how long that took.
func (w *Testbed) local(ctx context.Context) {
	w.Note("each for itself after %v", round(w.Until(ctx, alone+says, "every gateway is for itself", func() bool { return w.InMode(ctx, "local") })))
}

func (w *Testbed) outage() time.Duration { return w.Span(2*time.Second, 4*time.Second) }

func killed(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	return w.Inject(ctx, w.outage(), func() error {
		if err := s.Kill(); err != nil {
			return err
		}
		w.local(ctx)
		return nil
	}, func() error { return s.Start(ctx) })
}

// limitEach gives each tenant a limit of requests a minute.
func limitEach(rpm int) func(int, map[string]any) {
	return func(_ int, file map[string]any) {
		tenants, _ := file["tenants"].([]any) // made by Testbed.config
		for _, t := range tenants {
			if t, ok := t.(map[string]any); ok {
				t["rpm"] = rpm
			}
		}
	}
}

// killedWithPairs is killed under two loads in step, which together send half of what the
// tenants may: a client with two requests at once is no offender.
func killedWithPairs(ctx context.Context, w *Testbed) error {
	for range 2 {
		w.StartLoad(10, nil)
	}
	if err := w.Hold(ctx, w.Span(2*time.Second, 4*time.Second)); err != nil {
		return err
	}
	return killed(ctx, w)
}

func frozen(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	return w.Inject(ctx, w.outage(), func() error {
		if err := s.Freeze(); err != nil {
			return err
		}
		w.local(ctx)
		return nil
	}, s.Thaw)
}

func blackHole(ctx context.Context, w *Testbed) error {
	for range 2 {
		err := w.Inject(ctx, 0, func() error {
			for _, d := range w.Redis.Proxies {
				d.BlackHole()
			}
			return w.Hold(ctx, 400*time.Millisecond) // an exchange is late by then
		}, func() error { return nil })
		if err != nil {
			return err
		}
	}
	return w.Hold(ctx, w.outage())
}

func cutShort(ctx context.Context, w *Testbed) error {
	for _, reset := range []bool{true, false} {
		err := w.Inject(ctx, w.outage(), func() error { return w.Redis.Set(NetworkFault{CutAfter: 700, Reset: reset}) },
			func() error { return w.Redis.Set(NetworkFault{}) })
		if err != nil {
			return err
		}
	}
	return nil
}

// slow delays every answer, and counts the connections that requests cost beyond those
// that the gateways make by themselves.
func slow(d time.Duration) func(context.Context, *Testbed) error {
	return func(ctx context.Context, w *Testbed) error {
		span := w.Span(2500*time.Millisecond, 6*time.Second)
		count := func() (made int, err error) {
			was := w.Redis.Passed().Connections
			err = w.Hold(ctx, span)
			return w.Redis.Passed().Connections - was, err
		}
		return w.Inject(ctx, 0, func() error {
			if err := w.Redis.Set(NetworkFault{Delay: d}); err != nil {
				return err
			}
			began := w.Load.Sent()
			busy, err := count()
			if err != nil {
				return err
			}
			w.Load.Pause(true)
			defer w.Load.Pause(false)
			sent := w.Load.Sent() - began
			idle, err := count()
			w.Note("%d connections in %d requests, %d without any; modes %v", busy, sent, idle, w.Modes(ctx))
			if maximum := fewReconnects + maxReconnects*sent/1000; busy-idle > maximum {
				w.Fail("%d requests cost %d connections, promised %d", sent, busy-idle, maximum)
			}
			return err
		}, func() error { return w.Redis.Set(NetworkFault{}) })
	}
}

// fewReconnects is what it takes three gateways to find out, however many requests there are: five questions each, for
// limits and for answers, each of which may cost its connection.
const fewReconnects = 3 * 5 * 2

// maxReconnects is how many more 1,000 requests may cost while Redis is slow.
// A client that gives each lookup a context deadline of its own makes 990: it drops the connection of every
// late answer.
const maxReconnects = 20
