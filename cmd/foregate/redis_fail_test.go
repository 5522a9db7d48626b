package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
