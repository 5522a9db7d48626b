package pair

// receipt is the part of a request's receipt that a report needs, by the names of GET /admin/receipts.
type receipt struct {
	Tier string `json:"tier"`
	Plan *struct {
		Reason string `json:"reason"`
	} `json:"plan"`
	Verdict *struct {
		Reason string  `json:"reason"`
		Score  float64 `json:"score"` // nats
		Tokens int     `json:"tokens"`
	} `json:"verdict"`
	Checks []struct {
		Scorer string `json:"scorer"`
		Tokens int    `json:"tokens"`
		Pass   bool   `json:"pass"`
		Reason string `json:"reason"`
	} `json:"checks"`
	Tokens struct {
		Prompt   int `json:"prompt"`
		Drafted  int `json:"drafted"`
		Accepted int `json:"accepted"`
		Scored   int `json:"scored"`
		Target   int `json:"target"`
	} `json:"tokens"`
}
