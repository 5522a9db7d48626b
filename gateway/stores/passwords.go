package stores

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
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

// readPasswords reads the files that a configuration names. An error begins with the setting.
func readPasswords(r config.Redis) (passwords, error) {
	all := passwords{}
	for _, f := range [][2]string{
		{config.PasswordFile, r.PasswordFile}, {config.SettingsPasswordFile, r.SettingsPasswordFile}, {config.SentinelPasswordFile, r.SentinelPasswordFile},
	} {
		setting, path := f[0], f[1]
		if path == "" {
			continue
		}
		p := &password{path: path, fixed: setting == config.SentinelPasswordFile}
		data, _, err := files.Read(path, maxPasswordFile)
		if err == nil {
			err = p.apply([][]byte{data})
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", setting, err)
		}
		all[setting] = p
	}
	return all, nil
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

// PasswordFiles reads the password files of a configuration, and returns them for reload. An error begins
// with the setting.
func PasswordFiles(r config.Redis) ([]files.File, error) {
	ps, err := readPasswords(r)
	return ps.files(), err
}
