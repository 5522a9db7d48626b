package display

import (
	"fmt"
	"io"

	"github.com/foregate/foregate/gateway"
)

// Applications prints where drafts agree: a table for each route, with a line for each application.
func Applications(w io.Writer, all []gateway.ApplicationView) {
	if len(all) == 0 {
		_, _ = fmt.Fprintln(w, "no audits of the last day: set speculation.mode of a route to risk or shadow and send requests to it") // the reader may be gone
		return
	}
	for _, own := range byRoute(all, func(a *gateway.ApplicationView) string { return a.Route }) {
		Line(w, own[0].Route+": where drafts agree, by the audits of the last day")
		t := Table{Indent: 2}
		t.Add("APPLICATION", "MODE", "STATE", "REQUESTS PER DAY", "AGREEMENT", "SERVED", "OF THESE DISAGREED", "PROVEN BELOW", "SAVED PER DAY", "POSSIBLE PER DAY", "AUDITS")
		for i := range own {
			a := &own[i]
			agreement, disagreed, bound := none, none, none
			if a.Audits > 0 {
				agreement = rangeText(a.Agreement, roundPercent)
			}
			if a.Disagreement != nil {
				disagreed = roundPercent(*a.Disagreement)
			}
			if a.Bound < 1 {
				bound = roundPercent(a.Bound)
			}
			t.Add(applicationName(a), modeText(a), stateText(a), Amount(a.Drafts), agreement, roundPercent(a.Served), disagreed, bound,
				worthText(a.SavedUSD, a.SavedTokens), worthText(a.USD, a.Tokens), fmt.Sprint(a.Audits))
		}
		t.Write(w)
	}
}

// applicationName is the name that operators gave it, with its own behind it.
func applicationName(a *gateway.ApplicationView) string {
	if a.Label == "" {
		return a.Name
	}
	return a.Label + " (" + a.Name + ")"
}

// modeText is the mode, marked if it is set for the application alone.
func modeText(a *gateway.ApplicationView) string {
	if a.OwnMode {
		return string(a.Mode) + " (own)"
	}
	return string(a.Mode)
}

// stateText is the phase, and what is still needed for a certificate.
func stateText(a *gateway.ApplicationView) string {
	text := string(a.Phase)
	if a.ToCertify != nil {
		text += fmt.Sprintf(", about %.0f audits to go", *a.ToCertify)
	}
	if a.Drifted != nil {
		text += ", drifted " + a.Drifted.UTC().Format("15:04 UTC")
	}
	return text
}

// worthText is an amount of dollars, or of tokens where prices are not known.
func worthText(usd, tokens *float64) string {
	if usd == nil && tokens != nil {
		return Amount(*tokens) + " tokens"
	}
	if usd == nil {
		return none
	}
	return SignedDollars(*usd)
}
