package cache

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

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
	reply, err := onEpochs(ctx, control, purgeScript, maxEpochs, s.field())
	switch {
	case err != nil:
		return false, fmt.Errorf("purge: %w", err)
	case len(reply) != 2:
		return false, errors.New("purge: Redis' reply is none of the script's")
	}
	return reply[0] == fieldAll && s != Scope{}, nil
}

// onEpochs runs a script on the hash of purges.
func onEpochs(ctx context.Context, control redis.UniversalClient, s *script.Script, args ...any) ([]string, error) {
	return script.NewRunner(control, s).Run(ctx, s, []string{keyEpochs}, args...).StringSlice()
}

const sweepCount = 1000 // keys per SCAN

// Sweep deletes the answers of a scope from the Redis that has them, and returns their number, also if ctx
// ended it. A route's answers cannot be recognized by their names, so none of them is deleted. Sweep is not
// part of a purge: purged answers are unreachable and expire by themselves.
func Sweep(ctx context.Context, answers redis.UniversalClient, s Scope) (int, error) {
	if err := s.Check(); err != nil || s.Route != "" {
		return 0, err
	}
	prefix := keyPrefix
	if s.Tenant != "" {
		prefix = TenantPrefix(s.Tenant)
	}
	var deleted atomic.Int64
	err := script.EachMaster(ctx, answers, func(ctx context.Context, node redis.Cmdable) error {
		return sweep(ctx, node, prefix, &deleted)
	})
	return int(deleted.Load()), err
}

// sweep is Sweep on one node. Each key is deleted by its own command, because in a cluster the keys belong to
// many slots.
func sweep(ctx context.Context, node redis.Cmdable, prefix string, deleted *atomic.Int64) error {
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, prefix+"*", sweepCount).Result()
		if err != nil {
			return err
		}
		gone, err := node.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, key := range keys {
				if strings.HasPrefix(key, prefix) {
					p.Unlink(ctx, key)
				}
			}
			return nil
		})
		for _, g := range gone {
			if n, ok := g.(*redis.IntCmd); ok {
				deleted.Add(n.Val())
			}
		}
		if err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
