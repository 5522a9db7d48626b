package messages

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/foregate/foregate/gateway/clientapi"
)

// minBudget is the least budget of thinking in the API, in tokens.
const minBudget = 1024

// effortOf is the effort that stands for a budget of thinking, for engines that have no budgets.
func effortOf(tokens int) string {
	switch {
	case tokens <= 4<<10:
		return "low"
	case tokens <= 16<<10:
		return "medium"
	}
	return "high"
}

// readThinking reads how the model may think: as the chat's members, for engines that think.
func (t *translator) readThinking() {
	if t.thinking = clientapi.ThinkingOf(t.in.Object("output_config"), "effort"); !t.in.Has("thinking") {
		return
	}
	t.thinking.Fields = append(t.thinking.Fields, "thinking")
	o := t.in.Object("thinking")
	o.Only("type", "budget_tokens", "display")
	show := o.Text("display")
	if t.silent = show == "omitted"; !t.silent && show != "" && show != "summarized" {
		o.BadValue("display", "is neither summarized nor omitted.")
	}
	switch o.Required("type") {
	case "disabled":
		t.thinking.Off, t.thinking.Effort = true, ""
	case "adaptive": // the model decides
	case "enabled":
		t.thinking.Budget = t.budget(o)
		t.thinking.On, t.thinking.Off = true, false
		t.thinking.Effort = cmp.Or(t.thinking.Effort, effortOf(t.thinking.Budget))
	default:
		o.BadValue("type", "is none of adaptive, enabled, disabled.")
	}
}

// budget reads the tokens of thinking.
func (t *translator) budget(o clientapi.Object) int {
	var tokens, most int
	if json.Unmarshal(o.Raw("budget_tokens"), &tokens) != nil || tokens < minBudget {
		o.BadValue("budget_tokens", fmt.Sprintf("is required, and is a whole number of at least %d.", minBudget))
	}
	if json.Unmarshal(t.in.Raw("max_tokens"), &most) == nil && tokens >= most {
		o.BadValue("budget_tokens", "is not less than max_tokens.")
	}
	return tokens
}
