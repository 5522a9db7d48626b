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

// totals are the lines of a table of cases with totals.
func totals(cases []measured) []section {
	line := func(name string, u unit, of func(m measured) float64) metric {
		return metric{name, u, of, nil}
	}
	list := presentMetrics(cases,
		line("Normal: shed or failed", counted, func(m measured) float64 { return float64(m.NormalLost) }),
		line("Low: shed or failed", counted, func(m measured) float64 { return float64(m.LowLost) }),
		line("Disagreement of all", percent, func(m measured) float64 { return m.DisagreementOfAll }),
		line("Rent per hour", dollars, func(m measured) float64 { return m.Rent }),
		line("Rent per million tokens", dollars, func(m measured) float64 { return m.RentPerMTok }),
		line("By token prices at 128", dollars, func(m measured) float64 { return m.WidePricedPerMTok }),
		line("GPUs busy", percent, func(m measured) float64 { return m.Utilisation }),
		line("Draft GPUs busy", percent, func(m measured) float64 { return m.DraftUtilisation }),
		line("Target GPUs busy", percent, func(m measured) float64 { return m.TargetUtilisation }),
	)
	if len(list) == 0 {
		return nil
	}
	return []section{{"All answers, all of the rent", list}}
}
