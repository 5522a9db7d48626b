package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
)

// tlsFlags say which certificate of an admin listener with TLS is trusted, and what is presented there.
type tlsFlags struct {
	CAFile     string `type:"path" env:"FOREGATE_ADMIN_CA_FILE" help:"For an admin listener at https://…: PEM file of the authorities that its certificate is from, instead of the system's." placeholder:"FILE"`
	ServerName string `env:"FOREGATE_ADMIN_SERVER_NAME" help:"The name in that certificate, if it is not the host of --admin." placeholder:"NAME"`
	CertFile   string `type:"path" env:"FOREGATE_ADMIN_CERT_FILE" help:"PEM file of a client certificate for a listener that wants one (admin_tls.client_ca_file)." placeholder:"FILE"`
	KeyFile    string `type:"path" env:"FOREGATE_ADMIN_KEY_FILE" help:"PEM file of the private key of --cert-file." placeholder:"FILE"`
}

// client returns a client for a replica's listener. file is the replica's configuration, which names its certificate;
// nil is none.
func (f tlsFlags) client(file *config.File, timeout time.Duration) (*http.Client, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	switch {
	case f.CAFile != "":
		data, _, err := files.Read(f.CAFile, files.MaxCertificates)
		if err == nil {
			c.RootCAs, err = files.ParseAuthorities(data)
		}
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
	case file != nil && file.AdminTLS.On():
		if err := trustOwn(c, file.AdminTLS.CertFile); err != nil {
			return nil, fmt.Errorf("admin_tls.cert_file: %w", err)
		}
	}
	switch {
	case (f.CertFile == "") != (f.KeyFile == ""):
		return nil, errors.New("--cert-file and --key-file: give both or neither")
	case f.CertFile != "":
		pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("--cert-file and --key-file: %s", strings.TrimPrefix(err.Error(), "tls: "))
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Timeout: timeout, Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true, TLSClientConfig: c}}, nil
}

// trustOwn trusts the certificate of a replica whose configuration is known, under whatever name it has: the address in
// the configuration is often none of them.
func trustOwn(c *tls.Config, path string) error {
	data, _, err := files.Read(path, files.MaxCertificates)
	if err != nil {
		return err
	}
	leaf, pool, err := files.ParseOwn(data)
	if err != nil {
		return err
	}
	c.RootCAs = pool
	switch {
	case c.ServerName != "":
	case len(leaf.DNSNames) > 0:
		c.ServerName = strings.Replace(leaf.DNSNames[0], "*", "any", 1) // a name that fits a wildcard
	case len(leaf.IPAddresses) > 0:
		c.ServerName = leaf.IPAddresses[0].String()
	}
	return nil
}

// unreachable explains why a replica could not be asked.
func unreachable(err error) error {
	what := ""
	switch text := err.Error(); {
	case isError[tls.RecordHeaderError](err), strings.Contains(text, "server gave HTTP response to HTTPS client"):
		what = "the listener speaks plain HTTP: give --admin http://…"
	case isError[x509.UnknownAuthorityError](err):
		what = "the listener's certificate is from an authority that is not trusted here: give --ca-file, or $FOREGATE_ADMIN_CA_FILE"
	case isError[x509.HostnameError](err):
		what = "the listener's certificate is for other names: give one of them as the host of --admin, or as --server-name"
	case isError[x509.CertificateInvalidError](err):
		what = "the listener's certificate is not valid"
	case strings.Contains(text, "remote error: tls: certificate required"):
		what = "the listener wants a client certificate: give --cert-file and --key-file"
	case strings.Contains(text, "remote error: tls: "):
		what = "the listener refuses the connection: it may not accept the client certificate of --cert-file"
	}
	if what != "" {
		return fmt.Errorf("the replica cannot be reached: %s: %w", what, err)
	}
	return fmt.Errorf("the replica cannot be reached: %w", err)
}

// isError reports whether an error is or wraps one of type E.
func isError[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// adminOf is the address of the admin listener of a replica's configuration, or another one if it is given.
func adminOf(admin string, f *config.File) string {
	if f.AdminTLS.On() {
		return cmp.Or(admin, "https://"+f.Admin)
	}
	return cmp.Or(admin, f.Admin)
}
