package risk

import (
	"errors"
	"slices"
)

// Check returns an error if no sequence of calls leads to the state: it was stored, and is not what was written.
func (s *State) Check() error {
	certified := 0
	for i := range s.Epochs {
		e := &s.Epochs[i]
		certified = max(certified, e.Cert)
		if e.ID < 1 || e.ID > s.EpochCount || e.Turn < 1 || e.Audits < 0 || i > 0 && s.Epochs[i-1].ID >= e.ID {
			return errors.New("risk: an epoch that cannot be")
		}
		for j := range e.N {
			if e.O[j] < 0 || e.O[j] > e.K[j] || e.K[j] > e.N[j] {
				return errors.New("risk: counts of audits that cannot be")
			}
		}
	}
	w := &s.Warmup
	switch {
	case s.Version < 0 || (s.Version > 0) != (len(s.Grid) > 0) || len(s.Grid) > gridSize || !s.Grid.IsValid():
		return errors.New("risk: thresholds that are no grid")
	case len(s.Scores) >= GridScores || s.Version > 0 && len(s.Scores) > 0 || s.Version == 0 && len(s.Epochs) > 0 || len(s.Epochs) > 2:
		return errors.New("risk: scores or epochs that do not go with the grid")
	case s.Alarm < 0 || s.Cold < 0 || s.Outcomes < 0 || s.Op < 0 || s.Op > certified || certified > len(s.Grid):
		return errors.New("risk: a certificate that no audits have made")
	case w.Open < 0 || w.Open > w.Bad || w.Bad > w.Audits || w.Ended > WarmupDisagreement:
		return errors.New("risk: a warm-up that cannot be")
	}
	return s.checkTickets()
}

// checkTickets returns an error if more audits are open than the epochs count as open.
func (s *State) checkTickets() error {
	warmups, open := 0, map[int64]*[gridSize]int{}
	for _, b := range s.Tickets {
		if b.Hi > len(s.Grid) || b.Warmup && len(b.Epochs) > 0 || !b.Warmup && b.First < 1 {
			return errors.New("risk: an open audit that cannot be")
		}
		if b.Warmup {
			warmups++
		}
		for _, id := range b.Epochs {
			if open[id] == nil {
				open[id] = new([gridSize]int)
			}
			for j := b.First - 1; j < b.Hi; j++ {
				open[id][j]++
			}
		}
	}
	for i := range s.Epochs {
		openOf := open[s.Epochs[i].ID]
		if openOf == nil {
			continue
		}
		for j, n := range openOf {
			if n > s.Epochs[i].O[j] {
				return errors.New("risk: more open audits than there are")
			}
		}
	}
	if warmups > s.Warmup.Open {
		return errors.New("risk: more open audits of a warm-up than there are")
	}
	return nil
}

// Copy returns a copy that shares nothing with the state, without the open audits.
func (s *State) Copy() State {
	c := *s
	c.Grid, c.Scores, c.Epochs, c.Tickets = slices.Clone(s.Grid), slices.Clone(s.Scores), slices.Clone(s.Epochs), nil
	return c
}
