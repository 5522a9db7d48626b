package loadtest

import (
	"encoding/json"
	"slices"
)

// The kinds of run that a [Report] is of.
const (
	Live    = "live"    // the gateway over HTTP, in real or hastened time
	Virtual = "virtual" // the gateway's decisions in computed time
)

// Report is what a run of a scenario ends in.
type Report struct {
	Scenario *Scenario
	Seed     uint64
	Kind     string // Live or Virtual
	Command  string // that repeats it; "" is not told
	Results  []*Result
	Notes    []string // what a reader must know to trust the numbers
}

// JSON is the report's rows, for machines.
func (r *Report) JSON() ([]byte, error) {
	doc := struct {
		Scenario string `json:"scenario"`
		Seed     uint64 `json:"seed"`
		Kind     string `json:"kind"`
		Rows     []Row  `json:"rows"`
	}{r.name(), r.Seed, r.Kind, []Row{}}
	for _, res := range r.Results {
		doc.Rows = append(doc.Rows, res.Row())
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}

func (r *Report) name() string {
	if r.Scenario == nil {
		return ""
	}
	return r.Scenario.Name
}

func (r *Report) about() string {
	if r.Scenario == nil {
		return ""
	}
	return r.Scenario.About
}

// measured is one case with all that is known of it, read once.
type measured struct {
	summary
	Row
	result *Result
}

func (r *Report) measured() []measured {
	out := []measured{}
	for _, res := range r.Results {
		s := res.Recorder.summary()
		out = append(out, measured{summary: s, Row: res.row(s), result: res})
	}
	return out
}

// metric is one line of the table.
type metric struct {
	name string
	unit unit
	of   func(m measured) float64
	// base is what a share is of; where it is 0 there is nothing to tell. nil is
	// always.
	base func(m measured) int
}

// text is the metric of one case, as it is printed.
func (x metric) text(m measured) string {
	if x.base != nil && x.base(m) == 0 {
		return "–"
	}
	return x.unit.text(x.of(m))
}

// ratio is the metric of one case beside the first's, as it is printed; "" where
// it says nothing.
func (x metric) ratio(m, first measured) string {
	if x.base != nil && (x.base(m) == 0 || x.base(first) == 0) {
		return ""
	}
	return times(x.of(m), x.of(first))
}

// section is a group of metrics.
type section struct {
	name    string
	metrics []metric
}

// of is how many requests a priority had.
func of(priority string) func(m measured) int {
	return func(m measured) int {
		for _, g := range m.Priorities {
			if g.Name == priority {
				return g.Requests
			}
		}
		return 0
	}
}

// metrics are the lines of a table of these cases, in order.
func metrics(cases []measured) []section {
	answered := func(m measured) int { return m.Answered }
	high, low := of("high"), of("low")
	out := []section{
		{"Load", []metric{
			{"Requests", counted, func(m measured) float64 { return float64(m.Requests) }, nil},
			{"Answered", counted, func(m measured) float64 { return float64(m.Answered) }, nil},
			{"Shed", counted, func(m measured) float64 { return float64(m.Shed) }, nil},
			{"Errors", counted, func(m measured) float64 { return float64(m.Errors) }, nil},
			{"Answers per second", plain, func(m measured) float64 { return m.RequestsPerSecond }, nil},
			{"Tokens per second", plain, func(m measured) float64 { return m.TokensPerSecond }, nil},
		}},
		{"Latency", []metric{
			{"TTFT p50", millis, func(m measured) float64 { return m.TTFT50 }, answered},
			{"TTFT p95", millis, func(m measured) float64 { return m.TTFT95 }, answered},
			{"TTFT p99", millis, func(m measured) float64 { return m.TTFT99 }, answered},
			{"E2E p50", millis, func(m measured) float64 { return m.E2E50 }, answered},
			{"E2E p95", millis, func(m measured) float64 { return m.E2E95 }, answered},
			{"E2E p99", millis, func(m measured) float64 { return m.E2E99 }, answered},
		}},
		{"Priorities", append([]metric{
			{"High: TTFT p99", millis, func(m measured) float64 { return m.HighTTFT99 }, high},
			{"High: shed or failed", counted, func(m measured) float64 { return float64(m.HighLost) }, high},
			{"Low: shed", counted, func(m measured) float64 { return float64(m.LowShed) }, low},
		}, presentMetrics(cases,
			metric{"Retry-After, told", seconds, func(m measured) float64 { return m.RetryAfter }, nil},
			metric{"Retry-After, true", seconds, func(m measured) float64 { return m.RetryTrue }, nil},
			metric{"Told ÷ true", plain, func(m measured) float64 { return m.RetryRatio }, nil},
		)...)},
		{"Cache and memory", append(cached(cases), []metric{
			{"Prefix hits", percent, func(m measured) float64 { return m.PrefixHitRate }, queried},
			{"KV usage, peak", percent, func(m measured) float64 { return finite(m.result.PeakKV) }, nil},
			{"Preemptions", counted, func(m measured) float64 { return float64(m.Preemptions) }, nil},
			{"OOM deaths", counted, func(m measured) float64 { return float64(m.OOMDeaths) }, nil},
		}...)},
		{"Money", append(money(), presentMetrics(cases, metric{"The same by the formulas", dollars, func(m measured) float64 { return m.Model }, nil})...)},
		{"Acceptance and quality", append(quality(), presentMetrics(cases,
			metric{"Kept from the draft", percent, func(m measured) float64 { return m.Guarded }, nil},
			metric{"Drafts checked", percent, func(m measured) float64 { return m.CheckedShare }, nil},
			metric{"Tokens scored", percent, func(m measured) float64 { return m.Scored }, nil},
			metric{"AUROC of the score", percent, func(m measured) float64 { return m.Row.AUROC }, nil},
		)...)},
	}
	return slices.Concat(out, totals(cases), promises(cases))
}

// cached are the answers that cost no generation; those that shared one are told where
// there are any.
func cached(cases []measured) []metric {
	out := []metric{{"Cached answers", percent, func(m measured) float64 { return m.CacheHitRate }, func(m measured) int { return m.Answered }}}
	if slices.ContainsFunc(cases, func(m measured) bool { return m.Coalesced > 0 }) {
		out = append(out, metric{"Of these coalesced", counted, func(m measured) float64 { return float64(m.Coalesced) }, nil})
	}
	return out
}

// presentMetrics are those of some metrics that at least one case has.
func presentMetrics(cases []measured, list ...metric) []metric {
	return slices.DeleteFunc(list, func(x metric) bool {
		return !slices.ContainsFunc(cases, func(m measured) bool { return x.of(m) > 0 })
	})
}

func money() []metric {
	return []metric{
		{"Draft GPU busy", seconds, func(m measured) float64 { return m.DraftGPUSeconds }, nil},
		{"Target GPU busy", seconds, func(m measured) float64 { return m.TargetGPUSeconds }, nil},
		{"GPU busy, both", seconds, func(m measured) float64 { return m.GPUSeconds }, nil},
		{"Draft cost", dollars, func(m measured) float64 { return m.DraftUSD }, nil},
		{"Target cost", dollars, func(m measured) float64 { return m.TargetUSD }, nil},
		{"Per million tokens", dollars, func(m measured) float64 { return m.USDPerMTok }, delivered},
	}
}

func quality() []metric {
	return []metric{
		{"Drafts accepted", percent, func(m measured) float64 { return m.Acceptance }, func(m measured) int { return m.Accepted + m.Rejected }},
		{"Escalated", counted, func(m measured) float64 { return float64(m.Escalated) }, nil},
		{"Tokens by the draft", percent, func(m measured) float64 { return m.DraftTokenShare }, delivered},
		{"Disagreement", percent, func(m measured) float64 { return m.CheckedDisagreement }, func(m measured) int { return m.CheckedAccepts }},
		{"Same as target's", percent, func(m measured) float64 { return m.Identical }, func(m measured) int { return m.Checked }},
	}
}

func delivered(m measured) int { return m.DraftTokens + m.TargetTokens }

func queried(m measured) int {
	n := 0
	for _, u := range m.result.Pools {
		n += u.PrefixQueries
	}
	return n
}
