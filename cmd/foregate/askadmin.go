package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/app"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/internal/words"
)

const (
	adminTimeout  = 5 * time.Second
	maxAdminBytes = 16 << 20 // bytes of an answer; 1,000 backends are 300 kB
)

var errAdmin = errors.New("--admin: want a URL such as http://127.0.0.1:9090")

// adminURL is a path of an admin listener. It may hold a password, so it is shown Redacted only, and
// an error does not repeat it.
func adminURL(base, path string) (*url.URL, error) {
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil {
		return nil, errAdmin
	}
	return u.JoinPath(path), nil
}

// adminFlags say where a replica's admin listener is, and what it wants to see.
type adminFlags struct {
	Admin     string `env:"FOREGATE_ADMIN" help:"The replica's admin listener; otherwise that of --config, or http://127.0.0.1:9090." placeholder:"URL"`
	TokenFile string `type:"path" env:"FOREGATE_ADMIN_TOKEN_FILE" help:"File with an operator's token alone, which an admin listener beyond loopback wants (admin_tokens_file)." placeholder:"FILE"`
	tlsFlags
}

// replicaFlags is for commands that ask one replica, which may be named by its configuration file.
type replicaFlags struct {
	Config string `short:"c" type:"path" help:"The replica's configuration file: where its admin listener is, and its tokens."`
	adminFlags

	file *config.File `kong:"-"` // that of a replica, where its tokens are; nil is none
}

// ask asks the replica for a path of its admin listener, and reads the JSON object that it answers into to, if it is not
// nil. It returns the answer itself as well. With --admin the configuration file only says where a token may be, so it
// may be missing.
func (f *replicaFlags) ask(e *env, method, path string, query url.Values, to any) ([]byte, error) {
	admin := f.Admin
	if f.Config != "" {
		file, err := config.Load(f.Config)
		if err != nil && admin == "" {
			return nil, err
		}
		if f.file = file; err == nil {
			admin = adminOf(admin, file)
		}
	}
	at, err := adminURL(cmp.Or(admin, "127.0.0.1:9090"), path)
	if err != nil {
		return nil, err
	}
	at.RawQuery = query.Encode()
	body, err := f.askAdmin(e, method, at)
	if err != nil || to == nil {
		return body, err
	}
	if err := json.Unmarshal(body, to); err != nil {
		return nil, fmt.Errorf("%s: %w", at.Redacted(), err)
	}
	return body, nil
}

// secret is the token to show, nil where none is named. A replica's file has one in its place, which is good for
// everything.
func (f *replicaFlags) secret() ([]byte, error) {
	switch {
	case f.TokenFile != "":
		data, _, err := files.Read(f.TokenFile, files.MaxSecrets)
		if err == nil {
			data, err = files.Line(data, files.MinSecret)
		}
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		return data, nil
	case f.file == nil || f.file.AdminTokensFile == "":
		return nil, nil
	}
	tokens, err := app.AdminTokens(f.file)
	if err != nil {
		return nil, err
	}
	for _, t := range tokens {
		if slices.Contains(t.Scopes, string(gateway.ScopeOperate)) {
			return t.Secret, nil
		}
	}
	return nil, errors.New("admin_tokens_file: no token has the scope operate; give --token-file, or $FOREGATE_ADMIN_TOKEN_FILE")
}

// askAdmin asks an admin listener, and returns what it answers. It shows the token that there is.
func (f *replicaFlags) askAdmin(e *env, method string, at *url.URL) ([]byte, error) {
	token, err := f.secret()
	if err != nil {
		return nil, err
	}
	client, err := f.client(f.file, adminTimeout)
	if err != nil {
		return nil, err
	}
	status, body, err := fetch(e, client, method, at, token)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusUnauthorized && token == nil:
		return nil, fmt.Errorf("%s: the listener wants an operator's token: give --token-file, or $FOREGATE_ADMIN_TOKEN_FILE", at.Redacted())
	case status == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s: what --token-file or $FOREGATE_ADMIN_TOKEN_FILE holds is none of the listener's tokens", at.Redacted())
	case status != http.StatusOK:
		return nil, fmt.Errorf("%s: status %d: %s", at.Redacted(), status, refusalMessage(body))
	}
	return body, nil
}

// fetch makes a request of a listener, and returns the answer's status and body.
func fetch(e *env, client *http.Client, method string, at *url.URL, token []byte) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(e.ctx, method, at.String(), http.NoBody)
	if err != nil {
		return 0, nil, errAdmin
	}
	if token != nil {
		req.Header.Set("Authorization", "Bearer "+string(token))
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAdminBytes+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("%s: %w", at.Redacted(), err)
	case resp.StatusCode == http.StatusBadRequest && resp.TLS == nil && strings.Contains(string(body), "HTTP request to an HTTPS server"):
		return 0, nil, fmt.Errorf("%s: the listener speaks TLS: give --admin https://…", at.Redacted())
	case len(body) > maxAdminBytes:
		return 0, nil, fmt.Errorf("%s: an answer of more than %d bytes", at.Redacted(), maxAdminBytes)
	}
	return resp.StatusCode, body, nil
}

// refusalMessage is why an admin listener refuses, in its own words where it has some.
func refusalMessage(body []byte) string {
	var result struct{ Error struct{ Message string } }
	if json.Unmarshal(body, &result) != nil || result.Error.Message == "" {
		return "is that the admin listener of a replica?"
	}
	return words.Clip(result.Error.Message, 300)
}
