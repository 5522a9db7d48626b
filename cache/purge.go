package cache

import (
	"errors"
	"regexp"
)

// Scope is what a purge covers: a tenant's answers, a route's, or, if both are "", all.
type Scope struct{ Tenant, Route string }

// Names in a Scope.
var (
	tenantName = regexp.MustCompile(`^[A-Za-z0-9._:-]{0,64}$`)
	routeName  = regexp.MustCompile(`^[A-Za-z0-9._:/-]{0,128}$`)
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
	case !tenantName.MatchString(s.Tenant):
		return errors.New("a tenant's name is 1–64 of A-Z a-z 0-9 . _ : -")
	case !routeName.MatchString(s.Route):
		return errors.New("a route's name is 1–128 of A-Z a-z 0-9 . _ : / -")
	}
	return nil
}

// field is the scope's field in the topic.
func (s Scope) field() string {
	switch {
	case s.Tenant != "":
		return "tenant:" + s.Tenant
	case s.Route != "":
		return "route:" + s.Route
	}
	return "all"
}

// ErrNotShared means that a purge is in force at this replica only, because Redis could not be told. It is told as soon
// as it answers, and the other replicas follow within a second.
var ErrNotShared = errors.New("the other replicas could not be told")
