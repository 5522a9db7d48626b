package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/foregate/foregate/loadtest/fleets"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// Text words an answer for people.
func (a *Answer) Text() string {
	var b strings.Builder
	b.WriteString(a.Summary.Text())
	fmt.Fprintf(&b, "Simulated: %s\n", a.Simulated)
	for _, reason := range a.LeftOut {
		fmt.Fprintf(&b, "Left out: %s\n", reason)
	}
	if a.Interrupted {
		b.WriteString("Interrupted: this is what is known.\n")
	}
	if a.Away > 0 {
		fmt.Fprintf(&b, "All figures but the rent are those with %d of the servers of each pool away.\n", a.Away)
	}
	fmt.Fprintf(&b, "\nFleets that hold the SLO, by rent; in brackets the range over the seeds:\n%s", table(a.Fleets))
	if len(a.Rivals) > 0 {
		fmt.Fprintf(&b, "\nThe first beside others:\n%s", table(a.Rivals))
	}
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.String()
}

// table lists fleets.
func table(all []Fleet) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "fleet\trent $/h\t$/M\tTTFT p50 s\tTTFT p99 s\tE2E p99 s\tlost\tdrafted\tdisagreement ≤\tspare\t") // a builder takes all
	for i := range all {
		f := &all[i]
		name := f.label()
		if f.Why != "" {
			name = f.Why + ": " + name
		}
		if f.Fails != "" {
			_, _ = fmt.Fprintf(w, "%s\t%.2f\tfails %s\t\t\t\t\t\t\t\t\n", name, f.Rent, f.Fails)
			continue
		}
		drafted, bound, spare := f.shares()
		_, _ = fmt.Fprintf(w, "%s\t%.2f\t%s\t%s\t%s\t%s\t%.0f\t%s\t%s\t%s\t\n", name, f.Rent, f.PerMTok.text(1, 2), f.TTFT50.text(1e3, 2),
			f.TTFT99.text(1e3, 2), f.E2E99.text(1e3, 1), f.Lost.High, drafted, bound, spare)
	}
	_ = w.Flush() // as above
	return b.String()
}

// shares words what is not of all fleets.
func (f *Fleet) shares() (drafted, bound, spare string) {
	drafted, bound, spare = "–", "–", "–"
	if f.Draft.Count > 0 {
		drafted, bound = fmt.Sprintf("%.0f %%", 100*f.Drafted.Mean), fmt.Sprintf("%.3f", f.Bound.High)
	}
	if f.Spare > 0 {
		spare = fmt.Sprintf("%.0f %%", 100*f.Spare)
	}
	return drafted, bound, spare
}

// text is a range, divided by a unit; of one run it is a number.
func (r Range) text(unit float64, digits int) string {
	if r.Low == r.High {
		return fmt.Sprintf("%.*f", digits, r.Mean/unit)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, r.Mean/unit, digits, r.Low/unit, digits, r.High/unit)
}

// Config is a configuration of the gateway for a fleet, with engines at names of their own.
func (m *Market) Config(f *Fleet, maxDisagreement float64) string {
	return fmt.Sprintf("# %s, %.2f dollars an hour, by foregate plan. Change model to the names that your engines serve, and backends\n# and redis to where they are.\n%s"+
		"listen: 127.0.0.1:8080\nadmin: 127.0.0.1:9090\nredis: {url: \"redis://localhost:6379/0\"}\n%s", f.Name, f.Rent, f.orders(maxDisagreement), m.pools(f, func(name string, count int) string {
		var urls []string
		for i := range count {
			urls = append(urls, fmt.Sprintf("\"http://%s-%d:8000\"", name, i))
		}
		return "backends: [" + strings.Join(urls, ", ") + "]"
	}))
}

// Values are values of the Helm chart for a fleet, with engines behind headless services.
func (m *Market) Values(f *Fleet, maxDisagreement float64) string {
	config := "redis: {url: \"redis://redis:6379/0\"}\n" + m.pools(f, func(name string, _ int) string { return "discover: dns://" + name + ":8000" }) +
		"tenants: [{id: default, keys_sha256: [\"" + strings.Repeat("0", 64) + "\"]}] # no key has this: put the SHA-256 of your clients' there\n"
	return fmt.Sprintf("# %s, by foregate plan: values of deploy/helm/foregate. Change model to the names that your engines serve,\n# discover to their headless services, networkPolicy to where Redis is, and keys_sha256.\n%sreplicaCount: %d\nnetworkPolicy: {redis: {to: [{podSelector: {matchLabels: {app: redis}}}]}}\nconfig:\n  %s\n",
		f.Name, f.orders(maxDisagreement), replicas, strings.ReplaceAll(strings.TrimSpace(config), "\n", "\n  "))
}

// orders are the live settings that differ from the defaults, as a comment.
func (f *Fleet) orders(maxDisagreement float64) string {
	if f.Draft.Count == 0 {
		return ""
	}
	all, s := []string{}, f.Settings(maxDisagreement)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		all = append(all, name+"="+s[name])
	}
	return "# Live settings, set once it runs: foregate settings set -c foregate.yaml --because plan " + strings.Join(all, " ") + "\n"
}

// pools are the pools and the route of a fleet.
func (m *Market) pools(f *Fleet, where func(name string, count int) string) string {
	pool := func(name, profile string, count int) string {
		p, _ := vllmsim.ProfileByName(profile) // of a market
		prefill, decode := p.Rates(vllmsim.UsualSequences)
		return fmt.Sprintf("  %s:\n    model: %s # %s, %s\n    usd_per_hour: %.3f\n    prefill_tokens_per_s: %.0f\n    decode_tokens_per_s: %.0f\n    %s\n",
			name, p.Model, p.Name, p.Precision, m.rent(fleets.Engines{Profile: profile, Count: 1}), prefill, decode, where(name, count))
	}
	text := "pools:\n" + pool("target", f.Target.Profile, f.Target.Count)
	route := "{model: llm, target: target}"
	if f.Draft.Count > 0 {
		text += pool("draft", f.Draft.Profile, f.Draft.Count)
		route = "{model: llm, draft: draft, target: target, same_tokenizer: true}"
	}
	return text + "routes:\n  - " + route + "\n"
}
