package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/plan"
)

// Limits for reading the hash.
const (
	maxFields = 256
	maxValue  = 4 << 10
)

// Snapshot is the settings in force at one time. It is immutable; what it has, and results of its methods, are shared and
// read-only.
type Snapshot struct {
	Set      map[string]string // fields in force as they were written; all others have their default, a refused one its last good value if there was one
	Rejected []RejectedValue   // refused fields, sorted by name; their last good values stay in force
	Unknown  []RejectedValue   // fields that this replica does not know and ignores, sorted by name: of another version, unknown routes, misspelt

	global Values
	routes map[string]*Values // only routes with overrides

	applications map[string]map[string]plan.Application // by route and tenant/name; only those for which something is set
}

// RejectedValue is a field that is not in force, with the reason. Name and Value are printable and at most 64
// bytes long; a Value too long to be read is "…".
type RejectedValue struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Reason string `json:"reason"`
}

// Global returns the values of a route without overrides.
func (s *Snapshot) Global() *Values { return &s.global }

// Route returns the values of route name.
func (s *Snapshot) Route(name string) *Values {
	if v, ok := s.routes[name]; ok {
		return v
	}
	return &s.global
}

// Applications returns what is set for single applications of a route, by tenant/name.
func (s *Snapshot) Applications(route string) map[string]plan.Application {
	return s.applications[route]
}

// Warnings lists valid values that deserve attention: every class that a kill switch rejects completely.
func (s *Snapshot) Warnings() (warn []string) {
	closed := func(at string, v *Values) {
		for _, t := range thresholds(v) {
			if t.at == 0 {
				warn = append(warn, t.name+at+" is 0: the whole class is turned away")
			}
		}
	}
	closed("", &s.global)
	for _, name := range slices.Sorted(maps.Keys(s.routes)) {
		closed("@"+name, s.routes[name])
	}
	return warn
}

// FromHash makes a snapshot of the hash h for the configured routes. It is a pure function. A refused field
// keeps its value in last, or its default if it has none there; last may be nil.
func FromHash(h map[string]string, routes []string, last *Snapshot) (*Snapshot, []RejectedValue) {
	if last == nil {
		last = &Snapshot{global: Defaults()}
	}
	if len(h) > maxFields { // any choice of fields would be random, so none are read: the last good hash stays in force
		s := *last
		s.Unknown, s.Rejected = []RejectedValue{}, []RejectedValue{{Name: Key, Reason: fmt.Sprintf("more than %d fields, so nothing was applied", maxFields)}}
		return &s, s.Rejected
	}
	b := builder{hash: h, last: map[string]string{}, kept: map[string]string{}, refused: map[string]RejectedValue{}, unknown: map[string]RejectedValue{}}
	maps.Copy(b.last, last.Set)
	for name, value := range h {
		b.field(name, value, routes)
	}
	s := &Snapshot{global: b.settle("", Defaults()), routes: map[string]*Values{}}
	for _, name := range routes {
		v := b.settle("@"+name, s.global)
		if v != s.global {
			s.routes[name] = &v
		}
	}
	s.Set, s.applications = b.kept, b.applications()
	s.Rejected, s.Unknown = byName(b.refused), byName(b.unknown)
	return s, s.Rejected
}

// byName sorts fields by their names in the hash.
func byName(fields map[string]RejectedValue) []RejectedValue {
	out := []RejectedValue{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		out = append(out, fields[name])
	}
	return out
}

// builder divides the fields of a hash into kept, refused and unknown.
type builder struct {
	hash    map[string]string
	last    map[string]string        // the last good values, without those that broke a rule all the same
	kept    map[string]string        // each can be parsed; at the end no rule is broken
	refused map[string]RejectedValue // by name in the hash; with the first reason
	unknown map[string]RejectedValue // by name in the hash
}

// field keeps a field of the hash, or its last good value.
func (b *builder) field(name, value string, routes []string) {
	base, scope, perRoute := strings.Cut(name, "@")
	route, app := cutScope(scope)
	spec, ok := lookup(base)
	switch {
	case !ok:
		b.unknown[name] = RejectedValue{show(name), showValue(value), "unknown setting"}
		return
	case app != "" && !spec.PerApplication:
		b.refuse(name, value, "is the same for every application of a route")
		return
	case app == "" && spec == &applicationName:
		b.refuse(name, value, "is of one application: want "+base+"@ROUTE#TENANT/APPLICATION")
		return
	case app == "" && perRoute && !spec.PerRoute:
		b.refuse(name, value, "is the same for every route and cannot be overridden")
		return
	case perRoute && !slices.Contains(routes, route):
		b.unknown[name] = RejectedValue{show(name), showValue(value), "unknown route"}
		return
	}
	if err := check(spec, value); err != nil {
		b.refuse(name, value, err.Error())
		b.takeLast(name)
		return
	}
	b.kept[name] = value
}

func (b *builder) refuse(name, value, reason string) {
	if _, recorded := b.refused[name]; !recorded {
		b.refused[name] = RejectedValue{show(name), showValue(value), reason}
	}
}

// takeLast gives a field its last good value; none if it had none.
func (b *builder) takeLast(name string) {
	if old, had := b.last[name]; had {
		b.kept[name] = old
		return
	}
	delete(b.kept, name)
}

// applications are what the kept fields set for single applications, by route.
func (b *builder) applications() map[string]map[string]plan.Application {
	all := map[string]map[string]plan.Application{}
	for name, value := range b.kept {
		base, scope, _ := strings.Cut(name, "@")
		route, app := cutScope(scope)
		if app == "" {
			continue
		}
		if all[route] == nil {
			all[route] = map[string]plan.Application{}
		}
		one := all[route][app]
		if base == mode {
			one.Mode = plan.Mode(value)
		} else {
			one.Name = value
		}
		all[route][app] = one
	}
	return all
}

// settle moves fields of one scope ("" or "@route") back until no rule is broken, and returns the scope's
// values over base.
func (b *builder) settle(suffix string, base Values) Values {
	for {
		v := b.apply(suffix, base)
		fields, reason := broken(&v)
		if reason == "" || !b.takeBack(fields, suffix, reason) {
			return v
		}
	}
}

// apply applies the kept fields of a scope to base.
func (b *builder) apply(suffix string, base Values) Values {
	for i := range specs {
		if value, ok := b.kept[specs[i].Name+suffix]; ok {
			_ = specs[i].set(&base, value) // kept only if it can be parsed
		}
	}
	return base
}

// takeBack refuses the new fields of a broken rule, which get their last values. If none of them is new here (a default or
// another scope changed), it refuses all that are set, which are set no more. It reports whether there were any: each field goes
// back twice at most, so that settle ends.
func (b *builder) takeBack(fields []string, suffix, reason string) bool {
	var fresh, set []string
	for _, f := range fields {
		name := f + suffix
		now, isSet := b.kept[name]
		if old, wasSet := b.last[name]; now != old || isSet != wasSet {
			fresh = append(fresh, name)
		}
		if isSet {
			set = append(set, name)
		}
	}
	refused := fresh
	if len(fresh) == 0 {
		refused = set
	}
	for _, name := range refused {
		b.refuse(name, b.hash[name], b.explain(name, reason))
		if len(fresh) == 0 {
			delete(b.last, name)
		}
		b.takeLast(name)
	}
	return len(refused) > 0
}

// explain gives the reason, also for a refused removal.
func (b *builder) explain(name, reason string) string {
	if _, present := b.hash[name]; present {
		return reason
	}
	return "cannot be removed: " + reason + "; " + show(b.last[name]) + " stays"
}
