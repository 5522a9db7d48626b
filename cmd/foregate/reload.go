package main

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/foregate/foregate/gateway"
)

type reloadCmd struct {
	DryRun bool `help:"Only say what the configuration file would change."`
	replicaFlags
}

// Run has a replica read its files again, and prints what is new.
func (c *reloadCmd) Run(e *env) error {
	if err := c.load(); err != nil {
		return err
	}
	query := url.Values{}
	if c.DryRun {
		query.Set("dry_run", "1")
	}
	var r gateway.ReloadResult
	if _, err := c.ask(e, http.MethodPost, "/admin/reload", query, &r); err != nil {
		return err
	}
	_, err := fmt.Fprint(e.stdout, reloadText(r))
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
