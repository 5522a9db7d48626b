package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/display"
)

type statusCmd struct {
	Admin string `default:"http://127.0.0.1:9090" env:"FOREGATE_ADMIN" help:"The replica's admin listener (${default})." placeholder:"URL"`
	JSON  bool   `help:"As JSON, as the replica tells it."`
	Watch watch  `help:"Again every 2 seconds, or as many as are given (--watch 5), until Ctrl-C; with --json a line each time."`
	tokenFlags
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
	body, err := askAdmin(e, http.MethodGet, at, c.tokenFlags)
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
	display.Status(e.stdout, s)
	return nil
}
