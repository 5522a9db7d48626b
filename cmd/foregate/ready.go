package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	readyTimeout  = 2 * time.Second // shorter than what a container's health check is given
	maxReadyBytes = 4 << 10         // bytes of an answer
)

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
	req, err := http.NewRequestWithContext(e.ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return errors.New("--admin: want a URL such as http://127.0.0.1:9090")
	}
	client, err := c.client(nil, readyTimeout)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }()                        // it was read
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxReadyBytes)) // the status is what counts
	why := strings.Join(strings.Fields(string(body)), " ")
	if saysHTTPS(resp, body) {
		return fmt.Errorf("%s: %w", at.Redacted(), errPlain)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: status %d: %s", resp.StatusCode, why)
	}
	_, err = fmt.Fprintln(e.stdout, why)
	return err
}
