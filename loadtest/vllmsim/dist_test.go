package vllmsim

import (
	"fmt"
	"testing"
)

// fork returns a distribution that is in doubt.
func fork(t *testing.T, m *Model) Dist {
	t.Helper()
	for k := range 1000 {
		prompt := chat(t, fmt.Sprintf("chi square %d", k))
		cur := m.cursorAt(prompt)
		for range 50 {
			var d Dist
			m.fill(&cur, &d)
			if len(d.Top) >= 8 && d.Top[0].P < 0.6 {
				return d
			}
			cur.push(d.Argmax())
		}
	}
	t.Fatal("no answer is in doubt anywhere")
	return Dist{}
}
