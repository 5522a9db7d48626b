package config

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/foregate/foregate/internal/yamlfile"
)

// Tenants parses data as the tenants_file, for this identity.mode: a YAML file with only the field tenants,
// as in the configuration. The error lists every mistake, one per line, as
// "tenants_file:line:column: field: mistake and correction".
func Tenants(data []byte, mode string) ([]Tenant, error) {
	file, root, ok := yamlfile.Open(yamlfile.Options{Name: "tenants_file", Needs: "tenants", MaxBytes: MaxFile}, data)
	if !ok {
		return nil, file.Err()
	}
	var only struct {
		Tenants []Tenant `yaml:"tenants"`
	}
	root.Into(&only)
	all := only.Tenants
	if root.IsFields() {
		r := reader{file}
		if len(all) == 0 && r.Sound("tenants") { // an empty file must not lock out all tenants
			r.Fail("tenants", "there is no tenant; give at least one")
		}
		r.checkTenants(all)
		r.checkProofs(all, mode)
	}
	if err := file.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

// checkProofs checks that the tenants' keys in a file fit the mode.
func (r reader) checkProofs(all []Tenant, mode string) {
	if mode == ModeKeys {
		r.checkKeyless(all)
		return
	}
	for i, t := range all {
		if len(t.KeysSHA256) > 0 {
			r.Fail(fmt.Sprintf("tenants[%d].keys_sha256", i), "identity.mode is %s, in which tenants' keys are not checked; remove them", mode)
		}
	}
}

// checkKeyless refuses tenants without keys in mode keys, because nobody could use them.
func (r reader) checkKeyless(all []Tenant) {
	for i, t := range all {
		path := fmt.Sprintf("tenants[%d]", i)
		if len(t.KeysSHA256) == 0 && r.Sound(path) && r.Sound(path+".keys_sha256") {
			r.Fail(path, "has no keys_sha256, so nobody could be this tenant; give it a key or remove it")
		}
	}
}

// keyed reports whether a tenant has keys.
func keyed(all []Tenant) bool {
	return slices.ContainsFunc(all, func(t Tenant) bool { return len(t.KeysSHA256) > 0 })
}

func (r reader) checkTenants(all []Tenant) {
	ids, keys := map[string]int{}, map[string]string{}
	for i := range all {
		t, path := &all[i], fmt.Sprintf("tenants[%d]", i)
		if !r.Sound(path) {
			continue
		}
		first, twice := ids[t.ID]
		switch {
		case !r.Has(path + ".id"):
			r.Fail(path+".id", "missing; give the tenant's name")
		case !r.Sound(path + ".id"):
		case len(t.ID) == 0 || len(t.ID) > 64 || !yamlfile.Only(t.ID, "._:-"):
			r.Fail(path+".id", "want 1–64 of A-Z a-z 0-9 . _ : -")
		case twice:
			r.Fail(path+".id", "tenants[%d] has this id already; put all its keys into one entry", first)
		default:
			ids[t.ID] = i
		}
		r.checkPriority(path+".max_priority", t.MaxPriority)
		r.checkModels(path+".models", t.Models)
		r.checkBudgets(path+".budgets", t.Budgets)
		r.checkKeys(path+".keys_sha256", t, keys)
	}
}

func (r reader) checkPriority(path, class string) {
	if !slices.Contains([]string{"low", "normal", "high"}, class) && r.Sound(path) {
		r.Fail(path, "want low, normal or high")
	}
}

// checkModels checks the routes that a tenant may use. A route that does not exist is no mistake: it may be added later.
func (r reader) checkModels(path string, models []string) {
	if r.Has(path) && r.Sound(path) && len(models) == 0 {
		r.Fail(path, "the list is empty, so the tenant could use nothing; name its models, or leave the list out for all")
	}
	for i, m := range models {
		at := fmt.Sprintf("%s[%d]", path, i)
		if name := strings.TrimSuffix(m, "*"); r.Sound(at) && (m == "" || len(name) > maxRouteName || !yamlfile.Only(name, routeNameMarks)) {
			r.Fail(at, "want the model of a route, or its beginning with one * at the end, such as \"code-*\"")
		}
	}
}

// checkKeys checks a tenant's keys. Errors never repeat a value: it may be the key itself.
func (r reader) checkKeys(path string, t *Tenant, seen map[string]string) {
	for i, key := range t.KeysSHA256 {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !r.Sound(at) {
			continue
		}
		if _, err := hex.DecodeString(key); err != nil || len(key) != 64 {
			r.Fail(at, "want the 64 hex digits of the key's SHA-256 (printf %%s \"$KEY\" | sha256sum), got %d characters", len(key))
			continue
		}
		key = strings.ToLower(key)
		t.KeysSHA256[i] = key
		if first, twice := seen[key]; twice {
			r.Fail(at, "is the same key as %s; a key belongs to one tenant", first)
			continue
		}
		seen[key] = at
	}
}
