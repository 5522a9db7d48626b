package app

import (
	"github.com/foregate/foregate/gateway/console"
)

// makeConsole makes the pages of the admin listener. A replica without an admin listener or without metrics
// has none.
func (a *App) makeConsole() {
	if a.Options.Admin == "" || a.Options.Gatherer == nil {
		return
	}
	a.console = console.New(console.Options{Gatherer: a.Options.Gatherer, State: a.facts})
}

// facts is the state that the console shows in addition to metrics.
func (a *App) facts() console.ReplicaState {
	shed := a.Settings.Snapshot().Global().Admission
	return console.ReplicaState{
		Replicas:       a.Fleet.Replicas(),
		ShedThresholds: map[string]float64{"low": shed.Low, "normal": shed.Normal, "high": shed.High},
	}
}
