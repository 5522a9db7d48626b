package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/foregate/foregate/gateway"
)

// modes are the modes of a pair, in the order in which they are tried: the default first, then those that let the target
// see each draft, at last the one without a check.
var modes = []struct{ name, meaning string }{
	{"risk", "drafts above a cautious threshold, one in eight at first, are served and audited; later a threshold is certified"},
	{"verify", "each draft is held until the target has found its tokens plausible"},
	{"confidence", "drafts above a fixed threshold are served; there is no guarantee"},
}

const modeOff = "off"

// choose returns the mode that the pair runs: the first that its engines allow.
func choose(drafts *gateway.DraftView) string {
	for _, m := range modes {
		if unavailable(drafts, m.name) == "" {
			return m.name
		}
	}
	return modeOff
}

// unavailable returns why the engines do not allow a mode, "" if they do.
func unavailable(drafts *gateway.DraftView, mode string) string {
	if i := slices.IndexFunc(drafts.UnavailableModes, func(u gateway.UnavailableView) bool { return u.Name == mode }); i >= 0 {
		return drafts.UnavailableModes[i].Reason
	}
	return ""
}

// able says which mode runs, and why the others do not.
func able(drafts *gateway.DraftView, mode string) string {
	var b strings.Builder
	b.WriteString("Modes that the engines allow (foregate status says what each can do):\n\n")
	for _, m := range modes {
		state := "works"
		switch why := unavailable(drafts, m.name); {
		case why != "":
			state = "not available: " + why
		case m.name == mode:
			state = "runs: " + m.meaning
		}
		fmt.Fprintf(&b, "  %-12s %s\n", m.name, state)
	}
	if mode == modeOff {
		fmt.Fprintf(&b, "  %-12s runs: no draft can be judged, so that the target answers everything\n", modeOff)
	}
	return b.String()
}
