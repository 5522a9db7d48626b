package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway"
)

type statusCmd struct {
	Admin string `default:"http://127.0.0.1:9090" env:"FOREGATE_ADMIN" help:"The replica's admin listener (${default})." placeholder:"URL"`
	JSON  bool   `help:"As JSON, as the replica tells it."`
	Watch watch  `help:"Again every 2 seconds, or as many as are given (--watch 5), until Ctrl-C; with --json a line each time."`
	tokenFile
}

// Run asks a replica how it stands, and prints that. The exit status is 1 when the
// replica cannot be reached; who watches is told so, and goes on.
func (c *statusCmd) Run(e *env) error {
	at, err := adminURL(c.Admin, "/admin/status")
	if err != nil {
		return err
	}
	if c.Watch > 0 {
		return c.watch(e, at)
	}
	body, err := askAdmin(e, http.MethodGet, at, c.tokenFile)
	if err != nil {
		return err
	}
	if c.JSON {
		var out bytes.Buffer
		if err := json.Indent(&out, body, "", "  "); err != nil {
			return fmt.Errorf("%s: %w", at.Redacted(), err)
		}
		_, err := fmt.Fprintln(e.stdout, strings.TrimSpace(out.String()))
		return err
	}
	var s gateway.Status
	if err := json.Unmarshal(body, &s); err != nil {
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	printStatus(e.stdout, s)
	return nil
}

// printStatus writes a status for people.
func printStatus(w io.Writer, s gateway.Status) {
	head := table{most: 12}
	ready := "ready"
	if s.Ready != "yes" {
		ready = "NOT READY: " + s.Ready
	}
	head.add("foregate", s.Version)
	head.add("up", span(s.Uptime)+", "+ready)
	for _, r := range s.Routes {
		if r.State != gateway.RouteOK {
			head.add("", "route "+r.Route+": "+r.State)
		}
	}
	head.add("in flight", fmt.Sprint(s.InFlight))
	head.add("redis", redisText(s.Redis))
	if s.Redis.Why != "" {
		head.add("", s.Redis.Why)
	}
	if c := s.Cache; c != nil {
		head.add("cache", fmt.Sprintf("%.0f%% of %d requests served, %d tokens and %s saved", 100*c.HitRatio, c.Requests, c.SavedTokens, dollars(c.SavedUSD)))
	}
	head.add("replicas", fmt.Sprintf("%d that live: %s", len(s.Replicas), strings.Join(s.Replicas, ", ")))
	shed := "nothing"
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
	head.add("shedding", shed)
	head.add("settings", "read "+span(s.Settings.Age)+" ago")
	head.write(w)
	for _, warning := range s.Warnings {
		writeLine(w, 4, "  WARNING: "+warning)
	}
	printSettings(w, s.Settings)
	printFiles(w, s.Files)
	printBreakers(w, s.Breakers)
	printDrafts(w, s.Drafts, s.Engines)
	printPromises(w, s.Risk)
	printPools(w, s.Pools)
}

func redisText(r gateway.RedisView) string {
	if r.Name == "" {
		return r.Level + ", without Redis"
	}
	return r.Level + " since " + span(r.Since) + ", " + r.Name
}

func printSettings(w io.Writer, v gateway.SettingsView) {
	for _, warning := range v.Switches {
		writeLine(w, 4, "  KILL SWITCH: "+warning)
	}
	for _, l := range v.Lost {
		writeLine(w, 4, "  LOST BY REDIS: "+l.Name+", in force is "+valueOr(l.Old, "its default"))
	}
	if len(v.Lost) > 0 {
		writeLine(w, 4, "  foregate settings restore writes them again, accept gives them up")
	}
	changed := table{indent: 2}
	for _, s := range v.Changed {
		changed.add(s.Name, s.Value, "default "+s.Default)
	}
	changed.write(w)
	for _, part := range []struct {
		what string
		all  []gateway.RejectedSettingView
	}{{"REFUSED", v.Rejected}, {"UNKNOWN", v.Unknown}} {
		for _, r := range part.all {
			writeLine(w, 4, fmt.Sprintf("  %s %s %q: %s", part.what, r.Name, printable(r.Value), r.Reason))
		}
	}
}

// printFiles tells how the files stand that are read again when they change.
func printFiles(w io.Writer, files []gateway.FileView) {
	if len(files) == 0 {
		return
	}
	_, _ = fmt.Fprintln(w, "files")
	for _, f := range files {
		text := "in force for " + span(f.Age)
		if f.Changes > 0 {
			text += fmt.Sprintf(", changed %d times since the start", f.Changes)
		}
		if f.WorldReadable {
			text += "; EVERY USER OF THE MACHINE MAY READ IT"
		}
		writeLine(w, 4, "  "+f.Setting+": "+text)
		if f.Error == "" {
			continue
		}
		why, more, _ := strings.Cut(f.Error, "\n")
		writeLine(w, 4, "  NOT IN FORCE AS IT IS NOW: "+strings.Replace(why, f.Setting+":", "line ", 1))
		if more != "" {
			writeLine(w, 4, fmt.Sprintf("  and %d more; --json shows all", 1+strings.Count(more, "\n")))
		}
	}
}

// valueOr is a value, or what stands for one that is not set.
func valueOr(value *string, unset string) string {
	if value == nil {
		return unset
	}
	return *value
}

func printBreakers(w io.Writer, all []gateway.BreakerView) {
	if len(all) == 0 {
		_, _ = fmt.Fprintln(w, "breakers   all closed")
		return
	}
	_, _ = fmt.Fprintln(w, "breakers")
	t := table{indent: 2}
	for _, b := range all {
		text := b.State + ", " + span(b.SecondsLeft) + " left"
		if b.OpenHereOnly {
			text += ", here alone"
		}
		t.add(b.Pool+"/"+b.Backend, text)
	}
	t.write(w)
}

// printPromises tells how far what is promised of drafts is kept.
func printPromises(w io.Writer, promises []gateway.RiskSummary) {
	t := table{most: 36}
	for _, p := range promises {
		t.add("promise "+p.Route, promiseText(p))
		if p.Main != nil {
			t.add("  " + p.Main.Summary)
		}
	}
	t.write(w)
}

func printDrafts(w io.Writer, drafts []gateway.DraftView, engines []gateway.EngineView) {
	t := table{most: 36}
	for _, d := range drafts {
		text := fmt.Sprintf("%s; %.0f%% of %.0f recent drafts served", d.Mode, 100*d.Accepted, d.Drafts)
		if d.BreakEven > 0 {
			text += fmt.Sprintf("; from %.0f%% on they pay", 100*d.BreakEven)
		}
		if d.BreakEven > 1 {
			text = d.Mode + "; drafts of usual requests never pay"
		}
		t.add("drafts "+d.Route, text)
		if d.Note != "" {
			t.add("", d.Note)
		}
		for _, m := range d.UnavailableModes {
			t.add("", "not "+m.Name+": "+m.Reason)
		}
	}
	for _, e := range engines {
		text := "not probed yet"
		if e.Age >= 0 {
			text = "asked " + span(e.Age) + " ago: " + can(e)
		}
		t.add("engines "+e.Pool, text)
		for _, m := range e.Missing {
			t.add("", "no "+m.Name+": "+m.Reason)
		}
		if e.Failed != "" {
			t.add("", "the last probe brought not all: "+e.Failed)
		}
		if e.ScoringClosed != "" {
			t.add("", "NO SCORING for "+span(e.SecondsLeft)+": "+e.ScoringClosed)
		}
	}
	t.write(w)
}

// can is what engines can do, in a few words.
func can(e gateway.EngineView) string {
	var words []string
	if e.Scoring != "" {
		word := "scores (" + e.Scoring
		if e.PrefixReuse {
			word += ", from its cache"
		}
		words = append(words, word+fmt.Sprintf("), agrees with %.1f%% of its own words", 100*e.SelfAgreement))
	}
	if e.Continues {
		words = append(words, "continues")
	}
	return strings.Join(words, ", ")
}

func printPools(w io.Writer, pools []gateway.PoolView) {
	t := table{most: 36}
	for _, p := range pools {
		t.add("pool "+p.Pool, "state", "KV", "in flight", "read", "why")
		for _, b := range p.Backends {
			usage, age := "?", "never"
			if b.KVUsage != nil {
				usage = fmt.Sprintf("%.0f%%", 100**b.KVUsage)
			}
			if b.Age != nil {
				age = span(*b.Age) + " ago"
			}
			t.add("  "+b.ID, b.State, usage, fmt.Sprint(b.InFlight), age, b.Why)
		}
	}
	t.write(w)
}

// span is a time of so many seconds in one or two units.
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}
