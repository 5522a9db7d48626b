package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"
)

// probeWait is how long a demonstration waits until its engines are known; at real speed it takes 5 to 8 s.
const probeWait = 20 * time.Second

// awaitProbes waits until every replica knows its engines, within probeWait: before that nothing is drafted, and the first
// request of whoever tries the demonstration would show nothing.
func (d *demo) awaitProbes() {
	_, _ = fmt.Fprintln(d.env.stdout, "Starting; each replica asks its engines what they can do …")
	ctx, cancel := context.WithTimeout(d.env.ctx, probeWait)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for slices.ContainsFunc(d.probed, func(known func() bool) bool { return !known() }) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// listenRedis lets this machine's programs reach the embedded Redis; a Redis that is elsewhere is left alone.
func (d *demo) listenRedis() error {
	if d.store.embedded == nil {
		return nil
	}
	l, err := d.store.embedded.Listen(d.env.ctx, d.cmd.RedisListen, rand.Text())
	if err != nil {
		return fmt.Errorf("--redis-listen: %w", err)
	}
	d.redis = l
	d.running = append(d.running, l.Stop)
	return nil
}

// greetOperator prints commands that change how the demonstration runs, with the secrets of this run. A password in the
// environment is not in the list of processes; the token of the one curl line is.
func (d *demo) greetOperator() {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(d.env.stdout, format+"\n", args...) } // whoever reads may be gone
	say("Operate it; passwords and tokens are new in each run:\n")
	redis := "redis-cli" // with what reaches --redis, which may hold a password
	if d.redis != nil {
		at := d.redis.Addr()
		redis = fmt.Sprintf("redis-cli -h %s -p %d", at.IP, at.Port)
		say("  export REDISCLI_AUTH=%s FOREGATE_REDIS=redis://:%s@%s/0", d.redis.Password, d.redis.Password, at)
	}
	say("  %s HSET foregate:settings speculation.mode@%s off    # in force within a second; HDEL takes it back", redis, demoRoute)
	say("  bin/foregate settings set --because 'a try' shed.low=0.7    # the same, checked first and with a history")
	say("  curl -X POST -H 'Authorization: Bearer %s' 'http://%s/admin/drain?backend=%s&for=1m'", d.token, d.admin, d.drainable)
	say("  bin/foregate status --admin http://%s", d.admin)
	say("\nCtrl-C stops everything.\n")
}
