package messages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

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
func (t *translator) readThinking() error {
	config, err := t.in.Object("output_config")
	if err != nil {
		return err
	}
	effort, err := config.Text("effort")
	if err != nil {
		return err
	}
	if effort != "" {
		if t.thinking, err = clientapi.ThinkingOf(effort, config.Member("effort")); err != nil {
			return err
		}
	}
	if !t.in.Has("thinking") {
		return nil
	}
	t.thinking.Fields = append(t.thinking.Fields, "thinking")
	o, err := t.in.Object("thinking")
	if err != nil {
		return err
	}
	if err := o.Only("type", "budget_tokens", "display"); err != nil {
		return err
	}
	if err := t.display(o); err != nil {
		return err
	}
	kind, err := o.Required("type")
	if err != nil {
		return err
	}
	switch kind {
	case "disabled":
		t.thinking.Off, t.thinking.Effort = true, ""
	case "adaptive": // the model decides
	case "enabled":
		if t.thinking.Budget, err = t.budget(o); err != nil {
			return err
		}
		t.thinking.On, t.thinking.Off = true, false
		t.thinking.Effort = cmp.Or(t.thinking.Effort, effortOf(t.thinking.Budget))
	default:
		return clientapi.BadValue(o.Member("type"), "is none of adaptive, enabled, disabled.")
	}
	return nil
}

// display reads whether the client wants to see what the model thinks.
func (t *translator) display(o clientapi.Object) error {
	show, err := o.Text("display")
	if err == nil && !slices.Contains([]string{"", "summarized", "omitted"}, show) {
		return clientapi.BadValue(o.Member("display"), "is neither summarized nor omitted.")
	}
	t.silent = show == "omitted"
	return err
}

// budget reads the tokens of thinking.
func (t *translator) budget(o clientapi.Object) (int, error) {
	var tokens, most int
	if json.Unmarshal(o.Raw("budget_tokens"), &tokens) != nil || tokens < minBudget {
		return 0, clientapi.BadValue(o.Member("budget_tokens"), fmt.Sprintf("is required, and is a whole number of at least %d.", minBudget))
	}
	if json.Unmarshal(t.in.Raw("max_tokens"), &most) == nil && tokens >= most {
		return 0, clientapi.BadValue(o.Member("budget_tokens"), "is not less than max_tokens.")
	}
	return tokens, nil
}
