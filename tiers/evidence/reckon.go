package evidence

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// Imported is the result of an import.
type Imported struct {
	Taken      int       // audits that became evidence
	Bad        int       // of these, including lost ones
	Duplicates int       // already evidence of this key, now or earlier
	Outside    int       // without information about any threshold
	Older      int       // beyond the maximum of one lease
	Placed     bool      // the grid was chosen from them
	Op         int       // operating index afterwards
	Through    time.Time // the newest known audit: audits up to this time are never imported again
}

// Refused says which entry of a log does not belong to the import. Nothing was imported.
type Refused struct {
	Entry    int    // from 0
	Ticket   string // of the entry
	What     string // route, traffic class, map, or entry
	Has, Not string
}

func (e *Refused) Error() string {
	return fmt.Sprintf("evidence: entry %d (ticket %.64s): its %s is %.200q, not %.200q", e.Entry, e.Ticket, e.What, e.Has, e.Not)
}

// Why nothing was imported.
var (
	ErrNothingNew = errors.New("evidence: every audit of the log is known already")
	ErrFew        = fmt.Errorf("evidence: the log has less than the %d audits that a grid is placed by", risk.GridScores)
	ErrNoRoom     = errors.New("evidence: the gateway's own audits fill half a lease already")
	ErrOutside    = errors.New("evidence: no audit of the log says anything about a threshold of the grid")
	ErrMoved      = errors.New("evidence: the evidence changes faster than the log can be added to it")
)

// batchPart is a batch to import, with the store's own fields that it was computed for.
type batchPart struct {
	risk.Import
	was, newest int64 // µs
	calib       int
}

// fits checks that all entries belong to a key and to one fitted score.
func fits(k risk.Key, entries []LogEntry, calib string) error {
	for i := range entries {
		e := &entries[i]
		if calib == "" {
			calib = strconv.Itoa(e.Map)
		}
		for _, c := range [...]Refused{
			{What: "route", Has: e.Key.Route, Not: k.Route},
			{What: "traffic class", Has: e.Key.TrafficClass, Not: k.TrafficClass},
			{What: "map", Has: strconv.Itoa(e.Map), Not: calib},
		} {
			if c.Has != c.Not {
				c.Entry, c.Ticket = i, e.Ticket
				return &c
			}
		}
		if err := e.check(); err != nil {
			return &Refused{Entry: i, Ticket: e.Ticket, What: "entry", Has: err.Error(), Not: "an audit"}
		}
	}
	return nil
}

// reckon computes what a log would add.
func reckon(w fullState, entries []LogEntry, rule risk.Rule) (batchPart, Imported, error) {
	var im Imported
	inOrder := slices.Clone(entries)
	slices.SortStableFunc(inOrder, func(a, b LogEntry) int { return a.When.Compare(b.When) })
	p := batchPart{was: w.prior, newest: w.prior}
	var past []risk.PastAudit
	for _, e := range inOrder {
		at := e.When.UnixMicro()
		if at <= w.prior || w.Version != 0 && e.Version == w.Version || at > maxCount {
			im.Duplicates++
			continue
		}
		p.newest, p.calib = max(p.newest, at), e.Map
		past = append(past, risk.PastAudit{Score: e.Score, Floor: e.Floor, Bad: e.Label != labelGood})
	}
	p.Import = w.PlanImport(rule, past)
	im.Taken, im.Bad, im.Outside, im.Older = p.Audits, p.Bad, p.Outside, p.Older
	im.Placed = len(p.Grid) > 0
	if p.newest > 0 {
		im.Through = time.UnixMicro(p.newest)
	}
	switch {
	case p.Audits > 0:
		return p, im, nil
	case len(past) == 0:
		return p, im, ErrNothingNew
	case w.Version == 0 && len(p.Grid) == 0:
		return p, im, ErrFew
	case p.Older > 0:
		return p, im, ErrNoRoom
	}
	return p, im, ErrOutside
}
