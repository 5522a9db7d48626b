package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// readyTimeout is shorter than what a container's health check is given.
const readyTimeout = 2 * time.Second

type readyCmd struct {
	Admin string `default:"http://127.0.0.1:9090" env:"FOREGATE_ADMIN" help:"Either of the replica's listeners (${default})." placeholder:"URL"`
	tlsFlags
}

// Run asks a replica whether it can serve. It is the health check of an image in which
// there is no other program to ask with; /readyz is open to all, so it needs no token.
func (c *readyCmd) Run(e *env) error {
	at, err := adminURL(c.Admin, "/readyz")
	if err != nil {
		return err
	}
	client, err := c.client(nil, readyTimeout)
	if err != nil {
		return err
	}
	status, body, err := fetch(e, client, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	why := strings.Join(strings.Fields(string(body)), " ")
	if status != http.StatusOK {
		return fmt.Errorf("not ready: status %d: %s", status, why)
	}
	_, err = fmt.Fprintln(e.stdout, why)
	return err
}
