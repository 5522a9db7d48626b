package config

import (
	"maps"
	"reflect"
	"slices"
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
	r.add(changesOf("pools.", running.Pools, next.Pools))
	r.add(changesOf("routes.", byModel(running.Routes), byModel(next.Routes)))
	if running.Identity.Mode == next.Identity.Mode && running.TenantsFile == next.TenantsFile {
		now.Tenants, now.Identity.DefaultTenant, now.Identity.UnlistedTenants = next.Tenants, next.Identity.DefaultTenant, next.Identity.UnlistedTenants
		r.add(changesOf("tenants.", byID(running.Tenants), byID(next.Tenants)))
		r.changed("identity.default_tenant", running.Identity.DefaultTenant, next.Identity.DefaultTenant)
		r.changed("identity.unlisted_tenants", running.Identity.UnlistedTenants, next.Identity.UnlistedTenants)
	}
	r.Restart = restartFields(&now, next)
	return r
}

func (r *Reloaded) add(changes []string) { r.Changes = append(r.Changes, changes...) }

// changed notes that a field is new, if it is.
func (r *Reloaded) changed(field string, was, is any) {
	if !reflect.DeepEqual(was, is) {
		r.add([]string{field + ": changed"})
	}
}

// restartFields names the top-level fields in which two files differ.
func restartFields(running, next *File) []string {
	was, is := reflect.ValueOf(running).Elem(), reflect.ValueOf(next).Elem()
	var fields []string
	for i := range was.NumField() {
		if !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			fields = append(fields, fieldNames[was.Type().Field(i).Name])
		}
	}
	slices.Sort(fields)
	return fields
}

// fieldNames are the names in the file of the fields of [File].
var fieldNames = map[string]string{
	"Listen": "listen", "Admin": "admin", "TLS": "tls", "AdminTLS": "admin_tls", "AdminTokensFile": "admin_tokens_file", "Redis": "redis", "Cache": "cache", "Identity": "identity",
	"Pools": "pools", "Routes": "routes", "Tenants": "tenants", "TenantsFile": "tenants_file",
	"Passthrough": "passthrough", "Limits": "limits", "Drain": "drain", "Tracing": "tracing",
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

func byModel(routes []Route) map[string]Route {
	all := make(map[string]Route, len(routes))
	for _, rt := range routes {
		all[rt.Model] = rt
	}
	return all
}

func byID(tenants []Tenant) map[string]Tenant {
	all := make(map[string]Tenant, len(tenants))
	for _, t := range tenants {
		all[t.ID] = t
	}
	return all
}
