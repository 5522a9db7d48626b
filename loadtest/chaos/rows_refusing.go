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

// refusingRows are faults of a Redis that answers, but not what was asked for.
func refusingRows() []Row {
	const promise = "0 failed; + ≤ 15 ms; shared again ≤ 2 s"
	return []Row{
		{ID: "R6", Fault: "Redis full: OOM, noeviction", Promise: "0 failed; reads continue; shared again ≤ 2 s", Short: true, Recover: backAgain, Run: full},
		{ID: "R7", Fault: "FLUSHALL every second", Promise: promise, Short: true, Recover: backAgain, Run: flushed},
		{ID: "R8", Fault: "a wrong type at each kind of key, one after the other", Promise: promise, Recover: backAgain, Run: wrongTypes, MaxLogLines: 4 * usualQuiet},
		{ID: "R11", Fault: "password rotated; then NOPERM: the user has no permissions", Promise: promise + "; the log names the cause", Recover: backAgain, Run: inTurn(rotated, forbidden)},
		{
			ID: "R12", Fault: "READONLY: a replica in place of the master; NOSCRIPT: SCRIPT FLUSH five times a second; BUSY: a script that does not end; max clients reached",
			Promise: promise + ", after each", Recover: backAgain, Run: inTurn(demoted, unscripted, busy, crowded),
		},
	}
}

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
			if o.cached() != wordHit {
				w.Fail("gateway %d: what Redis keeps is not read: X-Cache says %q", g.Number, o.cached())
			}
		}
		return s.Config(ctx, "maxmemory", "0")
	})
}

// inTurn makes one fault after the other.
func inTurn(faults ...func(context.Context, *Testbed) error) func(context.Context, *Testbed) error {
	return func(ctx context.Context, w *Testbed) error {
		for _, fault := range faults {
			if err := fault(ctx, w); err != nil {
				return err
			}
		}
		return nil
	}
}

// again does something at the server every so often, for as long as an outage lasts.
func (w *Testbed) again(ctx context.Context, every time.Duration, what func(context.Context, *Server) error) error {
	for end := time.Now().Add(w.outage()); time.Now().Before(end); {
		if err := what(ctx, w.Redis.Servers[0]); err != nil {
			return err
		}
		if err := w.Hold(ctx, every); err != nil {
			return err
		}
	}
	return nil
}

// controlKeys are the keys that there are, settings and all.
func controlKeys(ctx context.Context, s *Server) ([]string, error) {
	return s.Client.Keys(ctx, "foregate:*").Result()
}

// unscripted has Redis forget all scripts again and again.
func unscripted(ctx context.Context, w *Testbed) error {
	return w.Inject(ctx, 0, func() error {
		return w.again(ctx, 200*time.Millisecond, func(ctx context.Context, s *Server) error { return s.Client.ScriptFlush(ctx).Err() })
	}, func() error { return nil })
}

func flushed(ctx context.Context, w *Testbed) error {
	return w.Inject(ctx, 0, func() error {
		return w.again(ctx, time.Second, func(ctx context.Context, s *Server) error { return s.Client.FlushAll(ctx).Err() })
	}, func() error { return nil })
}

// knownKeys are keys that there may not be while nothing is wrong.
var knownKeys = []string{
	settingsKey, "foregate:{fg}:replicas", "foregate:{fg}:drain", "foregate:{fg}:pressure:draft", "foregate:{fg}:pressure:target",
	"foregate:{fg}:placed:draft", "foregate:{fg}:placed:target", "foregate:{fg}:limit:acme", "foregate:{fg}:limit:globex",
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

// allKeys are those that there are and those that there may be.
func allKeys(ctx context.Context, s *Server) ([]string, error) {
	keys, err := controlKeys(ctx, s)
	return append(keys, knownKeys...), err
}

// fewAnswers leaves two answers among the keys, of as many as there are.
func fewAnswers(keys []string) []string {
	n := 0
	return slices.DeleteFunc(keys, func(key string) bool {
		if strings.HasPrefix(key, answerKeys) {
			n++
		}
		return n > 2 && strings.HasPrefix(key, answerKeys)
	})
}

func wrongTypes(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	keys, err := allKeys(ctx, s)
	if err != nil {
		return err
	}
	keys = fewAnswers(keys)
	done := map[string]bool{}
	return w.Inject(ctx, 0, func() error {
		for _, key := range keys {
			if done[key] {
				continue
			}
			done[key] = true
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
		w.Note("%d keys", len(done))
		return nil
	}, func() error { return nil })
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

// demoted makes the server a replica of a master that there is not.
func demoted(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	nobody, err := process.FreeAddrs(1)
	if err != nil {
		return err
	}
	return w.Inject(ctx, w.outage(), func() error {
		return s.Client.ReplicaOf(ctx, "127.0.0.1", process.Port(nobody[0])).Err()
	}, func() error { return s.Client.ReplicaOf(ctx, "NO", "ONE").Err() })
}
