package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/internal/words"
)

// maxSettingsFile bounds a file of settings, in bytes.
const maxSettingsFile = 1 << 20

type applyCmd struct {
	assignFlags
	File string `short:"f" required:"" type:"path" help:"Lines NAME=VALUE or NAME@ROUTE=VALUE, as for set; # begins a comment." placeholder:"FILE"`
}

// Run makes the settings what a file says. Applied again, it changes nothing and writes no version.
func (c *applyCmd) Run(e *env) error {
	data, _, err := files.Read(c.File, maxSettingsFile)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	all, err := settingsOf(string(data))
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	return c.change(e, c.changeFlags, func(d *settingsEditor) (settings.Result, error) {
		c.askRoutes(e, d, all)
		return d.Replace(d.ctx, c.order(c.Force), all)
	})
}

// settingsOf reads lines NAME=VALUE. An empty file is refused: it would unset everything.
func settingsOf(text string) (map[string]string, error) {
	all := map[string]string{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#") // no value has one
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" {
			return nil, fmt.Errorf("line %d: %q: want NAME=VALUE", n, words.Clip(line, 60))
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("line %d: %s is given twice", n, words.Clip(name, 60))
		}
		all[name] = value
	}
	if len(all) == 0 {
		return nil, errors.New("has no setting, and would unset all of them; foregate settings rollback 0 does that")
	}
	return all, nil
}
