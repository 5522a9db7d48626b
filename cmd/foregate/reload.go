package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
)

type reloadCmd struct {
	DryRun bool   `help:"Only say what the configuration file would change."`
	Config string `short:"c" type:"path" help:"The replica's configuration file: where its admin listener is, and its tokens."`
	Admin  string `env:"FOREGATE_ADMIN" help:"The replica's admin listener; otherwise that of --config, or http://127.0.0.1:9090." placeholder:"URL"`
	tokenFlags
}

// Run has a replica read its files again, and prints what is new.
func (c *reloadCmd) Run(e *env) error {
	admin := c.Admin
	if admin == "" && c.Config != "" {
		f, err := config.Load(c.Config)
		if err != nil {
			return err
		}
		admin, c.file = f.Admin, f
	}
	at, err := adminURL(cmp.Or(admin, "127.0.0.1:9090"), "/admin/reload")
	if err != nil {
		return err
	}
	if c.DryRun {
		at.RawQuery = "dry_run=1"
	}
	body, err := askAdmin(e, http.MethodPost, at, c.tokenFlags)
	if err != nil {
		return err
	}
	var r gateway.ReloadResult
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	_, err = fmt.Fprint(e.stdout, reloadText(r))
	return err
}

// reloadText says what a reload has changed, or would change.
func reloadText(r gateway.ReloadResult) string {
	text := ""
	for _, change := range r.Changes {
		text += change + "\n"
	}
	switch {
	case len(r.Changes) == 0:
		text += "nothing changes\n"
	case r.DryRun:
		text += "a reload would put this into force\n"
	default:
		text += "in force\n"
	}
	for _, field := range r.Restart {
		text += field + ": differs, and needs a restart\n"
	}
	return text
}
