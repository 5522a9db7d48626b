package evidence

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/foregate/foregate/tiers/risk"
)

// Memory is a log in this process. It keeps no snapshots: who reads it has read it from the beginning.
type Memory struct {
	Now  func() time.Time
	Away func() bool // reports whether it fails now, for simulations; nil is never

	mu   sync.Mutex
	logs map[string][]risk.Message // by route, at most maxEntries each
}

func (m *Memory) list(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.logs)), m.fails()
}

func (m *Memory) fails() error {
	if m.Away != nil && m.Away() {
		return ErrAway
	}
	return nil
}

func (m *Memory) exchange(_ context.Context, asks []ask) ([]answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]answer, len(asks))
	for i, a := range asks {
		list := m.logs[a.route]
		if a.add != nil && m.fails() == nil {
			next := risk.ID{MS: uint64(m.Now().UnixMilli())}
			if n := len(list); n > 0 && next.Compare(list[n-1].ID) <= 0 {
				next = risk.ID{MS: list[n-1].ID.MS, Seq: list[n-1].ID.Seq + 1}
			}
			if list = append(list, risk.Message{ID: next, Entry: *a.add}); len(list) > maxEntries {
				list = slices.Delete(list, 0, maxEntries/10)
			}
			if m.logs == nil {
				m.logs = map[string][]risk.Message{}
			}
			m.logs[a.route], out[i].added = list, next
		}
		at, _ := slices.BinarySearchFunc(list, a.from, func(x risk.Message, id risk.ID) int { return x.ID.Compare(id) })
		out[i].found = slices.Clone(list[at:min(at+page, len(list))])
	}
	return out, m.fails()
}

func (m *Memory) snapshot(context.Context, string) (risk.ID, string, error) {
	return risk.ID{}, "", m.fails()
}

func (m *Memory) save(context.Context, string, risk.ID, string) error { return nil }
