package identity

import (
	"slices"
	"strings"
	"time"
)

// Access is which models a tenant may use, and how much it may spend. It is immutable. The zero value allows every model, has
// no budget, lets no request leave for fallbacks, and puts no content into traces.
type Access struct {
	Models  []string `json:"models,omitempty" yaml:"models" form:"models" empty:"the tenant could use nothing: name its models, or leave the list out for all" absent:"all" doc:"Models that the tenant may use: names of routes, or the beginning of names with one '*' at the end, such as '[llama-3, \"code-*\"]'. Every other name is refused with 403 'model_not_allowed', whether a route has it or not, and '/v1/models' does not list it."`
	Budgets []Budget `json:"-" yaml:"budgets"` // all of them hold; no two have the same unit and period

	AllowExternal    bool `json:"allow_external" yaml:"allow_external" doc:"Whether the tenant's requests may leave the operator's own servers: for a [hosted target](guides/hosted-target.md), or for 'routes[].fallbacks'. Requests of other tenants never do; models with a hosted target refuse them (403, 'external_not_allowed')."`
	NameApplications bool `json:"name_applications" yaml:"name_applications" doc:"Whether the tenant's requests may say of which application they are ('X-Application'). Without it an application is known by its system prompt, tools and answer format."`
	ForgetResponses  bool `json:"forget_responses" yaml:"forget_responses" doc:"Whether the tenant's answers in the Responses API are not stored, whatever its requests say. For all tenants: the setting 'responses.store'. Guide: docs/guides/apis.md."`
	TraceContent     bool `json:"trace_content" yaml:"trace_content" doc:"Whether the messages and answers of the tenant's requests go to the trace collector, as 'gen_ai.input.messages' and 'gen_ai.output.messages'. Then all of its requests are traced, whatever 'tracing.sample' and 'traceparent' say. Without 'tracing' it has no effect. Guide: docs/guides/tenants-and-identity.md."`
}

// Period is the length of a budget's window. Windows are those of the UTC calendar.
type Period string

// The periods.
const (
	Hour  Period = "hour"
	Day   Period = "day"
	Month Period = "month"
)

// Window returns the begin and the end of the window that contains now.
func (p Period) Window(now time.Time) (begin, end time.Time) {
	now = now.UTC()
	year, month, day := now.Date()
	switch p {
	case Hour:
		begin = time.Date(year, month, day, now.Hour(), 0, 0, 0, time.UTC)
		return begin, begin.Add(time.Hour)
	case Month:
		return time.Date(year, month, 1, 0, 0, 0, 0, time.UTC), time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
	default:
		begin = time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		return begin, begin.AddDate(0, 0, 1)
	}
}

// Budget is what a tenant may spend in each window: either tokens or dollars. The other one is 0.
type Budget struct {
	NanoUSD    int64  `yaml:"usd" scale:"1e9" min:"0.000001" max:"1000000" absent:"this or 'tokens'" doc:"Dollars that the tenant may spend in a window, over all replicas. What a request may cost is reserved before it (prompt and 'max_tokens', or 512, at the token prices of its target and its draft), and what its receipt says is charged after it. The pools of its routes need 'usd_per_hour', or nothing is charged. Beyond it: 429 'insufficient_quota'. Answers from the cache are free."` // 1e-9 USD
	Tokens     int64  `yaml:"tokens" scale:"1" min:"1" max:"1e15" absent:"this or 'usd'" doc:"Tokens of prompts and answers that the tenant may use in a window, over all replicas. They are counted as for 'tpm'."`                                                                                                                                                                                                                                                                                     // of prompts and answers
	Per        Period `yaml:"per" need:"want one of hour, day, month" choice:"hour,day,month" doc:"Window of the budget: 'hour', 'day' or 'month' of the UTC calendar. A request counts in the window in which it began. A tenant has at most one budget for each unit and period; all of them hold."`
	DenyOnLoss bool   `yaml:"on_redis_loss" default:"share" choice:"deny,share" doc:"What happens while Redis is away: 'share' continues, every replica with its part of what was left; 'deny' refuses the tenant's requests with 503 'budget_unavailable'."` // without Redis, refuse; otherwise continue with a share
}

// HasDollarBudget reports whether the tenant has a budget in US dollars.
func (a *Access) HasDollarBudget() bool {
	return slices.ContainsFunc(a.Budgets, func(b Budget) bool { return b.NanoUSD > 0 })
}

// Allows reports whether the tenant may use the route with this name. The route need not exist.
func (a *Access) Allows(model string) bool {
	return len(a.Models) == 0 || slices.ContainsFunc(a.Models, func(pattern string) bool { return MatchModel(pattern, model) })
}

// MatchModel reports whether a pattern covers a model: it is the model's name, or it ends with * and the name
// begins with the rest.
func MatchModel(pattern, model string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(model, prefix)
	}
	return pattern == model
}
