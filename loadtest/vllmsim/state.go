package vllmsim

import (
	"maps"
	"net/http"
)

// State is what the server is doing and has done. What it counts goes on through deaths; levels are those of now.
type State struct {
	Alive     bool           `json:"alive"` // the engine is, and connections are taken
	Deaths    int            `json:"deaths"`
	OOMDeaths int            `json:"oom_deaths"` // those of a full cache
	Requests  map[string]int `json:"requests"`   // by path
	EngineState
}

// EngineState is what the engine is doing and has done.
type EngineState struct {
	Running         int     `json:"running"`
	Waiting         int     `json:"waiting"`
	KVBlocksUsed    int     `json:"kv_blocks_used"`
	KVBlocksTotal   int     `json:"kv_blocks_total"`
	Aborted         int     `json:"aborted"` // sequences that were ended by their client or with the engine
	Finished        int     `json:"finished"`
	GeneratedTokens int     `json:"generated_tokens"`
	Preemptions     int     `json:"preemptions"`
	PrefixQueries   int     `json:"prefix_queries"` // tokens
	PrefixHits      int     `json:"prefix_hits"`
	Steps           int     `json:"steps"`
	BusySeconds     float64 `json:"busy_seconds"` // spent in steps, in the profile's time
	LagSeconds      float64 `json:"lag_seconds"`  // how far this machine fell behind its time scale
}

// State returns the server's state now.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.life()
	st := State{
		EngineState: l.engine.state(), Alive: !l.engine.dead() && !s.away, Deaths: s.deaths, OOMDeaths: s.oomDeaths, Requests: maps.Clone(s.seen),
	}
	st.add(&s.past)
	return st
}

// bury keeps what a life that ends has counted; s.mu is held.
func (s *Server) bury(l *life) {
	st := l.engine.state()
	s.past.add(&st)
}

// add adds what o counted.
func (st *EngineState) add(o *EngineState) {
	st.Aborted += o.Aborted
	st.Finished += o.Finished
	st.GeneratedTokens += o.GeneratedTokens
	st.Preemptions += o.Preemptions
	st.PrefixQueries += o.PrefixQueries
	st.PrefixHits += o.PrefixHits
	st.Steps += o.Steps
	st.BusySeconds += o.BusySeconds
	st.LagSeconds += o.LagSeconds
}

func (e *engine) state() EngineState {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.sched.Counts()
	return EngineState{Running: c.Running, Waiting: c.Waiting, KVBlocksUsed: c.BlocksUsed, KVBlocksTotal: c.BlocksTotal,
		Aborted: e.totals.aborted, Finished: e.totals.finished, GeneratedTokens: c.GeneratedTokens,
		Preemptions: c.Preemptions, PrefixQueries: c.PrefixQueries, PrefixHits: c.PrefixHits, Steps: c.Steps,
		BusySeconds: c.Busy.Seconds(), LagSeconds: e.real(e.lag).Seconds()}
}

func (s *Server) serveState(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.State())
}
