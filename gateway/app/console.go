package app

import (
	"github.com/foregate/foregate/gateway/console"
)

// makeConsole makes the pages of the admin listener. A replica without one, or without metrics of
// its own to show, has none.
func (a *App) makeConsole() {
	if a.Options.Admin == "" || a.Options.Gatherer == nil {
		return
	}
	a.console = console.New(console.Options{Gatherer: a.Options.Gatherer, State: a.facts})
}

// facts are what the console shows and no metric tells.
func (a *App) facts() console.ReplicaState {
	shed := a.Settings.Snapshot().Global().Admission
	return console.ReplicaState{
		Replicas:       a.Fleet.Known(),
		ShedThresholds: map[string]float64{"low": shed.Low, "normal": shed.Normal, "high": shed.High},
	}
}
