package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/internal/words"
)

const hexKey = "abababababababababababababababababababababababababababababababab"

func TestAFileOfTenantsIsReadAsTheirListInTheConfiguration(t *testing.T) {
	const list = "tenants:\n  - {id: acme, keys_sha256: [" + hexKey + "], max_priority: high, rpm: 60, tpm: 1000, concurrent: 2}\n"
	whole, err := Parse("f", []byte(list+"pools: {p: {model: m, backends: ['http://h']}}\nroutes: [{model: m, target: p}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := Tenants([]byte(list), identity.Keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole.Tenants, alone); diff != "" {
		t.Errorf("-inline +file:\n%s", diff)
	}
}

func TestAMistakeInTheFileOfTenantsIsToldWithItsLine(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		mode identity.Mode
		want string
	}{
		"empty":             {"", identity.Keys, "tenants_file:1:1: the file is empty; it needs at least tenants"},
		"no list":           {"{}", identity.Keys, "tenants_file:1:1: tenants: missing; give at least one tenant"},
		"an empty list":     {"tenants: []", identity.JWTs, "tenants_file:1:1: tenants: is empty; give at least one tenant"},
		"no value":          {"tenants:\n", identity.Keys, "tenants_file:1:1: tenants: has no value; give one or remove the field"},
		"half of a file":    {"tenants:\n  - {id: acme, keys_sha256: [ab", identity.Keys, "tenants_file:1:1: not YAML (here or in the line before): did not find expected ',' or ']'"},
		"another file":      {"k1 hunter2hunter2", identity.Keys, "tenants_file:1:1: want fields (name: value), got text"},
		"the configuration": {"listen: :80\ntenants: [{id: a, keys_sha256: [" + hexKey + "]}]", identity.Keys, "tenants_file:1:1: listen: unknown field; known here: tenants"},
		"a bad field":       {"tenants:\n- id: acme\n  rpm: -1\n  keys_sha256: [" + hexKey + "]", identity.Keys, "tenants_file:3:3: tenants[0].rpm: must not be negative; want 0 … 1000000000"},
		"a key itself":      {"tenants:\n- {id: acme, keys_sha256: [hunter2]}", identity.Keys, "tenants_file:2:28: tenants[0].keys_sha256[0]: want the 64 hex digits of the key's SHA-256 (printf %s \"$KEY\" | sha256sum), got 7 characters"},
		"a shared key":      {"tenants:\n- {id: a, keys_sha256: [" + hexKey + "]}\n- {id: b, keys_sha256: [" + strings.ToUpper(hexKey) + "]}", identity.Keys, "tenants_file:3:25: tenants[1].keys_sha256[0]: is the same key as tenants[0].keys_sha256[0]; a key belongs to one tenant"},
		"a keyless tenant":  {"tenants:\n- {id: acme}", identity.Keys, "tenants_file:2:3: tenants[0]: has no keys_sha256, so nobody could be this tenant; give it a key or remove it"},
		"an idle key":       {"tenants:\n- {id: acme, keys_sha256: [" + hexKey + "]}", identity.JWTs, "tenants_file:2:14: tenants[0].keys_sha256: identity.mode is jwt, in which tenants' keys are not checked; remove them"},
		"a free pool":       {"tenants:\n- {id: acme, keys_sha256: [" + hexKey + "], budgets: [{usd: 5, per: day}]}", identity.Keys, "tenants_file:2:95: tenants[0].budgets: a budget in usd is charged nothing for requests to pools.p, without a price; give usd_per_hour there, and 0 where they are to be free"},
		"two documents":     {"tenants: [{id: a}]\n---\ntenants: [{id: b}]", identity.JWTs, "tenants_file:2:1: a second document begins here; the file must be one document, so remove the --- between them"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := Tenants([]byte(tc.text), tc.mode, []string{"pools.p"})
			if message(err) != tc.want || list != nil {
				t.Errorf("got %v, %v\nwant %s", list, err, tc.want)
			}
		})
	}
}

// FuzzTenants checks that what is accepted can be believed, and that errors name the setting.
func FuzzTenants(f *testing.F) {
	f.Add([]byte("tenants:\n- {id: acme, keys_sha256: [" + hexKey + "], max_priority: low}"))
	f.Add([]byte("tenants: [{id: *a}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Tenants(data, identity.Keys, nil)
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "tenants_file:") {
					t.Errorf("line %q does not name the setting", line)
				}
			}
			return
		}
		if len(list) == 0 {
			t.Error("accepted nobody")
		}
		for _, tenant := range list {
			if len(tenant.KeySHA256) == 0 || !words.Only(tenant.ID, "._:-") || tenant.ID == "" {
				t.Errorf("accepted %+v", tenant)
			}
		}
	})
}
