package app

import (
	"crypto/tls"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
)

// listeners are the certificates of the listeners; nil is plain HTTP.
type listeners struct {
	expiry        *files.Expiry
	public, admin func() *tls.Config // for a new connection
}

// makeListeners reads the certificates of the listeners, and reloads them.
func (a *App) makeListeners() (err error) {
	f := a.Options.File
	if a.listeners.public, err = listenerTLS("tls", f.TLS, a.files, a.listeners.expiry); err != nil {
		return err
	}
	if a.Options.Admin != "" {
		a.listeners.admin, err = listenerTLS("admin_tls", f.AdminTLS, a.files, a.listeners.expiry)
	}
	return err
}

// listenerTLS reads the files of a listener that speaks TLS; nil is plain HTTP.
func listenerTLS(setting string, t config.ListenerTLS, watcher *files.Watcher, expiry *files.Expiry) (func() *tls.Config, error) {
	if !t.On() {
		return nil, nil
	}
	l := &files.Listener{Setting: setting, Expiry: expiry}
	file := files.File{
		Setting: setting, Paths: []string{t.CertFile, t.KeyFile}, Fields: files.ListenerFields, Max: files.MaxCertificates,
		Secret: true, Public: []string{t.CertFile}, Apply: l.Apply,
	}
	if t.ClientCAFile != "" {
		file.Paths = append(file.Paths, t.ClientCAFile)
		file.Public = append(file.Public, t.ClientCAFile)
	}
	if err := watcher.Add(file); err != nil {
		return nil, err
	}
	return l.Config, nil
}
