package demo

import (
	"fmt"
	"slices"

	"github.com/foregate/foregate/gateway"
)

// modes are the modes of a pair, in the order in which they are tried: the default first, then those that let the target
// see each draft, at last the one without a check.
var modes = []struct{ name, meaning string }{
	{"risk", "drafts above a cautious threshold, one in eight at first, are served and audited; later a threshold is certified"},
	{"verify", "each draft is held until the target has found its tokens plausible"},
	{"confidence", "drafts above a fixed threshold are served; there is no guarantee"},
}

// choose returns the mode that a pair runs, the first that its engines allow, and says why they do not allow others.
func choose(drafts *gateway.DraftView) (mode, text string) {
	text = "Modes that the engines allow (foregate status says what each can do):\n\n"
	for _, m := range modes {
		state := "works"
		if i := slices.IndexFunc(drafts.UnavailableModes, func(u gateway.UnavailableView) bool { return u.Name == m.name }); i >= 0 {
			state = "not available: " + drafts.UnavailableModes[i].Reason
		} else if mode == "" {
			mode, state = m.name, "runs: "+m.meaning
		}
		text += fmt.Sprintf("  %-12s %s\n", m.name, state)
	}
	if mode == "" {
		mode = "off"
		text += fmt.Sprintf("  %-12s runs: no draft can be judged, so that the target answers everything\n", mode)
	}
	return mode, text
}
