package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

const (
	statusWait = 5 * time.Second
	mostStatus = 16 << 20 // bytes of an answer; 1,000 backends are 300 kB
)

// adminURL is a path of an admin listener. It may hold a password, so it is shown Redacted only, and
// an error does not repeat it.
func adminURL(base, path string) (*url.URL, error) {
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, errors.New("--admin: want a URL such as http://127.0.0.1:9090")
	}
	return u.JoinPath(path), nil
}

// tokenFile is for commands that ask an admin listener.
type tokenFile struct {
	TokenFile string `type:"path" env:"FOREGATE_ADMIN_TOKEN_FILE" help:"File with the operators' token, which an admin listener beyond loopback wants (admin_token_file)." placeholder:"FILE"`
}

// askAdmin asks an admin listener, and returns what it answers. token is the path of the file
// with the operators' token; "" shows none.
func askAdmin(e *env, method string, at *url.URL, token string) ([]byte, error) {
	req, err := http.NewRequestWithContext(e.ctx, method, at.String(), http.NoBody)
	if err != nil {
		return nil, errors.New("--admin: want a URL such as http://127.0.0.1:9090")
	}
	if token != "" {
		secret, _, err := identity.ReadSecret(token)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+string(secret))
	}
	resp, err := (&http.Client{Timeout: statusWait, Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return nil, fmt.Errorf("the replica cannot be reached: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostStatus+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at.Redacted(), err)
	case resp.StatusCode == http.StatusUnauthorized && token == "":
		return nil, fmt.Errorf("%s: the listener wants the operators' token: give --token-file, or $FOREGATE_ADMIN_TOKEN_FILE", at.Redacted())
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s: what --token-file or $FOREGATE_ADMIN_TOKEN_FILE holds is not the listener's token", at.Redacted())
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: status %d: %s", at.Redacted(), resp.StatusCode, refusalOf(body))
	case len(body) > mostStatus:
		return nil, fmt.Errorf("%s: an answer of more than %d bytes", at.Redacted(), mostStatus)
	}
	return body, nil
}

// refusalOf is why an admin listener refuses, in its own words where it has some.
func refusalOf(body []byte) string {
	var said struct{ Error struct{ Message string } }
	if json.Unmarshal(body, &said) != nil || said.Error.Message == "" {
		return "is that the admin listener of a replica?"
	}
	return cut(said.Error.Message, 300)
}
