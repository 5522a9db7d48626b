package fleet

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

func TestARealRedisThatRefusesMakesLocalAndItsReturnSharedAgain(t *testing.T) {
	do := func(t *testing.T, c *redis.Client, args ...any) {
		t.Helper()
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	for name, c := range map[string]struct {
		spoil, mend func(t *testing.T, c *redis.Client)
		tells       string
	}{
		"a script that does not end": {
			func(t *testing.T, c *redis.Client) {
				do(t, c, "CONFIG", "SET", "lua-time-limit", "50")
				var busy sync.WaitGroup
				t.Cleanup(busy.Wait)
				busy.Go(func() {
					o := *c.Options()
					o.ReadTimeout, o.ContextTimeoutEnabled = 10*time.Second, false
					endless := redis.NewClient(&o)
					defer func() { _ = endless.Close() }()
					_ = endless.Eval(context.Background(), "while true do end", nil).Err() // it is killed
				})
			},
			func(t *testing.T, c *redis.Client) { do(t, c, "SCRIPT", "KILL") }, "BUSY",
		},
		"a replica without its master": {
			func(t *testing.T, c *redis.Client) {
				do(t, c, "CONFIG", "SET", "replica-serve-stale-data", "no")
				do(t, c, "REPLICAOF", "127.0.0.1", "1")
			},
			func(t *testing.T, c *redis.Client) { do(t, c, "REPLICAOF", "NO", "ONE") }, "MASTERDOWN",
		},
		"a password that was changed": {
			func(t *testing.T, c *redis.Client) {
				do(t, c, "ACL", "SETUSER", "default", "resetpass", ">another")
				do(t, c, "CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES")
			},
			func(t *testing.T, c *redis.Client) { do(t, c, "ACL", "SETUSER", "default", "nopass") }, "NOAUTH",
		},
		"a right that was taken": {
			func(t *testing.T, c *redis.Client) { do(t, c, "ACL", "SETUSER", "default", "-evalsha") },
			func(t *testing.T, c *redis.Client) { do(t, c, "ACL", "SETUSER", "default", "+evalsha") }, "NOPERM",
		},
		"no more clients": {
			func(t *testing.T, c *redis.Client) {
				do(t, c, "CONFIG", "SET", "maxclients", "1")
				do(t, c, "CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES")
			},
			func(t *testing.T, c *redis.Client) { do(t, c, "CONFIG", "SET", "maxclients", "100") }, `"error"`, // the server has often hung up before it is heard
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			o := redistest.Background(s.Addr)
			o.PoolSize, o.MinIdleConns = 1, 1
			hand := redis.NewClient(o)
			t.Cleanup(func() { _ = hand.Close() })
			do(t, hand, "PING")
			a := join(t, redistest.Background(s.Addr), "a").atFour()
			a.run(t)
			redistest.Within(t, 5*time.Second, "it shares", func() bool { return a.Mode() == Shared })
			before := a.log.count("\n")
			c.spoil(t, hand)
			redistest.Within(t, 5*time.Second, "it is alone", func() bool { return a.Mode() == Local && a.log.count("\n") > before+1 })
			redistest.Within(t, 5*time.Second, "somebody says "+c.tells, func() bool { return a.log.count(c.tells) > 0 })
			if n := a.log.count("\n") - before; n > 2 {
				t.Errorf("%d lines", n)
			}
			c.mend(t, hand)
			redistest.Within(t, 5*time.Second, "it shares again", func() bool { return a.Mode() == Shared })
		})
	}
}
