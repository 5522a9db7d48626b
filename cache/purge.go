package cache

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

// keyEpochs is a hash: purged scope → time in µs of Redis' clock. It has no TTL, and has the hash tag of all
// keys that replicas share.
const keyEpochs = "foregate:{fg}:epochs"

// The fields of keyEpochs.
const (
	fieldAll    = "all"
	fieldTenant = "tenant:" // plus the tenant's name
	fieldRoute  = "route:"  // plus the route's name
)

// maxEpochs is the maximum number of fields of keyEpochs; a purge beyond that purges everything.
const maxEpochs = 4096

var (
	//go:embed purge.lua
	purgeSource string
	purgeScript = script.New(purgeSource)
)

// Scope is what a purge covers: a tenant's answers, a route's, or, if both are "", all.
type Scope struct{ Tenant, Route string }

// Maximum lengths of names in a Scope, in bytes.
const (
	maxTenantName = 64
	maxRouteName  = 128
)

var errScope = errors.New("a purge is of one tenant, of one route or of all; a tenant's answers on one route alone cannot be purged")

// String names what a scope covers.
func (s Scope) String() string {
	switch {
	case s.Tenant != "":
		return "tenant " + s.Tenant
	case s.Route != "":
		return "route " + s.Route
	}
	return "all"
}

// Check returns what is wrong with a scope.
func (s Scope) Check() error {
	switch {
	case s.Tenant != "" && s.Route != "":
		return errScope
	case !named(s.Tenant, maxTenantName, "._:-"):
		return fmt.Errorf("a tenant's name is 1–%d of A-Z a-z 0-9 . _ : -", maxTenantName)
	case !named(s.Route, maxRouteName, "._:/-"):
		return fmt.Errorf("a route's name is 1–%d of A-Z a-z 0-9 . _ : / -", maxRouteName)
	}
	return nil
}

// named reports whether a name is short enough and consists of letters, digits and the given marks.
func named(name string, maxSize int, marks string) bool {
	return len(name) <= maxSize && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(marks, c)
	})
}

// field is the scope's field in keyEpochs.
func (s Scope) field() string {
	switch {
	case s.Tenant != "":
		return fieldTenant + s.Tenant
	case s.Route != "":
		return fieldRoute + s.Route
	}
	return fieldAll
}

// Purge makes a scope's answers unreachable: every replica that shares control learns this within a second,
// and a replica that cannot read it serves nothing from the cache by then. all reports that everything was
// purged instead, because there were too many different purges.
func Purge(ctx context.Context, control redis.UniversalClient, s Scope) (all bool, err error) {
	if err := s.Check(); err != nil {
		return false, err
	}
	reply, err := onEpochs(ctx, control, purgeScript, maxEpochs, s.field(), maxAhead.Microseconds())
	switch {
	case err != nil:
		return false, fmt.Errorf("purge: %w", err)
	case len(reply) != 2:
		return false, errors.New("purge: Redis' reply is none of the script's")
	}
	if err := readBack(ctx, control, s, reply[1]); err != nil {
		return false, fmt.Errorf("purge: %w", err)
	}
	return reply[0] == fieldAll && s != Scope{}, nil
}

// readBack reads the hash as replicas do, and refuses one that does not say that the scope was purged.
func readBack(ctx context.Context, control redis.UniversalClient, s Scope, epoch string) error {
	hash, err := control.HGetAll(ctx, keyEpochs).Result()
	if err != nil {
		return err
	}
	k, err := parseEpochs(hash, time.Time{})
	if err != nil {
		return fmt.Errorf("replicas refuse it, purge everything: %w", err)
	}
	wanted, err := strconv.ParseUint(epoch, 10, 64)
	if err != nil || max(k.all, k.tenants[s.Tenant], k.routes[s.Route]) < wanted {
		return fmt.Errorf("%s was written and is not there", epoch)
	}
	return nil
}

// onEpochs runs a script on the hash of purges.
func onEpochs(ctx context.Context, control redis.UniversalClient, s *script.Script, args ...any) ([]string, error) {
	return script.NewRunner(control, s).Run(ctx, s, []string{keyEpochs}, args...).StringSlice()
}
