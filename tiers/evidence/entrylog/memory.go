package entrylog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// errAway is why a log fails while [Memory.Away] says so.
var errAway = errors.New("entrylog: away")

// Memory is a log in this process. It keeps no snapshots: who reads it has read it from the beginning.
type Memory struct {
	Now  func() time.Time
	Away func() bool // reports whether it fails now, for simulations; nil is never

	mu   sync.Mutex
	logs map[string][]risk.Message // by route, at most MaxEntries each
}

// List implements [Log].
func (m *Memory) List(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.logs)), m.fails()
}

func (m *Memory) fails() error {
	if m.Away != nil && m.Away() {
		return errAway
	}
	return nil
}

// Exchange implements [Log].
func (m *Memory) Exchange(_ context.Context, asks []Ask) ([]Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Answer, len(asks))
	for i, a := range asks {
		list := m.logs[a.Route]
		if a.Add != nil && m.fails() == nil {
			next := risk.ID{MS: uint64(m.Now().UnixMilli())}
			if n := len(list); n > 0 && next.Compare(list[n-1].ID) <= 0 {
				next = risk.ID{MS: list[n-1].ID.MS, Seq: list[n-1].ID.Seq + 1}
			}
			if list = append(list, risk.Message{ID: next, Entry: *a.Add}); len(list) > MaxEntries {
				list = slices.Delete(list, 0, MaxEntries/10)
			}
			if m.logs == nil {
				m.logs = map[string][]risk.Message{}
			}
			m.logs[a.Route], out[i].Added = list, next
		}
		at, _ := slices.BinarySearchFunc(list, a.From, func(x risk.Message, id risk.ID) int { return x.ID.Compare(id) })
		out[i].Found = slices.Clone(list[at:min(at+Page, len(list))])
	}
	return out, m.fails()
}

// Snapshot implements [Log].
func (m *Memory) Snapshot(context.Context, string) (risk.ID, string, error) {
	return risk.ID{}, "", m.fails()
}

// Save implements [Log].
func (m *Memory) Save(context.Context, string, risk.ID, string) error { return nil }
