package risk

import (
	"fmt"
	"time"
)

// Key names a kind of request and a lot of it: what evidence is kept apart for.
type Key struct {
	Route        string
	TrafficClass string // which requests and by which models and rules: see tiers
	Cohort       string // by whose word drafts are accepted
}

// String is the key in one word.
func (k Key) String() string { return k.Route + "/" + k.TrafficClass + "/" + k.Cohort }

// Rule is what is promised, and how it is kept. All replicas should have the same.
type Rule struct {
	MaxWrongRate     float64 // largest share of served drafts that the target would have refused, 0 … 1
	ErrorProbability float64 // probability with which that may fail, 0 … 1
	LeaseAudits      int     // audits that an epoch lives for
	DriftRunLength   float64 // audits between false alarms of drift, on average, at least
}

// View is what a request needs to know of a [State].
type View struct {
	Version    int64 // of the grid; 0: there is none yet
	Alarm      int64 // of the evidence: another one after each alarm
	Op, Hi     int   // operating index, and the last that is audited
	Threshold  float64
	Floor      float64 // λ_Hi
	Band       float64 // lower edge of the doubtful band, frozen with the grid
	Warned     bool    // a drift is suspected
	Infeasible bool    // not even the strictest threshold keeps to ε

	Warmup   Warmup
	Cautious float64 // score that the best third of the drafts reach; above every score while that is not known

	Seen time.Time // when it was last known to be what it says; zero: never
	New  bool      // no request of its kind has come before this one, as far as the evidence tells
}

// Serves reports whether drafts may be served by a certificate.
func (v View) Serves() bool { return v.Op > 0 }

// IsKnown reports whether a score is one that a draft can have: Cautious is none while too few scores were seen.
func IsKnown(score float64) bool { return score < never }

// Decision is the stamp on one request: by which threshold it is judged, and whether its draft is
// audited.
type Decision struct {
	Key            Key
	Version, Alarm int64
	Op, Hi         int
	Threshold      float64 // scores from here on are accepted; above every score where none is
	Floor          float64 // scores from here on are in the region that is audited
	Audited        bool    // decided by chance before the draft was begun
}

// Decide decides whether a draft is audited: rate is the share that is, dice a number drawn evenly
// from 0 … 1. Neither may depend on the draft.
func (v View) Decide(k Key, rate, random float64) Decision {
	d := Decision{
		Key: k, Version: v.Version, Alarm: v.Alarm, Op: v.Op, Hi: v.Hi,
		Threshold: v.Threshold, Floor: v.Floor, Audited: random < rate,
	}
	if v.Op == 0 {
		d.Threshold = never
	}
	if v.Version == 0 {
		d.Floor = -never // all scores are wanted, to place the grid by
	}
	return d
}

// Policy is the stamp as headers and receipts show it.
func (d Decision) Policy() string { return fmt.Sprintf("g%d.a%d.op%d", d.Version, d.Alarm, d.Op) }

// Rates say how much is audited.
type Rates struct {
	Audit              float64 // share of drafts while some threshold is certified
	ColdStart          float64 // largest share of requests that are drafted in the shadow while none is
	ColdStartPerMinute float64 // audits a minute that are wanted then, of all replicas together
	Boost              float64 // how much more of it is audited while a drift is suspected, and in the first time of a kind while the target has capacity to spare
	Explore            float64 // share of requests that are drafted in the shadow where no threshold can be certified
}

// BoostedRate is the share of drafts that is audited where more is to be known soon.
func (r Rates) BoostedRate() float64 { return min(r.Audit*r.Boost, 1) }

// AuditRate is the share of requests whose drafts are audited, by a view and the requests a minute of
// this kind at all replicas.
func (r Rates) AuditRate(v View, perMinute float64) float64 {
	switch {
	case v.Infeasible && !v.Serves():
		return min(r.Explore, 1)
	case v.Serves() && v.Warned:
		return r.BoostedRate()
	case v.Serves():
		return min(r.Audit, 1)
	case v.Version == 0, perMinute <= 0:
		return r.ColdStart // while the grid is learned no target is asked
	}
	region := AcceptanceShare(max(v.Hi, 1))
	return min(r.ColdStart, r.ColdStartPerMinute/(perMinute*region))
}
