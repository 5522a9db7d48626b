package refit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Outcomes of a step, beside the actions that drop a candidate: labels of metrics.
const (
	outcomeFitted   = "fitted"   // there is a new candidate
	outcomeNoGain   = "no_gain"  // the fit is not clearly better
	outcomePromoted = "promoted" // the candidate is in force
	outcomeFailed   = "failed"   // an error; it is tried again
	outcomeForeign  = "foreign"  // the record is none; it begins anew
)

// says is the log line of each outcome, a closed set.
var says = map[string]string{
	outcomeFitted:         "refit: a score was fitted to the audits; it is a candidate until audits have certified it",
	outcomeNoGain:         "refit: a score was fitted to the audits; it is not clearly better than the one in force",
	outcomePromoted:       "refit: the candidate is certified, and judges drafts from now on; risk.refit=off puts the plain score back",
	outcomeFailed:         "refit: something went wrong; it is tried again",
	string(DropDrift):     "refit: the candidate is given up, because of a drift alarm",
	string(DropUncertain): "refit: the candidate is given up: half a lease of audits did not certify it for as many drafts as the score in force accepts",
	outcomeForeign:        "refit: what Redis holds is not what was written; it begins anew",
}

// newRefits returns the counter of refits.
func newRefits(reg prometheus.Registerer) *prometheus.CounterVec {
	return promauto.With(reg).NewCounterVec(prometheus.CounterOpts{
		Name: "foregate_risk_refits_total",
		Help: "Refits of scores, by what became of them: fitted, there is a new candidate; no_gain, the fit is not clearly better; promoted, the candidate is in force; drift, uncertain, the candidate was given up for a drift alarm, too little acceptance; failed, foreign, an error.",
	}, []string{"route", "outcome"})
}
