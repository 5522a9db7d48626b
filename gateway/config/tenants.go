package config

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Tenants checks data as the file of tenants_file, for a gateway of this identity.mode: a YAML file with
// tenants alone, as they may stand in the configuration. The error holds every mistake, one per line, as
// "tenants_file:line: field: what and how to mend".
func Tenants(data []byte, mode string) ([]Tenant, error) {
	r := newReader("tenants_file", "tenants")
	root := r.document(data)
	if root == nil {
		return nil, r.err()
	}
	var all []Tenant
	r.lines[""] = root.Line
	r.read("", root, group(map[string]value{"tenants": tenants(&all)}))
	if root.Kind == yaml.MappingNode {
		if len(all) == 0 && r.sound("tenants") { // a file that lost its content must not shut all tenants out
			r.fail("tenants", "there is no tenant; give at least one")
		}
		r.checkTenants(all)
		r.checkProofs(all, mode)
	}
	if len(r.problems) > 0 {
		return nil, r.err()
	}
	return all, nil
}

// checkProofs holds the rules between the keys of tenants in a file and the mode.
func (r *reader) checkProofs(all []Tenant, mode string) {
	if mode == ModeKeys {
		r.checkKeyless(all)
		return
	}
	for i, t := range all {
		if len(t.KeysSHA256) > 0 {
			r.fail(fmt.Sprintf("tenants[%d].keys_sha256", i), "identity.mode is %s, in which tenants' keys are not checked; remove them", mode)
		}
	}
}

// checkKeyless refuses tenants that nobody could be, in mode keys.
func (r *reader) checkKeyless(all []Tenant) {
	for i, t := range all {
		path := fmt.Sprintf("tenants[%d]", i)
		if len(t.KeysSHA256) == 0 && r.sound(path) && r.sound(path+".keys_sha256") {
			r.fail(path, "has no keys_sha256, so nobody could be this tenant; give it a key or remove it")
		}
	}
}

// keyed says whether a tenant has keys.
func keyed(all []Tenant) bool {
	return slices.ContainsFunc(all, func(t Tenant) bool { return len(t.KeysSHA256) > 0 })
}

// tenants is a list of tenants.
func tenants(to *[]Tenant) value {
	return list(func(r *reader, _ int, path string, n *yaml.Node) { *to = append(*to, readTenant(r, path, n)) })
}

func readTenant(r *reader, path string, n *yaml.Node) Tenant {
	t := Tenant{MaxPriority: "normal"}
	fields := limitsOf(&t)
	maps.Copy(fields, map[string]value{
		"id": text(&t.ID),
		"keys_sha256": list(func(r *reader, _ int, at string, n *yaml.Node) {
			var key string
			opaque(&key)(r, at, n)
			t.KeysSHA256 = append(t.KeysSHA256, key)
		}),
		"allow_low_score_under_pressure": truth(&t.AllowLowScoreUnderPressure),
		"per_tenant_evidence":            truth(&t.PerTenantEvidence),
	})
	group(fields)(r, path, n)
	return t
}

// limitsOf are the fields of what a tenant may.
func limitsOf(t *Tenant) map[string]value {
	return map[string]value{
		"max_priority": text(&t.MaxPriority),
		"rpm":          whole(&t.RPM, 0, 1_000_000_000),
		"tpm":          whole(&t.TPM, 0, 1_000_000_000_000),
		"concurrent":   whole(&t.Concurrent, 0, 1_000_000),
	}
}

func (r *reader) checkTenants(all []Tenant) {
	ids, keys := map[string]int{}, map[string]string{}
	for i := range all {
		t, path := &all[i], fmt.Sprintf("tenants[%d]", i)
		if !r.sound(path) {
			continue
		}
		first, twice := ids[t.ID]
		switch {
		case !r.has(path + ".id"):
			r.fail(path+".id", "missing; give the tenant's name")
		case !r.sound(path + ".id"):
		case len(t.ID) == 0 || len(t.ID) > 64 || !only(t.ID, "._:-"):
			r.fail(path+".id", "want 1–64 of A-Z a-z 0-9 . _ : -")
		case twice:
			r.fail(path+".id", "tenants[%d] has this id already; put all its keys into one entry", first)
		default:
			ids[t.ID] = i
		}
		r.checkPriority(path+".max_priority", t.MaxPriority)
		r.checkKeys(path+".keys_sha256", t, keys)
	}
}

func (r *reader) checkPriority(path, class string) {
	if !slices.Contains([]string{"low", "normal", "high"}, class) && r.sound(path) {
		r.fail(path, "want low, normal or high")
	}
}

// checkKeys never repeats what is written: it may be the key itself.
func (r *reader) checkKeys(path string, t *Tenant, seen map[string]string) {
	for i, key := range t.KeysSHA256 {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !r.sound(at) {
			continue
		}
		if _, err := hex.DecodeString(key); err != nil || len(key) != 64 {
			r.fail(at, "want the 64 hex digits of the key's SHA-256 (printf %%s \"$KEY\" | sha256sum), got %d characters", len(key))
			continue
		}
		key = strings.ToLower(key)
		t.KeysSHA256[i] = key
		if first, twice := seen[key]; twice {
			r.fail(at, "is the same key as %s; a key belongs to one tenant", first)
			continue
		}
		seen[key] = at
	}
}
