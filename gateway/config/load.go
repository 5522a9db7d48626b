package config

import (
	"fmt"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/yamlfile"
)

// MaxFile bounds the size of a configuration or tenants file, in bytes. Real ones are much smaller.
const MaxFile = 1 << 20

// Load reads and checks the file at path.
func Load(path string) (*File, error) {
	data, err := yamlfile.ReadFile(path, MaxFile)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse checks data as a configuration file; name is its name in errors. The error lists every mistake, one
// per line, in the order of the file.
func Parse(name string, data []byte) (*File, error) {
	f := &File{}
	err := read(yamlfile.Options{Name: name, Needs: "pools and routes"}, data, f, func(r reader) {
		for name, p := range f.Pools {
			p.TLS.On = r.Has("pools." + name + ".tls")
			p.Free = r.Has("pools."+name+".usd_per_hour") && p.USDPerHour == 0
			if !r.Has("pools." + name + ".usd_per_million_cached") {
				p.USDPerMillionCached = p.USDPerMillionInput
			}
			f.Pools[name] = p
		}
		for i := range f.Routes {
			if t := &f.Routes[i]; len(t.Targets) > 0 && t.Target == "" {
				t.Target = t.Targets[0].Pool
			}
		}
		r.check(f)
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// read reads a file into a struct, and checks it if it has fields.
func read(o yamlfile.Options, data []byte, to any, check func(reader)) error {
	o.MaxBytes, o.Forms = MaxFile, forms
	file, root, ok := yamlfile.Open(o, data)
	if ok {
		if root.Into(to); root.IsFields() {
			check(reader{file})
		}
	}
	return file.Err()
}

// Tenants parses data as the tenants_file, for this identity.mode and these [File.Unpriced] pools: a YAML file with only the field tenants,
// as in the configuration. The error lists every mistake, one per line, as
// "tenants_file:line:column: field: mistake and correction".
func Tenants(data []byte, mode identity.Mode, unpriced []string) ([]identity.Tenant, error) {
	var only struct { // an empty file must not lock out all tenants
		Tenants []identity.Tenant `yaml:"tenants,distinct" need:"give at least one tenant" empty:"give at least one tenant"`
	}
	err := read(yamlfile.Options{Name: "tenants_file", Needs: "tenants"}, data, &only, func(r reader) {
		r.checkTenants(only.Tenants, unpriced)
		if mode == identity.Keys {
			r.checkKeyless(only.Tenants)
			return
		}
		for i, t := range only.Tenants {
			if len(t.KeySHA256) > 0 {
				r.Fail(fmt.Sprintf("tenants[%d].keys_sha256", i), "identity.mode is %s, in which tenants' keys are not checked; remove them", mode)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return only.Tenants, nil
}
