package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/internal/words"
)

type listCmd struct {
	redisFlags
	Route string `help:"The values of one route." placeholder:"NAME"`
	JSON  bool   `help:"As JSON."`
}

// Run lists the settings.
func (c *listCmd) Run(e *env) error {
	d, err := c.open(e.ctx)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.knownRoute(c.Route); err != nil {
		return err
	}
	snapshot, err := d.Read(d.ctx)
	if err != nil {
		return d.explain(err)
	}
	lines := settings.List(snapshot, c.Route)
	if err := d.AddAuthors(d.ctx, lines); err != nil {
		_, _ = fmt.Fprintln(e.stderr, "note: who changed what is not known:", err)
	}
	if c.JSON {
		return writeLines(e.stdout, lines)
	}
	t := display.Table{}
	t.Add("SETTING", "VALUE", "DEFAULT", "CHANGED", "ALLOWED")
	for _, l := range lines {
		if l.Problem == "" {
			t.Add(l.Name, l.Value, l.Default, changed(l), l.Allowed)
		}
	}
	t.Write(e.stdout)
	for _, l := range lines {
		if l.Problem != "" {
			_, _ = fmt.Fprintf(e.stdout, "%s %q: %s\n", l.Name, l.Value, l.Problem)
		}
	}
	return nil
}

// changed tells who changed a setting last, and when.
func changed(l settings.Line) string {
	switch {
	case !l.Set:
		return ""
	case l.When == nil:
		return "set"
	}
	return l.When.Format("01-02 15:04") + " " + l.Who
}

func writeLines(w io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		_, err = fmt.Fprintln(w, string(b))
	}
	return err
}

// knownRoute refuses a route that the configuration file does not have; "" is none.
func (s *settingsEditor) knownRoute(route string) error {
	if route == "" || s.routes == nil || slices.Contains(s.routes, route) {
		return nil
	}
	return fmt.Errorf("there is no route %s; there are: %s", words.Clip(route, 60), words.Clip(strings.Join(s.routes, ", "), 200))
}

type logCmd struct {
	redisFlags
	Name  string `arg:"" optional:"" help:"Only changes of this setting, NAME or NAME@ROUTE."`
	Limit int    `default:"20" help:"At most so many changes (${default})."`
	JSON  bool   `help:"As JSON."`
}

// Run prints the history.
func (c *logCmd) Run(e *env) error {
	d, err := c.open(e.ctx)
	if err != nil {
		return err
	}
	defer d.close()
	all := []settings.Entry{}
	err = d.History(d.ctx, func(entry settings.Entry) bool {
		if len(all) >= c.Limit {
			return false
		}
		if c.Name != "" {
			entry.Changes = slices.DeleteFunc(entry.Changes, func(ch settings.Change) bool { return ch.Name != c.Name })
		}
		if len(entry.Changes) > 0 || c.Name == "" {
			all = append(all, entry)
		}
		return true
	})
	if err != nil {
		return d.explain(err)
	}
	if c.JSON {
		return writeLines(e.stdout, all)
	}
	for _, t := range all {
		head := fmt.Sprintf("version %d  %s  %s", t.Version, t.When.Format("2006-01-02 15:04:05Z"), t.Who)
		if t.Why != "" {
			head += ": " + t.Why
		}
		display.Line(e.stdout, head)
		printChanges(e.stdout, t.Changes)
	}
	return nil
}

// printChanges tells what happened to fields.
func printChanges(w io.Writer, changes []settings.Change) {
	t := display.Table{Indent: 2}
	for _, c := range changes {
		t.Add(c.Name, valueOf(c.Name, c.Old), "→ "+valueOf(c.Name, c.New))
	}
	t.Write(w)
}

// valueOf is a field's value, or the default that holds without one.
func valueOf(name string, v *string) string {
	if v != nil {
		return *v
	}
	base, _, onRoute := strings.Cut(name, "@")
	if onRoute {
		return "not set"
	}
	for _, s := range settings.Specs() {
		if s.Name == base {
			return s.DefaultValue() + " (default)"
		}
	}
	return "not set"
}
