package stores

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/internal/redis/connect"
)

// maxPasswordFile is longer than any password, in bytes.
const maxPasswordFile = 8 << 10

// passwords are the passwords in files, by the setting that names the file.
type passwords map[string]*password

// password is the password in a file.
type password struct {
	path  string
	fixed bool                   // its user cannot change it later: go-redis, for Sentinels
	now   atomic.Pointer[string] // nil before it was read
}

// readPasswords reads the endpoints' files. An error begins with the setting.
func readPasswords(endpoints ...config.Endpoint) (passwords, error) {
	all := passwords{}
	for _, ep := range endpoints {
		for _, file := range []config.SecretFile{ep.PasswordFile, ep.SentinelPasswordFile} {
			if file.Setting == "" || all[file.Setting] != nil {
				continue
			}
			p := &password{path: file.Path, fixed: file == ep.SentinelPasswordFile}
			data, _, err := files.Read(file.Path, maxPasswordFile)
			if err == nil {
				err = p.apply([][]byte{data})
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file.Setting, err)
			}
			all[file.Setting] = p
		}
	}
	return all, nil
}

// endpoints are where a replica connects to.
type endpoints struct{ control, answers, settings config.Endpoint }

// read returns the endpoints of a Redis configuration, and the passwords in their files.
func read(r config.Redis) (at endpoints, all passwords, err error) {
	at = endpoints{r.Endpoint(), r.CacheEndpoint(), r.SettingsEndpoint()}
	all, err = readPasswords(at.control, at.answers, at.settings)
	return at, all, err
}

// apply takes the current content of the file.
func (p *password) apply(contents [][]byte) error {
	line, err := files.Line(contents[0], 1)
	if err != nil {
		return err
	}
	text := string(line)
	if was := p.now.Load(); p.fixed && was != nil && *was != text {
		return errors.New("the password has changed, and another is shown after a restart only")
	}
	p.now.Store(&text)
	return nil
}

// files are the password files for reload.
func (ps passwords) files() []files.File {
	var out []files.File
	for _, setting := range slices.Sorted(maps.Keys(ps)) {
		p := ps[setting]
		out = append(out, files.File{Setting: setting, Paths: []string{p.path}, Max: maxPasswordFile, Secret: true, Apply: p.apply})
	}
	return out
}

// options returns the client options for an endpoint. Each new connection uses the file's password at that
// time.
func (ps passwords) options(ep config.Endpoint) (o connect.Options, err error) {
	o = connect.Options{
		Network: ep.Network, Addrs: ep.Addrs, DB: ep.DB, Master: ep.Master, Cluster: ep.Kind == config.KindCluster,
		Username: ep.Username, Password: string(ep.Password), SentinelUsername: ep.SentinelUsername,
	}
	if ep.TLS {
		files := connect.TLSFiles{CA: ep.CAFile, Cert: ep.CertFile, Key: ep.KeyFile, ServerName: ep.ServerName}
		if o.TLS, err = files.Config(); err != nil {
			return connect.Options{}, fmt.Errorf("redis: %w", err)
		}
	}
	if p := ps[ep.PasswordFile.Setting]; p != nil {
		o.Credentials = func() (user, password string) { return ep.Username, *p.now.Load() }
	}
	if p := ps[ep.SentinelPasswordFile.Setting]; p != nil {
		o.SentinelPassword = *p.now.Load()
	}
	return o, nil
}

// PasswordFiles reads the password files of a configuration, and returns them for reload. An error begins
// with the setting.
func PasswordFiles(r config.Redis) ([]files.File, error) {
	_, ps, err := read(r)
	if err != nil {
		return nil, err
	}
	return ps.files(), nil
}
