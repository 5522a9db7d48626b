package identity

import (
	"errors"
	"fmt"
	"slices"
)

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

// SetTenants replaces the list of tenants for later requests. An invalid list changes nothing; the error
// names tenants, never keys.
func (r *Resolver) SetTenants(list []Tenant) error {
	next := table{tenants: slices.Clone(list), byID: make(map[string]*Tenant, len(list)), byKey: map[[32]byte]*Tenant{}}
	for i := range next.tenants {
		if err := next.add(&next.tenants[i]); err != nil {
			return err
		}
	}
	if r.mode == Keys && len(next.byKey) == 0 {
		return errors.New("mode keys needs a tenant with a key")
	}
	r.replace(func(t *table) { t.tenants, t.byID, t.byKey = next.tenants, next.byID, next.byKey })
	return nil
}

// SetUnlisted replaces what happens to tenants that are not listed: what unlisted says, with the rights in others. An
// error changes nothing.
func (r *Resolver) SetUnlisted(unlisted Unlisted, others Tenant) error {
	var rights *Tenant
	switch {
	case unlisted == UnlistedDefault && (others.MaxPriority < Low || others.MaxPriority > High):
		return errors.New("identity: unlisted tenants have no valid priority")
	case unlisted == UnlistedDefault:
		rights = &others
	case unlisted == UnlistedModeDefault && r.mode == Open:
		rights = &Tenant{MaxPriority: High}
	case unlisted == UnlistedModeDefault, unlisted == UnlistedRefuse:
	default:
		return errors.New("identity: unlisted tenants are refused or have the default")
	}
	r.replace(func(t *table) { t.unlisted = rights })
	return nil
}

// add adds t by its id and its keys.
func (n *table) add(t *Tenant) error {
	if !valid(t.ID, maxIdentity) {
		return errors.New("a tenant's id is 1–64 of A-Z a-z 0-9 . _ : -")
	}
	if t.MaxPriority < Low || t.MaxPriority > High {
		return fmt.Errorf("tenant %s has no valid priority", t.ID)
	}
	if n.byID[t.ID] != nil {
		return fmt.Errorf("tenant %s is given twice", t.ID)
	}
	n.byID[t.ID] = t
	for _, k := range t.KeySHA256 {
		if other := n.byKey[k]; other != nil {
			return fmt.Errorf("tenants %s and %s share a key", other.ID, t.ID)
		}
		n.byKey[k] = t
	}
	return nil
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
