package app

import (
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/gateway"
)

// Status returns the state of the replica, without what the gateway adds.
func (a *App) Status() gateway.Status {
	s := gateway.Status{
		Version: a.Options.Version, Uptime: time.Since(a.began).Seconds(), Replicas: a.Fleet.Members(),
		Redis: gateway.RedisView{Name: a.Options.Stores.Name, Level: a.Fleet.Mode().String(), Since: time.Since(a.Fleet.Since()).Seconds()},
	}
	if at := a.Fleet.LostData(); at != nil {
		s.Redis.LostData = time.Since(*at).Seconds()
	}
	if err := a.Fleet.LastError(); err != nil {
		s.Redis.Why = err.Error()
	}
	s.Warnings = a.allWarnings()
	for _, f := range a.files.States() {
		s.Files = append(s.Files, gateway.FileView{
			Setting: f.Setting, Age: time.Since(f.Since).Seconds(), Changes: f.Changes, Error: f.Error, WorldReadable: f.WorldReadable,
		})
	}
	s.Engines, s.Drafts = a.engines(), a.drafting()
	s.Targets = a.targetViews()
	s.Fallbacks = a.fallbackViews()
	s.Breakers = []gateway.BreakerView{}
	for _, b := range a.Breakers.States() {
		if b.State != breaker.Closed {
			s.Breakers = append(s.Breakers, gateway.BreakerView{Pool: b.Pool, Backend: b.Backend, State: b.State.String(), SecondsLeft: b.Remaining.Seconds(), OpenHereOnly: b.Alone})
		}
	}
	s.Shedding = []gateway.SheddingView{}
	for pool, classes := range a.Shedding() {
		s.Shedding = append(s.Shedding, gateway.SheddingView{Pool: pool, Priorities: classes})
	}
	slices.SortFunc(s.Shedding, func(x, y gateway.SheddingView) int { return strings.Compare(x.Pool, y.Pool) })
	return s
}
