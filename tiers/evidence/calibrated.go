package evidence

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/tiers/risk"
)

// Map returns a calibrated score of a route, at most a second old. It does not block; on the first request
// for a route there is none yet.
func (b *Store) Map(route string, version int) (raw []byte, ok bool) {
	if version < 1 {
		return nil, false
	}
	b.maps.mu.Lock()
	defer b.maps.mu.Unlock()
	s := b.maps.of(route, b.now())
	if s == nil {
		return nil, false
	}
	raw, ok = s.versions[version]
	return raw, ok
}

// SaveMap stores a calibrated score of a route under the next number. Of more than 64 the oldest is deleted, but not
// inForce, the version that judges drafts (0: none).
func (b *Store) SaveMap(ctx context.Context, route string, m Map, inForce int) (version int, err error) {
	if _, err := nameOf(risk.Key{Route: route, TrafficClass: "-"}); err != nil {
		return 0, err
	}
	if len(m) > maxMap || !json.Valid(m) {
		return 0, fmt.Errorf("evidence: %d bytes of a calibrated score are no JSON or more than %d", len(m), maxMap)
	}
	if b.local != nil {
		return b.saveHere(route, m, inForce)
	}
	got, err := b.call(ctx, mapScript, []string{keyMaps}, route, []byte(m), maxMaps, maxVersion, inForce)
	if err != nil {
		return 0, err
	}
	n, ok := got.(int64)
	if !ok || n < 1 || n > maxVersion {
		return 0, b.failed(fmt.Errorf("a calibrated score's number: %w", errNotOurs))
	}
	return int(n), nil
}

// saveHere stores it in this process.
func (b *Store) saveHere(route string, m Map, inForce int) (int, error) {
	b.maps.mu.Lock()
	defer b.maps.mu.Unlock()
	s := b.maps.of(route, b.now())
	if s == nil {
		return 0, fmt.Errorf("evidence: more than %d routes have calibrated scores", maxKeys)
	}
	if s.versions == nil {
		s.versions = make(map[int]Map)
	}
	version, oldest := 1, maxVersion
	for v := range s.versions {
		version = max(version, v+1)
		if v != inForce {
			oldest = min(oldest, v)
		}
	}
	if len(s.versions) >= maxMaps {
		delete(s.versions, oldest)
	}
	s.versions[version] = slices.Clone(m)
	return version, nil
}

// Maps returns the calibrated scores of a route, the oldest first.
func (b *Store) Maps(ctx context.Context, route string) ([]SavedMap, error) {
	if b.local != nil {
		b.maps.mu.Lock()
		defer b.maps.mu.Unlock()
		var found map[int]Map
		if s := b.maps.of(route, b.now()); s != nil {
			found = s.versions
		}
		return sorted(found), nil
	}
	var list *redis.SliceCmd
	err := b.pipeline(ctx, func(ctx context.Context, p redis.Pipeliner) { list = p.HMGet(ctx, keyMaps, versionsOf(route)) })
	if err != nil {
		return nil, err
	}
	if err := list.Err(); err != nil {
		return nil, b.failed(err)
	}
	found, err := b.fetch(ctx, route, text(list.Val()[0]))
	if err != nil {
		return nil, err
	}
	return sorted(found), nil
}

// fetch reads the scores in a list.
func (b *Store) fetch(ctx context.Context, route, list string) (map[int]Map, error) {
	of := versions(list)
	if len(of) == 0 {
		return nil, nil
	}
	names := make([]string, len(of))
	for i, v := range of {
		names[i] = route + "/" + strconv.Itoa(v)
	}
	var raws *redis.SliceCmd
	err := b.pipeline(ctx, func(ctx context.Context, p redis.Pipeliner) { raws = p.HMGet(ctx, keyMaps, names...) })
	if err != nil {
		return nil, err
	}
	if err := raws.Err(); err != nil {
		return nil, b.failed(err)
	}
	found := make(map[int]Map, len(of))
	for i, v := range raws.Val() {
		if raw := Map(text(v)); len(raw) > 0 && len(raw) <= maxMap && json.Valid(raw) {
			found[of[i]] = raw
		}
	}
	return found, nil
}

// hearMaps reads the scores of the routes whose list has changed.
func (b *Store) hearMaps(ctx context.Context, routes []string, lists []any) error {
	for i, route := range routes {
		list := text(lists[i])
		b.maps.mu.Lock()
		s := b.maps.routes[route]
		news := s != nil && s.list != list
		b.maps.mu.Unlock()
		if !news {
			continue
		}
		found, err := b.fetch(ctx, route, list)
		if err != nil {
			return err
		}
		b.maps.mu.Lock()
		if s := b.maps.routes[route]; s != nil {
			s.list, s.versions = list, found
		}
		b.maps.mu.Unlock()
	}
	return nil
}
