package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/app/apptest"
)

// failover is how long it may take until commands are answered again, with Sentinels that
// find a master gone after a second; converged how long after that everything is shared.
const (
	failover  = 5 * time.Second
	converged = 2 * time.Second
)

func TestAFailoverOfSentinelsIsOverInSevenSecondsWithOneLinePerRung(t *testing.T) {
	for what, end := range map[string]func(*redisNode, *testing.T){
		"killed": func(n *redisNode, _ *testing.T) { n.kill() },
		"frozen": (*redisNode).freeze,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSentinels(t)
			p := newPair(t, fmt.Sprintf(`url: "redis+sentinel://%s/fg", sentinel_password_file: %s`, strings.Join(s.addrs, ","), secretFile(t, "watch")))
			apptest.Eventually(t, "they share", p.shared)
			before := p.lines(`"mode":`)
			began, widest := time.Now(), gaps(t, func() {})
			end(s.master, t)
			apptest.Eventually(t, "they notice", func() bool { return !p.mode("shared") })
			apptest.Within(t, 15*time.Second, "they share again", p.shared)
			took := time.Since(began)
			p.obeys(t, s.replica.raw, 450*time.Millisecond)
			gap := widest()
			t.Logf("shared again after %v (widest gap %v)", took.Round(10*time.Millisecond), gap)
			if gap >= lostTick {
				return
			}
			if took > failover+converged+busyMachine {
				t.Errorf("shared again after %v", took)
			}
			if n := p.lines(`"mode":`) - before; n > 3 {
				t.Errorf("%d lines for degraded, local, shared:\n%s", n, p.logs[0].String())
			}
		})
	}
}

func TestARedisThatReturnsEmptyIsFilledAgain(t *testing.T) {
	t.Parallel()
	n := node(t, nil)
	p := newPair(t, "url: redis://"+n.addr)
	apptest.Eventually(t, "they share", p.shared)
	p.obeys(t, n.raw, 450*time.Millisecond)
	n.kill()
	apptest.Eventually(t, "they are alone", func() bool { return p.mode("local") })
	if known := p.replicas[0].Fleet.Replicas(); known != 2 {
		t.Errorf("alone, a replica knows of %d", known)
	}
	n.start(t)
	apptest.Eventually(t, "they share again", p.shared)
	p.obeys(t, n.raw, 350*time.Millisecond)
}

func TestAFrozenNodeOfAClusterLeavesTheOthersKeysAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("a long test: make test-long")
	}
	t.Parallel()
	c := newCluster(t)
	p := newPair(t, `url: "`+c.url()+`"`)
	apptest.Eventually(t, "they share", p.shared)
	_, ours, others := c.of(t, "foregate:{fg}:replicas")
	theirs := ""
	for i := 0; theirs == ""; i++ {
		if i == 10_000 {
			t.Fatal("no key belongs to the other node")
		}
		if _, has, _ := c.of(t, fmt.Sprint("foregate:cache:", i)); has.server == others[0].server {
			theirs = fmt.Sprint("foregate:cache:", i)
		}
	}
	before, widest := p.lines(`"mode":`), gaps(t, func() { _ = ours.raw.Ping(context.Background()).Err() })
	others[0].freeze(t)
	ours.do(t, "SCRIPT", "FLUSH") // it cannot be told to the frozen one
	during(3*time.Second, func() {})
	n, shared, gap := p.lines(`"mode":`)-before, p.shared(), widest()
	t.Logf("another node is frozen: %d changes of level, widest gap %v", n, gap)
	if (n != 0 || !shared) && gap < lostTick {
		t.Errorf("another node is frozen: %d changes of level:\n%s", n, p.logs[0].String())
	}
	apptest.Eventually(t, "they share beside a frozen node", p.shared)
	others[0].thaw(t)
	ours.freeze(t)
	apptest.Eventually(t, "they are alone", func() bool { return p.mode("local") })
	slow := 0
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		if err := p.request.Get(ctx, theirs).Err(); !errors.Is(err, redis.Nil) || time.Since(began) > 100*time.Millisecond+busyMachine {
			slow++
		}
		cancel()
	}
	if slow > 5 {
		t.Errorf("%d of 50 lookups at a node that is well failed", slow)
	}
	ours.thaw(t)
	apptest.Eventually(t, "they share again", p.shared)
}

func TestASlotThatMovesHealsByItself(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := newPair(t, `url: "`+c.url()+`"`)
	apptest.Eventually(t, "they share", p.shared)
	slot, from, others := c.of(t, "foregate:{fg}:replicas")
	to := others[0]
	source, target := from.do(t, "CLUSTER", "MYID"), to.do(t, "CLUSTER", "MYID")
	to.do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	from.do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	host, port, _ := net.SplitHostPort(to.addr)
	for {
		keys, _ := from.do(t, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		for _, key := range keys {
			from.do(t, "MIGRATE", host, port, key, 0, 5000, "REPLACE")
		}
	}
	apptest.Eventually(t, "they share half way, when every key is asked for elsewhere", p.shared)
	to.do(t, "CLUSTER", "SETSLOT", slot, "NODE", target)
	from.do(t, "CLUSTER", "SETSLOT", slot, "NODE", target)
	apptest.Eventually(t, "they share", p.shared)
	if n := fmt.Sprint(to.do(t, "ZCARD", "foregate:{fg}:replicas")); n != "2" {
		t.Errorf("the slot's owner knows %s replicas", n)
	}
	reloaded := time.Now()
	apptest.Eventually(t, "they stay", func() bool { return time.Since(reloaded) > time.Second && p.shared() })
}
