package main

import (
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/identity"
)

// resolver turns the file's tenants and keys into the identities that requests
// have. It reads the secrets or the key set that the file names.
func resolver(f *config.File, log zerolog.Logger) (*identity.Resolver, error) {
	o := identity.Options{Mode: identity.Mode(f.Identity.Mode), JWT: identity.JWT(f.Identity.JWT), Logger: log}
	for _, k := range f.Identity.Keys {
		o.SigningKeys = append(o.SigningKeys, identity.SigningKey(k))
	}
	var err error
	if o.TrustedProxies, err = networks("identity.trusted_proxies", f.Identity.TrustedProxies); err != nil {
		return nil, err
	}
	for _, def := range f.Tenants {
		highest, err := identity.ParsePriority(def.MaxPriority)
		if err != nil {
			return nil, fmt.Errorf("tenant %s: %w", def.ID, err)
		}
		t := identity.Tenant{ID: def.ID, MaxPriority: highest, RPM: def.RPM, TPM: def.TPM, Concurrent: def.Concurrent,
			Spared: def.DraftsUnderPressure, Apart: def.OwnPromise}
		for _, sum := range def.KeysSHA256 {
			var digest [32]byte
			if _, err := hex.Decode(digest[:], []byte(sum)); err != nil {
				return nil, fmt.Errorf("tenant %s: %w", def.ID, err)
			}
			t.KeySHA256 = append(t.KeySHA256, digest)
		}
		o.Tenants = append(o.Tenants, t)
	}
	return identity.New(o)
}

// networks reads the CIDRs of a field.
func networks(field string, cidrs []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, cidr := range cidrs {
		p, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		list = append(list, p)
	}
	return list, nil
}
