package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway/identity"
)

// Reloaded is what becomes of a running configuration when a replica reads its file again.
type Reloaded struct {
	File    *File    // in force from now on: what a running process can take over is new, all else is as before
	Changes []string // what is new in File, such as "pools.draft: changed": pools, routes, tenants
	Restart []string // fields that differ in the file, and keep their old values until the process starts again; sorted
}

// Reload returns what becomes of running when next is read. A process takes over pools, routes, and the rights of
// tenants. The rights of tenants stay as they are if identity.mode or the path tenants_file differs: their list is written
// for the mode, and is where the path says. Both files are valid, as Parse returns them, and are not changed.
func Reload(running, next *File) Reloaded {
	now := *running
	r := Reloaded{File: &now}
	now.Pools, now.Routes = next.Pools, next.Routes
	models := func(list []Route) map[string]Route { return byName(list, func(rt Route) string { return rt.Model }) }
	r.Changes = slices.Concat(changesOf("pools.", running.Pools, next.Pools), changesOf("routes.", models(running.Routes), models(next.Routes)))
	if running.Identity.Mode == next.Identity.Mode && running.TenantsFile == next.TenantsFile {
		now.Tenants, now.Identity.Default, now.Identity.Unlisted = next.Tenants, next.Identity.Default, next.Identity.Unlisted
		ids := func(list []identity.Tenant) map[string]identity.Tenant {
			return byName(list, func(t identity.Tenant) string { return t.ID })
		}
		rights := func(o identity.Options) map[string]any {
			return map[string]any{"default_tenant": o.Default, "unlisted_tenants": o.Unlisted}
		}
		r.Changes = slices.Concat(r.Changes, changesOf("tenants.", ids(running.Tenants), ids(next.Tenants)), changesOf("identity.", rights(running.Identity), rights(next.Identity)))
	}
	r.Restart = restartFields(&now, next)
	return r
}

// restartFields names the top-level fields in which two files differ.
func restartFields(running, next *File) []string {
	was, is := reflect.ValueOf(running).Elem(), reflect.ValueOf(next).Elem()
	var fields []string
	for i := range was.NumField() {
		if !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			name, _, _ := strings.Cut(was.Type().Field(i).Tag.Get("yaml"), ",")
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields
}

// changesOf compares the entries of a section by their names.
func changesOf[T any](section string, was, is map[string]T) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(is)) {
		before, known := was[name]
		switch {
		case !known:
			out = append(out, section+name+": added")
		case !reflect.DeepEqual(before, is[name]):
			out = append(out, section+name+": changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, kept := is[name]; !kept {
			out = append(out, section+name+": removed")
		}
	}
	return out
}

// byName are the members of a list by their names.
func byName[T any](list []T, name func(T) string) map[string]T {
	all := make(map[string]T, len(list))
	for _, member := range list {
		all[name(member)] = member
	}
	return all
}
