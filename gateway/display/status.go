package display

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/internal/words"
)

// Status prints a status.
func Status(w io.Writer, s gateway.Status) {
	var head Table
	ready := "ready"
	if s.Ready != "yes" {
		ready = "NOT READY: " + s.Ready
	}
	head.Add("foregate", s.Version)
	head.Add("up", Duration(s.Uptime)+", "+ready)
	for _, r := range s.Routes {
		if r.State != gateway.RouteOK {
			head.Add("", "route "+r.Route+": "+r.State)
		}
	}
	head.Add("in flight", fmt.Sprint(s.InFlight))
	head.Add("redis", redisText(s.Redis))
	if s.Redis.Why != "" {
		head.Add("", s.Redis.Why)
	}
	if c := s.Cache; c != nil {
		head.Add("cache", fmt.Sprintf("hit ratio %.0f %% of %d requests, %d tokens and %s saved", 100*c.HitRatio, c.Requests, c.SavedTokens, Dollars(c.SavedUSD)))
	}
	head.Add("replicas", fmt.Sprintf("%d alive: %s", len(s.Replicas), strings.Join(s.Replicas, ", ")))
	shed := "none"
	if len(s.Settings.Switches) > 0 {
		shed = "by setting, see KILL SWITCH"
	}
	if len(s.Shedding) > 0 {
		var words []string
		for _, p := range s.Shedding {
			words = append(words, p.Pool+" ("+strings.Join(p.Priorities, ", ")+")")
		}
		shed = strings.Join(words, ", ")
	}
	head.Add("shedding", shed)
	head.Add("settings", "read "+Duration(s.Settings.Age)+" ago")
	head.Write(w)
	for _, warning := range s.Warnings {
		Line(w, "  WARNING: "+warning)
	}
	printSettings(w, s.Settings)
	printFiles(w, s.Files)
	printBreakers(w, s.Breakers)
	var routes Table
	addDrafts(&routes, s.Drafts)
	addEngines(&routes, s.Engines)
	addTargets(&routes, s.Targets)
	for _, f := range s.Fallbacks {
		text := fmt.Sprintf("pool %s when %s; %s of %s spent this hour", f.Pool, strings.Join(f.When, " or "), Dollars(f.Spent.Used+f.Spent.Reserved), Dollars(f.Spent.Limit))
		if !f.Spent.Shared {
			text += ", as this replica knew it last"
		}
		routes.Add("fallback "+f.Route, text)
	}
	routes.Write(w)
	printPools(w, s.Pools)
}

// addTargets adds the routes with several targets.
func addTargets(t *Table, all []gateway.TargetsView) {
	for _, v := range all {
		var shares []string
		for _, target := range v.Targets {
			shares = append(shares, fmt.Sprintf("%s %.3g %%", target.Pool, 100*target.Share))
		}
		t.Add("targets "+v.Route, strings.Join(shares, ", "))
		for _, target := range v.Targets {
			if target.Diverted {
				t.Add("", "POOL "+target.Pool+" TAKES NO REQUESTS: "+v.Targets[0].Pool+" answers its conversations")
			}
			addUnavailable(t, target.UnavailableModes)
		}
	}
}

func addUnavailable(t *Table, modes []gateway.UnavailableView) {
	for _, m := range modes {
		t.Add("", "mode "+m.Name+" unavailable: "+m.Reason)
	}
}

func redisText(r gateway.RedisView) string {
	if r.Name == "" {
		return r.Level + ", without Redis"
	}
	text := r.Level + " since " + Duration(r.Since) + ", " + r.Name
	if r.LostData > 0 {
		text += ", lost data " + Duration(r.LostData) + " ago"
	}
	return text
}

func printSettings(w io.Writer, v gateway.SettingsView) {
	for _, warning := range v.Switches {
		Line(w, "  KILL SWITCH: "+warning)
	}
	for _, l := range v.Lost {
		old := "its default"
		if l.Old != nil {
			old = *l.Old
		}
		Line(w, "  LOST IN REDIS: "+l.Name+", in force: "+old)
	}
	if len(v.Lost) > 0 {
		Line(w, "  they are not published again yet; if that lasts, set them: foregate settings set NAME=VALUE")
	}
	changed := Table{Indent: 2}
	for _, s := range v.Changed {
		changed.Add(s.Name, s.Value, "default "+s.Default)
	}
	changed.Write(w)
	for _, part := range []struct {
		what string
		all  []settings.RejectedValue
	}{{"REJECTED", v.Rejected}, {"UNKNOWN", v.Unknown}} {
		for _, r := range part.all {
			Line(w, fmt.Sprintf("  %s %s %q: %s", part.what, r.Name, words.Printable(r.Value), r.Reason))
		}
	}
}

// printFiles prints the state of reloaded files.
func printFiles(w io.Writer, all []files.State) {
	if len(all) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "files")
	for _, f := range all {
		text := "in force for " + Duration(f.Age)
		if f.Changes > 0 {
			text += fmt.Sprintf(", changed %d times since the start", f.Changes)
		}
		if f.WorldReadable {
			text += "; EVERY USER OF THIS MACHINE CAN READ IT"
		}
		Line(w, "  "+f.Setting+": "+text)
		if f.Error == "" {
			continue
		}
		why, more, _ := strings.Cut(f.Error, "\n")
		Line(w, "  NEW CONTENT NOT APPLIED: "+strings.Replace(why, f.Setting+":", "line ", 1))
		if more != "" {
			Line(w, fmt.Sprintf("  and %d more; --json shows all", 1+strings.Count(more, "\n")))
		}
	}
}

func printBreakers(w io.Writer, all []gateway.BreakerView) {
	if len(all) == 0 {
		_, _ = fmt.Fprintln(w, "breakers   all closed")
		return
	}
	_, _ = fmt.Fprintln(w, "breakers")
	t := Table{Indent: 2}
	for _, b := range all {
		text := b.State + ", " + Duration(b.SecondsLeft) + " left"
		if b.OpenHereOnly {
			text += ", on this replica only"
		}
		t.Add(b.Pool+"/"+b.Backend, text)
	}
	t.Write(w)
}

func addDrafts(t *Table, drafts []gateway.DraftView) {
	for _, d := range drafts {
		text := fmt.Sprintf("%s; %.0f %% of %.0f recent drafts served", d.Mode, 100*d.Accepted, d.Drafts)
		if d.BreakEven > 0 {
			text += fmt.Sprintf("; break-even at %.0f %% for a typical request", 100*d.BreakEven)
		}
		if d.TokenPriceRatio >= 1 {
			text += fmt.Sprintf("; a draft token costs %.2g target tokens, so drafts cannot save cost", d.TokenPriceRatio)
		}
		if d.BreakEven > 1 {
			text = d.Mode + "; drafts of typical requests cost more than they save"
		}
		t.Add("drafts "+d.Route, text)
		addUnavailable(t, d.UnavailableModes)
	}
}

func addEngines(t *Table, engines []gateway.EngineView) {
	for _, e := range engines {
		text := "not probed yet"
		if e.Age >= 0 {
			text = "probed " + Duration(e.Age) + " ago: " + can(e)
		}
		t.Add("engines "+e.Pool, text)
		for _, m := range e.Missing {
			t.Add("", "missing "+m.Name+": "+m.Reason)
		}
		if len(e.Open) > 0 {
			t.Add("", "not answered yet: "+strings.Join(e.Open, ", ")+"; "+nextQuestion(e))
		}
		if e.ScoringClosed != "" {
			t.Add("", "SCORING PAUSED for "+Duration(e.SecondsLeft)+": "+e.ScoringClosed)
		}
	}
}

// nextQuestion says when an engine is asked what is not known of it, and why it is not known.
func nextQuestion(e gateway.EngineView) string {
	switch {
	case e.Shared:
		return "another replica asks"
	case e.Failed != "":
		return "next try in " + Duration(e.NextTry) + "; the last failed: " + e.Failed
	}
	return "next try in " + Duration(e.NextTry)
}

// can lists an engine's capabilities in a few words.
func can(e gateway.EngineView) string {
	var words []string
	if e.Scoring != "" {
		words = append(words, "scores ("+e.Scoring+")")
	}
	switch {
	case e.Continues:
		words = append(words, "continues")
	case e.ContinuesText == "no":
		words = append(words, "continues nothing")
	case e.ContinuesText != "":
		words = append(words, e.ContinuesText+" texts")
	}
	return strings.Join(words, ", ")
}

func printPools(w io.Writer, pools []gateway.PoolView) {
	var t Table
	for _, p := range pools {
		t.Add("pool "+p.Pool, "engine", "state", "KV", "in flight", "reading", "reason")
		for _, b := range p.Backends {
			usage, age := "?", "never"
			switch {
			case b.KVUsage == nil && b.Age != nil:
				usage = "not told"
			case b.KVUsage != nil:
				usage = fmt.Sprintf("%.0f %%", 100**b.KVUsage)
			}
			if b.Age != nil {
				age = Duration(*b.Age) + " ago"
			}
			t.Add("  "+b.ID, string(cmp.Or(b.Engine, "?")), string(b.State), usage, fmt.Sprint(b.InFlight), age, b.Why)
		}
	}
	t.Write(w)
}
