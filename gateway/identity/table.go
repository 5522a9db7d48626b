package identity

import "slices"

// table says who may call, and what proves it. It is immutable; rotation makes a new one.
type table struct {
	tenants  []Tenant // in the given order
	byID     map[string]*Tenant
	unlisted *Tenant // rights of a tenant that is not listed; nil: it is refused

	// byKey finds a tenant by its key's digest. A plain map is safe: its timing may reveal something about
	// the digest that was looked up, but to approach a stored digest bit by bit, an attacker would have to
	// choose keys by their SHA-256, that is, break it.
	byKey map[[32]byte]*Tenant

	keys map[string]publicKey // by kid, mode JWTs
}

// SetTenants replaces the list of tenants for later requests. Ids and keys are unique, as the configuration has checked.
func (r *Resolver) SetTenants(list []Tenant) {
	tenants, byID, byKey := slices.Clone(list), make(map[string]*Tenant, len(list)), map[[32]byte]*Tenant{}
	for i := range tenants {
		t := &tenants[i]
		byID[t.ID] = t
		for _, k := range t.KeySHA256 {
			byKey[k] = t
		}
	}
	r.replace(func(t *table) { t.tenants, t.byID, t.byKey = tenants, byID, byKey })
}

// SetUnlisted replaces what happens to tenants that are not listed: what unlisted says, with the rights in others.
func (r *Resolver) SetUnlisted(unlisted Unlisted, others Tenant) {
	var rights *Tenant
	switch {
	case unlisted == UnlistedDefault:
		rights = &others
	case unlisted == UnlistedModeDefault && r.mode == Open:
		rights = &Tenant{MaxPriority: High}
	}
	r.replace(func(t *table) { t.unlisted = rights })
}

// SetKeySet replaces the public keys of mode JWTs, from a JSON Web Key Set (RFC 7517 §5). An invalid set
// changes nothing; the error repeats nothing of it.
func (r *Resolver) SetKeySet(data []byte) error {
	keys, err := parseKeySet(data)
	if err != nil {
		return err
	}
	r.replace(func(t *table) { t.keys = keys })
	return nil
}

// replace replaces the table by a changed copy.
func (r *Resolver) replace(change func(*table)) {
	r.set.Lock()
	defer r.set.Unlock()
	next := *r.table.Load()
	change(&next)
	r.table.Store(&next)
}

// Tenants returns the listed tenants, in their order. The result is read-only.
func (r *Resolver) Tenants() []Tenant { return r.table.Load().tenants }
