package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/loadtest/process"
)

// redisRows are faults of one Redis server and of the way to it.
func redisRows() []Row {
	const promise = "0 failed; + ≤ 15 ms; shared again ≤ 2 s"
	refuses := func(id, fault string, run step) Row {
		return Row{ID: id, Fault: fault, Promise: promise, Recover: backAgain, Run: run}
	}
	return []Row{
		{
			ID: "R1", Fault: "Redis killed, and restarted empty; tenants at half of their limits", Short: true, Recover: backAgain,
			Promise: "0 failed, 0 limited; level local ≤ 1.5 s, reported ≤ 2 s; shared again ≤ 2 s", Setup: Setup{Config: limitEach(halfRPM)}, Run: outage(kill, start),
		},
		{
			ID: "R2", Fault: "Redis frozen (SIGSTOP); then open connections lose all data, and new ones work", Short: true, Recover: backAgain,
			Promise: "0 failed; + ≤ 15 ms p99; level local ≤ 1.5 s, reported ≤ 2 s; shared again ≤ 2 s", Run: withinRedisBudget(inTurn(outage(freeze, thaw), blackHole)),
		},
		{
			ID: "R3", Fault: fmt.Sprintf("every answer of Redis is late, by %v in turn", lates), Recover: backAgain,
			Promise: "0 failed; + ≤ 15 ms p99; ≤ 30 connections and 20 per 1,000 requests; shared again ≤ 2 s", Run: withinRedisBudget(slow),
		},
		{ID: "R6", Fault: "Redis full: OOM, noeviction", Promise: "0 failed; reads continue; shared again ≤ 2 s", Short: true, Recover: backAgain, Run: full},
		{ID: "R7", Fault: "FLUSHALL every second", Promise: promise, Short: true, Recover: backAgain, Run: again(time.Second, flush)},
		{
			ID: "R8", Fault: "a wrong type at each kind of key, which is then evicted, one after the other; at last at all of them at once",
			Promise: promise, Recover: backAgain, Run: wrongTypes, MaxLogLines: 4 * usualQuiet,
		},
		{ID: "R11", Fault: "password rotated; then NOPERM: the user has no permissions", Promise: promise + "; the log names the cause", Recover: backAgain, Run: inTurn(rotated, forbidden)},
		refuses("R12a", "READONLY: a replica in place of the master", demoted("yes")),
		refuses("R12b", "MASTERDOWN: a replica that has lost its master", demoted("no")),
		refuses("R12c", "NOSCRIPT: SCRIPT FLUSH five times a second", again(200*time.Millisecond, forgetScripts)),
		refuses("R12d", "BUSY: a script that does not end", busy),
		refuses("R12e", "max clients reached", crowded),
		{
			ID: "R13", Fault: "one replica cut off from Redis", Promise: "0 failed; it is at level local, the others share state; no flapping afterwards",
			Short: true, Recover: backAgain, Run: partitioned,
		},
		{
			ID: "R15", Fault: "split brain: one replica at another master", Promise: "0 failed; settings per side; one prober per side; one side again ≤ 30 s",
			Recover: 30 * time.Second, Run: splitBrain,
		},
	}
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

	halfRPM = 2 * 60 * int(usualRate) / len(Tenants) // a limit of which the usual load is half
)

// step is a part of a row.
type step func(ctx context.Context, w *Testbed) error

// inTurn makes one fault after the other.
func inTurn(faults ...step) step {
	return func(ctx context.Context, w *Testbed) error {
		for _, fault := range faults {
			if err := fault(ctx, w); err != nil {
				return err
			}
		}
		return nil
	}
}

// outage makes one fault for a while, and ends it.
func outage(begin, end step) step {
	return func(ctx context.Context, w *Testbed) error {
		return w.Inject(ctx, w.outage(), func() error { return begin(ctx, w) }, func() error { return end(ctx, w) })
	}
}

func (w *Testbed) outage() time.Duration { return w.Span(2*time.Second, 4*time.Second) }

// again does something at the server every so often, for as long as an outage lasts.
func again(every time.Duration, what func(context.Context, *Server) error) step {
	return func(ctx context.Context, w *Testbed) error {
		return w.Inject(ctx, 0, func() error {
			for end := time.Now().Add(w.outage()); time.Now().Before(end); {
				if err := what(ctx, w.Redis.Servers[0]); err != nil {
					return err
				}
				if err := w.Hold(ctx, every); err != nil {
					return err
				}
			}
			return nil
		}, func() error { return nil })
	}
}

func flush(ctx context.Context, s *Server) error         { return s.Client.FlushAll(ctx).Err() }
func forgetScripts(ctx context.Context, s *Server) error { return s.Client.ScriptFlush(ctx).Err() }

func start(ctx context.Context, w *Testbed) error { return w.Redis.Servers[0].Start(ctx) }
func thaw(_ context.Context, w *Testbed) error    { return w.Redis.Servers[0].Thaw() }

// kill ends Redis, and waits until every gateway is on its own.
func kill(ctx context.Context, w *Testbed) error {
	err := w.Redis.Servers[0].Kill()
	w.local(ctx)
	return err
}

// freeze stops Redis where it stands, and waits until every gateway is on its own.
func freeze(ctx context.Context, w *Testbed) error {
	err := w.Redis.Servers[0].Freeze()
	w.local(ctx)
	return err
}

// local waits until every gateway is on its own, and notes how long that took.
func (w *Testbed) local(ctx context.Context) {
	w.Note("each for itself after %v", round(w.Until(ctx, alone+says, "every gateway is for itself", func() bool { return w.InMode(ctx, "local") })))
}

// eachTenant changes the tenants of a configuration.
func eachTenant(file map[string]any, change func(i int, tenant map[string]any)) {
	tenants, _ := file["tenants"].([]any) // made by Testbed.config
	for i, t := range tenants {
		if t, ok := t.(map[string]any); ok {
			change(i, t)
		}
	}
}

// limitEach gives each tenant a limit of requests a minute.
func limitEach(rpm int) func(int, map[string]any) {
	return func(_ int, file map[string]any) {
		eachTenant(file, func(_ int, t map[string]any) { t["rpm"] = rpm })
	}
}

// unlimited takes all limits out of a configuration.
func unlimited(_ int, file map[string]any) {
	eachTenant(file, func(_ int, t map[string]any) {
		delete(t, "rpm")
		delete(t, "tpm")
	})
}

func blackHole(ctx context.Context, w *Testbed) error {
	return w.Inject(ctx, 0, func() error {
		for _, d := range w.Redis.Proxies {
			d.BlackHole()
		}
		return w.Hold(ctx, 400*time.Millisecond) // an exchange is late by then
	}, func() error { return nil })
}

// lates are the delays of answers: within the budget, at it, and beyond it.
var lates = []time.Duration{5 * time.Millisecond, lookupBudget, 50 * time.Millisecond, 500 * time.Millisecond}

// slow delays every answer by each of the delays, and counts the connections that requests cost beyond those
// that the gateways make by themselves.
func slow(ctx context.Context, w *Testbed) error {
	span := w.Span(2500*time.Millisecond, 4*time.Second)
	count := func() (made int, err error) {
		was := w.Redis.connections()
		err = w.Hold(ctx, span)
		return w.Redis.connections() - was, err
	}
	for _, d := range lates {
		err := w.Inject(ctx, 0, func() error {
			w.Redis.Set(NetworkFault{Delay: d})
			began := w.Load.Sent()
			busy, err := count()
			if err != nil {
				return err
			}
			w.Load.Pause(true)
			defer w.Load.Pause(false)
			sent := w.Load.Sent() - began
			idle, err := count()
			w.Note("%v: %d connections in %d requests, %d without any; modes %v", d, busy, sent, idle, w.Modes(ctx))
			if maximum := fewReconnects + maxReconnects*sent/1000; busy-idle > maximum {
				w.Fail("%v: %d requests cost %d connections, promised %d", d, sent, busy-idle, maximum)
			}
			return err
		}, func() error { w.Redis.Set(NetworkFault{}); return nil })
		if err != nil {
			return err
		}
	}
	return nil
}

// fewReconnects is what it takes three gateways to find out, however many requests there are: five questions each, for
// limits and for answers, each of which may cost its connection.
const fewReconnects = 3 * 5 * 2

// maxReconnects is how many more 1,000 requests may cost while Redis is slow.
// A client that gives each lookup a context deadline of its own makes 990: it drops the connection of every
// late answer.
const maxReconnects = 20

func full(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	kept := Request{Tenant: Tenants[0], Priority: "normal", Tokens: 12, Prompt: "What is kept before there is no more room?"}
	w.Load.Keep(w.Load.Send(w.Gateways[0], kept))
	if err := w.Hold(ctx, follows); err != nil { // it is written behind the request
		return err
	}
	return w.Inject(ctx, w.outage(), func() error {
		for i := range 64 {
			if err := s.Client.Set(ctx, fmt.Sprintf("ballast:%d", i), strings.Repeat("x", 64<<10), 0).Err(); err != nil {
				return err
			}
		}
		return s.Config(ctx, "maxmemory-policy", "noeviction", "maxmemory", "4mb") // less than there is
	}, func() error {
		w.Note("modes meanwhile %v", w.Modes(ctx))
		for _, g := range w.Gateways[1:] { // they have no copy of it
			o := w.Load.Send(g, kept)
			w.Load.Keep(o)
			if said := o.Header.Get("X-Cache"); said != "HIT" {
				w.Fail("gateway %d: what Redis keeps is not read: X-Cache says %q", g.Number, said)
			}
		}
		return s.Config(ctx, "maxmemory", "0")
	})
}

// answerKeys begin the Redis keys of answers.
const answerKeys = "foregate:cache:"

// knownKeys are keys that there may not be while nothing is wrong.
var knownKeys = []string{
	settingsKey, "foregate:{fg}:replicas", "foregate:{fg}:drain", "foregate:{fg}:told1",
	"foregate:{fg}:placed2:draft", "foregate:{fg}:placed2:target", "foregate:{fg}:ledger1:tenant:acme", "foregate:{fg}:ledger1:tenant:globex",
	"foregate:{fg}:epochs",
}

// spoil makes keys lists, which none of ours is.
func spoil(ctx context.Context, s *Server, keys ...string) error {
	for _, key := range keys {
		pipe := s.Client.TxPipeline()
		pipe.Del(ctx, key)
		pipe.LPush(ctx, key, "nonsense")
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("spoiling %s: %w", key, err)
		}
	}
	return nil
}

// spoilable are the keys that there are and those that there may be; of answers two.
func spoilable(ctx context.Context, s *Server) ([]string, error) {
	keys, err := s.Client.Keys(ctx, "foregate:*").Result()
	keys = append(keys, knownKeys...)
	slices.Sort(keys)
	answers := 0
	return slices.DeleteFunc(slices.Compact(keys), func(key string) bool {
		if strings.HasPrefix(key, answerKeys) {
			answers++
		}
		return answers > 2 && strings.HasPrefix(key, answerKeys)
	}), err
}

func wrongTypes(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	keys, err := spoilable(ctx, s)
	if err != nil {
		return err
	}
	return w.Inject(ctx, 0, func() error {
		for _, key := range keys {
			if err := spoil(ctx, s, key); err != nil {
				return err
			}
			if err := w.Hold(ctx, w.Span(300*time.Millisecond, 800*time.Millisecond)); err != nil {
				return err
			}
			if err := s.Client.Del(ctx, key).Err(); err != nil {
				return err
			}
		}
		w.Note("%d keys", len(keys))
		if err := spoil(ctx, s, keys...); err != nil {
			return err
		}
		return w.Hold(ctx, w.outage())
	}, func() error { return s.Client.Del(ctx, keys...).Err() })
}

// acl changes the gateways' user.
func (w *Testbed) acl(ctx context.Context, rules ...any) error {
	args := append([]any{"acl", "setuser", redisUser}, rules...)
	if err := w.Redis.Servers[0].Client.Do(ctx, args...).Err(); err != nil {
		return fmt.Errorf("%v: %w", args, err)
	}
	return nil
}

// dropUsers closes the gateways' connections, as a fault in between would.
func (w *Testbed) dropUsers() {
	for _, d := range w.Redis.Proxies {
		d.Cut()
	}
}

// checkLogWords breaks the promise when no gateway's log holds one of the words.
func (w *Testbed) checkLogWords(words ...string) {
	for _, g := range w.Gateways {
		for _, word := range words {
			if g.Logged(word) {
				w.Note("logged %s", word)
				return
			}
		}
	}
	w.Fail("no gateway's log holds any of %v", words)
}

func rotated(ctx context.Context, w *Testbed) error {
	err := w.Inject(ctx, w.outage(), func() error {
		if err := w.acl(ctx, "resetpass", ">another"); err != nil {
			return err
		}
		w.dropUsers()
		return nil
	}, func() error { return w.acl(ctx, ">"+redisPassword) })
	w.checkLogWords("WRONGPASS", "NOAUTH")
	return err
}

func forbidden(ctx context.Context, w *Testbed) error {
	err := w.Inject(ctx, w.outage(), func() error { return w.acl(ctx, "-@all") }, func() error { return w.acl(ctx, "+@all") })
	w.checkLogWords("NOPERM")
	return err
}

// busy runs a script that does not end, until it is killed.
func busy(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	if err := s.Config(ctx, "busy-reply-threshold", "50"); err != nil {
		return err
	}
	another := admin(s.Addr)
	defer func() { _ = another.Close() }()
	ended := make(chan error, 1)
	return w.Inject(ctx, w.outage(), func() error {
		go func() { ended <- another.WithTimeout(time.Minute).Eval(ctx, "while true do end", nil).Err() }()
		return nil
	}, func() error {
		if err := s.Client.ScriptKill(ctx).Err(); err != nil {
			return fmt.Errorf("SCRIPT KILL: %w", err)
		}
		if err := <-ended; err == nil {
			return errors.New("the script ended by itself")
		}
		return nil
	})
}

// crowded lets nobody in who is not in already, and throws the gateways out.
func crowded(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	conn := s.Client.Conn()
	defer func() { _ = conn.Close() }() // back to the pool
	if err := conn.Ping(ctx).Err(); err != nil {
		return err
	}
	return w.Inject(ctx, w.outage(), func() error {
		if err := conn.ConfigSet(ctx, "maxclients", "1").Err(); err != nil {
			return err
		}
		w.dropUsers()
		return nil
	}, func() error { return conn.ConfigSet(ctx, "maxclients", "1000").Err() })
}

// demoted makes the server a replica of a master that there is not. stale says whether it answers reads.
func demoted(stale string) step {
	return func(ctx context.Context, w *Testbed) error {
		s := w.Redis.Servers[0]
		nobody, err := process.FreeAddrs(1)
		if err == nil {
			err = s.Config(ctx, "replica-serve-stale-data", stale)
		}
		if err != nil {
			return err
		}
		return outage(
			func(ctx context.Context, _ *Testbed) error {
				return s.Client.ReplicaOf(ctx, "127.0.0.1", process.Port(nobody[0])).Err()
			},
			func(ctx context.Context, _ *Testbed) error { return s.Client.ReplicaOf(ctx, "NO", "ONE").Err() })(ctx, w)
	}
}
