package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/foregate/foregate/gateway/display"
	"github.com/foregate/foregate/gateway/usage"
)

type usageCmd struct {
	Admin string `default:"http://127.0.0.1:9090" env:"FOREGATE_ADMIN" help:"The admin listener of any replica (${default})." placeholder:"URL"`
	From  string `help:"The first UTC day, such as 2026-11-01; without it the first of the month." placeholder:"DAY"`
	To    string `help:"The last UTC day, included; without it today." placeholder:"DAY"`
	By    string `help:"One or more of tenant, route and day, in the order of the columns (tenant)." placeholder:"LIST"`
	CSV   bool   `name:"csv" xor:"form" help:"As CSV with all columns, for a spreadsheet."`
	JSON  bool   `xor:"form" help:"As JSON, as GET /admin/usage tells it."`
	tokenFlags
}

// Run asks a replica what tenants used, and prints that.
func (c *usageCmd) Run(e *env) error {
	at, err := adminURL(c.Admin, "/admin/usage")
	if err != nil {
		return err
	}
	q := url.Values{}
	for name, value := range map[string]string{"from": c.From, "to": c.To, "by": c.By} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if c.CSV {
		q.Set("format", "csv")
	}
	at.RawQuery = q.Encode()
	body, err := askAdmin(e, http.MethodGet, at, c.tokenFlags)
	if err != nil {
		return err
	}
	switch {
	case c.CSV:
		_, err = e.stdout.Write(body)
		return err
	case c.JSON:
		var out bytes.Buffer
		if err := json.Indent(&out, bytes.TrimSpace(body), "", "  "); err != nil {
			return fmt.Errorf("%s: %w", at.Redacted(), err)
		}
		_, err = fmt.Fprintln(e.stdout, out.String())
		return err
	}
	var report usage.Report
	if err := json.Unmarshal(body, &report); err != nil {
		return fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	display.Usage(e.stdout, &report)
	return nil
}
