package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/gateway/config"
)

// pair is two replicas in this process that share a Redis and a backend.
type pair struct {
	replicas [2]*app.App
	logs     [2]*apptest.Log
	request  redis.UniversalClient // the first one's, of the request's path
}

// pairToken is that of the one operator of a pair.
const pairToken = "the-token-of-ann-who-operates-a-pair"

// newPair starts two replicas; section is the configuration of redis.
func newPair(t *testing.T, section string) *pair {
	t.Helper()
	p := &pair{}
	backend := apptest.LoadedBackend(t, fleetModel, 0.5)
	for i := range p.replicas {
		file, err := config.Parse("pair", fmt.Appendf(nil, `
listen: 127.0.0.1:0
redis: {%s}
pools: {only: {model: %s, backends: [%q]}}
routes: [{model: m, target: only}]
drain: {delay: 0s, grace: 1s}
`, section, fleetModel, backend.URL))
		if err != nil {
			t.Fatal(err)
		}
		p.logs[i] = &apptest.Log{}
		r, store := assembled(t, file, func(of *app.Options) {
			of.Logger = zerolog.New(p.logs[i])
			of.Admin, of.Tokens = "127.0.0.1:0", []byte("ann operate "+pairToken)
		})
		started(t, r)
		p.replicas[i] = r
		if i == 0 {
			p.request = store.Lookups
		}
	}
	return p
}

// shared reports whether both know of each other, and both have a young reading of the
// backend, which one of them took.
func (p *pair) shared() bool {
	owners := 0
	for _, r := range p.replicas {
		b := r.Pool("only").Snapshot()[0]
		if r.Fleet.Mode().String() != "shared" || len(r.Fleet.Members()) != 2 || b.Age == nil || time.Since(b.Reading.At) > fresh {
			return false
		}
		if r.Fleet.Mine("only", b.ID) {
			owners++
		}
	}
	return owners == 1
}

// mode reports whether both are in a mode.
func (p *pair) mode(mode string) bool {
	return p.replicas[0].Fleet.Mode().String() == mode && p.replicas[1].Fleet.Mode().String() == mode
}

// obeys has hands write a setting and waits until it is in force on both.
func (p *pair) obeys(t *testing.T, hands redis.Cmdable, interval time.Duration) {
	t.Helper()
	if err := hands.HSet(t.Context(), "foregate:settings", "scrape.interval", interval.String()).Err(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	apptest.Eventually(t, "the setting is in force on both", func() bool {
		for _, r := range p.replicas {
			if r.Settings.Snapshot().Global().ScrapeInterval != interval {
				return false
			}
		}
		return true
	})
	t.Logf("the setting was in force after %v", time.Since(began).Round(time.Millisecond))
}

// lines counts the log lines of the first replica about its level.
func (p *pair) lines(what string) int { return strings.Count(p.logs[0].String(), what) }

const (
	fleetModel = "m"
	// fresh is how old a reading may be that counts as it is.
	fresh = 2 * time.Second
)
