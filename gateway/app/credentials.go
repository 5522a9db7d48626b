package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/tiers/credentials"
)

// ownHeaders are the headers of requests to engines that the gateway sets itself.
var ownHeaders = []string{"Accept", "Accept-Encoding", "Traceparent", "Tracestate", "User-Agent", "X-Request-Id"}

// poolFiles are the contents of the files of one pool's auth and tls. They make its credentials. Its methods are called
// by one goroutine at a time, that of the watcher's Run.
type poolFiles struct {
	live    *credentials.Live
	key     []credentials.Field // of the key: one line, or none
	headers []credentials.Field
	tls     *tls.Config // nil without tls
}

// poolCredentials reads the files of a pool's auth and tls, and has them watched. It returns the credentials that they
// make, nil for a pool without both, and what ends the watching.
func poolCredentials(name string, def config.Pool, watcher *files.Watcher, expiry *files.Expiry) (own *credentials.Live, unwatch func(), err error) {
	at := "pools." + name
	var ends []func()
	unwatch = func() {
		for _, end := range ends {
			end()
		}
		if !slices.ContainsFunc(watcher.States(), func(s files.State) bool { return s.Setting == at+".tls" }) {
			expiry.Forget(at + ".tls")
		}
	}
	if def.Auth == (config.PoolAuth{}) && !def.TLS.On {
		return nil, unwatch, nil
	}
	p := &poolFiles{live: new(credentials.Live)}
	watched := []files.File{
		{Setting: at + ".auth.api_key_file", Paths: []string{def.Auth.APIKeyFile}, Max: files.MaxSecrets, Secret: true, Apply: p.setKey},
		{Setting: at + ".auth.headers_file", Paths: []string{def.Auth.HeadersFile}, Max: files.MaxHeaders, Secret: true, Apply: p.setHeaders},
	}
	if def.TLS.On {
		p.set(func() { p.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: def.TLS.ServerName} })
		watched = append(watched, p.tlsFile(at+".tls", def.TLS, expiry))
	}
	for _, f := range watched {
		if len(f.Paths) == 0 || f.Paths[0] == "" {
			continue
		}
		end, err := watcher.Watch(f)
		if err != nil {
			unwatch()
			return nil, nil, err
		}
		ends = append(ends, end)
	}
	return p.live, unwatch, nil
}

// tlsFile are the files of a pool's tls, which are put into force together.
func (p *poolFiles) tlsFile(setting string, def config.PoolTLS, expiry *files.Expiry) files.File {
	f := files.File{Setting: setting, Max: files.MaxCertificates, Secret: def.KeyFile != "", Public: []string{def.CAFile, def.CertFile}}
	for _, file := range []struct{ field, path string }{{"ca_file", def.CAFile}, {"cert_file", def.CertFile}, {"key_file", def.KeyFile}} {
		if file.path != "" {
			f.Fields, f.Paths = append(f.Fields, file.field), append(f.Paths, file.path)
		}
	}
	f.Apply = func(contents [][]byte) error {
		next := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: def.ServerName} // another pointer: older connections serve no new request
		if def.CAFile != "" {
			roots, err := files.ParseAuthorities(contents[0])
			if err != nil {
				return fmt.Errorf("ca_file: %w", err)
			}
			next.RootCAs, contents = roots, contents[1:]
		}
		if def.CertFile != "" {
			pair, err := files.ParsePair(contents[0], contents[1])
			if err != nil {
				return err
			}
			next.Certificates = []tls.Certificate{pair}
			expiry.Set(setting, pair.Leaf.NotAfter)
		}
		p.set(func() { p.tls = next })
		return nil
	}
	return f
}

// set changes a part, and puts the credentials of all parts into force.
func (p *poolFiles) set(change func()) {
	change()
	p.live.Set(&credentials.Credentials{Headers: slices.Concat(p.key, p.headers), TLS: p.tls})
}

// setKey takes the content of api_key_file.
func (p *poolFiles) setKey(contents [][]byte) error {
	key, err := files.Line(contents[0], 1)
	if err != nil {
		return err
	}
	if hasHeader(p.headers, "Authorization") {
		return errors.New("headers_file has a line Authorization as well; keep one of the two")
	}
	p.set(func() { p.key = []credentials.Field{{Name: "Authorization", Value: "Bearer " + string(key)}} })
	return nil
}

// setHeaders takes the content of headers_file.
func (p *poolFiles) setHeaders(contents [][]byte) error {
	list, err := files.Headers(contents[0])
	if err != nil {
		return err
	}
	fields := make([]credentials.Field, len(list))
	for i, h := range list {
		switch {
		case slices.Contains(ownHeaders, h.Name):
			return fmt.Errorf("has a line %s, which the gateway sets itself; remove it", h.Name)
		case hasHeader(p.key, h.Name):
			return errors.New("has a line Authorization, which is api_key_file's; keep one of the two")
		}
		fields[i] = credentials.Field(h)
	}
	p.set(func() { p.headers = fields })
	return nil
}

// hasHeader reports whether one of the fields has the name.
func hasHeader(fields []credentials.Field, name string) bool {
	return slices.ContainsFunc(fields, func(f credentials.Field) bool { return f.Name == name })
}
