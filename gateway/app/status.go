package app

import (
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/breaker"
	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/settings"
)

// inspector shows operators the state of a replica.
type inspector struct{ *App }

// Status returns the state of the replica.
func (a *App) Status() gateway.Status { return inspector{a}.Status() }

// Status returns the state of the replica.
func (i inspector) Status() gateway.Status {
	s := gateway.Status{
		Version: i.Options.Version, Uptime: time.Since(i.began).Seconds(), Replicas: i.Fleet.Members(),
		Redis: gateway.RedisView{Name: i.Options.Stores.Name, Level: i.Fleet.Mode().String(), Since: time.Since(i.Fleet.Since()).Seconds()},
	}
	if at := i.Fleet.LostData(); at != nil {
		s.Redis.LostData = time.Since(*at).Seconds()
	}
	if err := i.Fleet.LastError(); err != nil {
		s.Redis.Why = err.Error()
	}
	s.Settings, s.Warnings = i.view(), i.allWarnings()
	for _, f := range i.files.States() {
		s.Files = append(s.Files, gateway.FileView{
			Setting: f.Setting, Age: time.Since(f.Since).Seconds(), Changes: f.Changes, Error: f.Error, WorldReadable: f.WorldReadable,
		})
	}
	s.Engines, s.Drafts = i.engines(), i.drafting()
	s.Targets = i.targetViews()
	s.Fallbacks = i.fallbackViews()
	s.Breakers = []gateway.BreakerView{}
	for _, b := range i.Breakers.States() {
		if b.State != breaker.Closed {
			s.Breakers = append(s.Breakers, gateway.BreakerView{Pool: b.Pool, Backend: b.Backend, State: b.State.String(), SecondsLeft: b.Remaining.Seconds(), OpenHereOnly: b.Alone})
		}
	}
	s.Shedding = []gateway.SheddingView{}
	for pool, classes := range i.Shedding() {
		s.Shedding = append(s.Shedding, gateway.SheddingView{Pool: pool, Priorities: classes})
	}
	slices.SortFunc(s.Shedding, func(a, b gateway.SheddingView) int { return strings.Compare(a.Pool, b.Pool) })
	return s
}

// view summarizes the live settings.
func (i inspector) view() gateway.SettingsView {
	snapshot := i.App.Settings.Snapshot()
	v := gateway.SettingsView{
		Age: i.App.Settings.Age().Seconds(), Switches: snapshot.Warnings(),
		Lost: i.App.Settings.Lost(), Changed: []gateway.SettingView{}, Rejected: refusedViews(snapshot.Rejected()), Unknown: refusedViews(snapshot.Unknown()),
	}
	for _, s := range settings.Specs() {
		for _, route := range append([]string{""}, i.routes()...) {
			shown := viewOf(s, snapshot, route)
			if route == "" && shown.Value != shown.Default || route != "" && shown.Value != s.Value(snapshot.Global()) {
				v.Changed = append(v.Changed, shown)
			}
		}
	}
	return v
}

// Settings returns all settings in force.
func (i inspector) Settings(route string) []gateway.SettingView {
	snapshot := i.App.Settings.Snapshot()
	var out []gateway.SettingView
	for _, s := range settings.Specs() {
		v := viewOf(s, snapshot, route)
		v.Meaning, v.PerRoute = s.Doc, s.PerRoute
		out = append(out, v)
	}
	return out
}

// viewOf returns one setting in force for a route, or for all if route is "".
func viewOf(s settings.Spec, snapshot *settings.Snapshot, route string) gateway.SettingView {
	v := gateway.SettingView{Name: s.Name, Value: s.Value(snapshot.Route(route)), Default: s.DefaultValue(), Range: s.Range}
	if route != "" && s.PerRoute {
		v.Name += "@" + route
	}
	return v
}

func refusedViews(rejected []settings.RejectedValue) []gateway.RejectedSettingView {
	out := []gateway.RejectedSettingView{}
	for _, r := range rejected {
		out = append(out, gateway.RejectedSettingView(r))
	}
	return out
}
