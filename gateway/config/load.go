package config

import (
	"slices"
	"strings"

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

// reader is a configuration or tenants file while it is read and checked.
type reader struct{ *yamlfile.File }

// Parse checks data as a configuration file; name is its name in errors. The error lists every mistake, one
// per line, in the order of the file.
func Parse(name string, data []byte) (*File, error) {
	file, root, ok := yamlfile.Open(yamlfile.Options{Name: name, Needs: "pools and routes", MaxBytes: MaxFile}, data)
	if !ok {
		return nil, file.Err()
	}
	f := &File{}
	root.Into(f)
	if r := (reader{file}); root.IsFields() {
		r.complete(f)
		r.check(f)
	}
	if err := file.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// complete fills in what follows from other fields.
func (r reader) complete(f *File) {
	for name, p := range f.Pools {
		p.TLS.On = r.Has("pools." + name + ".tls")
		f.Pools[name] = p
	}
	for i := range f.Routes {
		if t := &f.Routes[i]; len(t.Targets) > 0 && t.Target == "" {
			t.Target = t.Targets[0].Pool
		}
	}
}

// poolNames lists the pools for a message.
func poolNames(f *File) string {
	names := make([]string, 0, len(f.Pools))
	for name := range f.Pools {
		names = append(names, name)
	}
	slices.Sort(names)
	const maxNames = 20
	if len(names) > maxNames {
		names = append(names[:maxNames], "…")
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
