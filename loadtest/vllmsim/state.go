package vllmsim

import (
	"maps"
	"net/http"
)

// State is what the server is doing and has done.
type State struct {
	Requests        map[string]int `json:"requests"` // by path
	Running         int            `json:"running"`
	Waiting         int            `json:"waiting"`
	KVBlocksUsed    int            `json:"kv_blocks_used"`
	KVBlocksTotal   int            `json:"kv_blocks_total"`
	Aborted         int            `json:"aborted"` // sequences that were ended by their client or with the engine
	Finished        int            `json:"finished"`
	GeneratedTokens int            `json:"generated_tokens"`
	Preemptions     int            `json:"preemptions"`
	PrefixQueries   int            `json:"prefix_queries"` // tokens
	PrefixHits      int            `json:"prefix_hits"`
	BusySeconds     float64        `json:"busy_seconds"` // spent in steps, in the profile's time
	LagSeconds      float64        `json:"lag_seconds"`  // how far this machine fell behind its time scale
}

// State returns the server's state now.
func (s *Server) State() State {
	s.mu.Lock()
	seen := maps.Clone(s.seen)
	s.mu.Unlock()
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.sched.Counts()
	return State{Requests: seen, Running: c.Running, Waiting: c.Waiting, KVBlocksUsed: c.BlocksUsed, KVBlocksTotal: c.BlocksTotal,
		Aborted: e.totals.aborted, Finished: e.totals.finished, GeneratedTokens: c.GeneratedTokens,
		Preemptions: c.Preemptions, PrefixQueries: c.PrefixQueries, PrefixHits: c.PrefixHits,
		BusySeconds: c.Busy.Seconds(), LagSeconds: e.real(e.lag).Seconds()}
}

func (s *Server) serveState(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.State())
}
