package loadtest

// totals fills in the columns of all answers and all of the rent.
func (r *Result) totals(row *Row, s *summary) {
	for _, g := range s.Priorities {
		switch g.Name {
		case "normal":
			row.NormalLost = g.Shed + g.Error
		case "low":
			row.LowLost = g.Shed + g.Error
		}
	}
	row.DisagreementOfAll = ratio(float64(s.WrongAnswers), float64(s.Checked))
	var draft, target float64 // GPU-seconds that were paid
	for _, u := range r.Pools {
		row.Rent = finite(row.Rent + u.USDPerHour*float64(u.Backends))
		paid := r.Window.Seconds() * float64(u.GPUs*u.Backends)
		if u.Tier == "draft" {
			draft += paid
		} else {
			target += paid
		}
	}
	if p := r.Promise; p != nil {
		row.WidePricedPerMTok = ratio((p.WideUSD[0]+p.WideUSD[1])*1e6, float64(s.Delivered))
	}
	row.RentPerMTok = ratio(row.Rent*r.Window.Hours()*1e6, float64(s.Delivered))
	row.Utilisation = ratio(row.GPUSeconds, draft+target)
	row.DraftUtilisation, row.TargetUtilisation = ratio(row.DraftGPUSeconds, draft), ratio(row.TargetGPUSeconds, target)
}
