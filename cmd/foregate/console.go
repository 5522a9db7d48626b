package main

import (
	"github.com/foregate/foregate/gateway/console"
)

// makeConsole makes the pages of the admin listener. A replica without one, or without metrics of
// its own to show, has none.
func (r *replica) makeConsole() {
	if r.admin == "" || r.gatherer == nil {
		return
	}
	r.console = console.New(console.Options{Gatherer: r.gatherer, State: r.facts})
}

// facts are what the console shows and no metric tells.
func (r *replica) facts() console.ReplicaState {
	shed := r.settings.Snapshot().Global().Admission
	return console.ReplicaState{
		Replicas:       r.fleet.Known(),
		ShedThresholds: map[string]float64{"low": shed.Low, "normal": shed.Normal, "high": shed.High},
	}
}
