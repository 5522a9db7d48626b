package loadtest

import "time"

// eras are counts of before the draft drifted and after.
type eras [2]int

func (e *eras) add(drifted bool) {
	if drifted {
		e[1]++
		return
	}
	e[0]++
}

// both is the count of all of the time.
func (e *eras) both() int { return e[0] + e[1] }

// Promise is how a run kept to the largest disagreement that it was to serve, measured by
// free audits: pairs are of before the draft drifted and of after.
type Promise struct {
	Eps       float64
	Base      [2]float64    // share of wrong ones of all drafts
	AUROC     [2]float64    // chance that a good draft has a higher score than a wrong one
	Above     [2]float64    // share of the time in which the threshold in force let through more than Eps
	Recovered time.Duration // from the first drift until it no longer did, for good; 0: it never did
	Best      [2]float64    // share of drafts that the loosest threshold accepts which lets through no more than Eps

	Bound        float64       // largest upper bound of the disagreement that was shown at the end, of kinds that are served
	Audits, Lost int           // booked; of them without an outcome
	Alarms       int           // of drift
	First, All   time.Duration // until a first kind of request had a certificate, and each of them; 0 is never

	USD       [2]float64 // of draft and target, by the prices of the tokens that they computed: with 64 sequences at once
	WideUSD   [2]float64 // the same with 128 at once
	AuditsUSD [2]float64 // of these, for audits: drafts in the background, and scores
}

// promised fills in the columns of a scenario in which somebody promises a disagreement.
func (r *Result) promised(row *Row, s *summary) {
	p := r.Promise
	if p == nil {
		return
	}
	served, wrong := s.Unverified, s.WrongUnverified
	rate := func(a, b int) float64 { return ratio(float64(a), float64(b)) }
	row.Served, row.UnverifiedDisagreement = rate(served.both(), s.Answered), rate(wrong.both(), served.both())
	row.DisagreementBefore, row.DisagreementAfter = rate(wrong[0], served[0]), rate(wrong[1], served[1])
	row.AboveBefore, row.AboveAfter, row.Recovered, row.Bound = p.Above[0], p.Above[1], p.Recovered.Seconds(), p.Bound
	row.Audits, row.AuditsLost, row.Alarms = p.Audits, p.Lost, p.Alarms
	row.FirstCertificate, row.AllCertificates = p.First.Seconds(), p.All.Seconds()
	row.AuditsOfTarget, row.AuditsOfDraft = ratio(p.AuditsUSD[1], p.USD[1]), ratio(p.AuditsUSD[0], p.USD[0])
	row.PricedPerMTok = ratio((p.USD[0]+p.USD[1])*1e6, float64(s.Delivered))
	row.BaseBefore, row.BaseAfter, row.AUROCBefore, row.AUROCAfter = p.Base[0], p.Base[1], p.AUROC[0], p.AUROC[1]
	row.BestBefore, row.BestAfter = p.Best[0], p.Best[1]
}
