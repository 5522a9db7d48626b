// Package receipts holds what is kept of a finished request. Start at [Receipt]: its JSON, the spans of its trace and what the
// gateway counts are views of it. It knows neither HTTP nor clocks.
package receipts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/plan"
)

// Receipt is what is kept of one finished request: its JSON in GET /admin/receipts and in the log, the decisions for the
// request, their numbers, and the result. It never holds keys, and text only in Content. Scores are in nats, times in
// milliseconds, prices in USD. Fields may be added but never change their meaning; testdata/receipt.golden.json shows all of
// them. What the cascade tells is filled in by [Receipt.Encode]: encoding takes about 15 µs, and few receipts are read.
type Receipt struct {
	ID       string    `json:"id"`                          // the gateway's own; request ids sent to backends begin with it
	Client   string    `json:"client_request_id,omitempty"` // X-Request-ID as the client sent it
	Tenant   string    `json:"tenant"`
	Priority string    `json:"priority"`
	Time     time.Time `json:"time"` // of arrival
	Route    string    `json:"route"`
	Code     int       `json:"code"`            // HTTP status; 499: the client left; 597: broken off after its first byte
	Cache    string    `json:"cache,omitempty"` // result of the cache look-up
	Error    string    `json:"error,omitempty"` // error code, as the client sees it
	Trace    string    `json:"trace,omitempty"` // its id, if the trace is recorded

	Dropped []string `json:"dropped,omitempty"` // what had no effect of a request of another API, by its place

	TargetPool   string `json:"target_pool,omitempty"`   // of the conversation, on routes with several targets
	DivertedFrom string `json:"diverted_from,omitempty"` // target pool of the conversation, if it took no requests and target_pool answered

	Tier       string `json:"tier,omitempty"`       // source of the answer: draft, target, mixed, fallback
	Finish     string `json:"finish,omitempty"`     // finish_reason
	Acceptance string `json:"acceptance,omitempty"` // accepted, rejected, bypassed; empty if the cascade was not called

	FallbackUnused string `json:"fallback_unused,omitempty"` // why no fallback of the route answered after its own pools failed

	Settings      Settings         `json:"settings,omitzero"` // none if the cascade was not called
	Audit         *auditJSON       `json:"audit,omitempty"`   // modes risk and shadow: the evidence used
	Prices        economy.Prices   `json:"prices,omitzero"`   // of the route's tokens, if any price is known
	Plan          *planJSON        `json:"plan,omitempty"`
	Attempts      []dispatch.Try   `json:"attempts,omitempty"`
	Verdict       *verdictJSON     `json:"verdict,omitempty"`        // of the draft; absent if none was judged
	ScoreByToken  [][2]float64     `json:"score_by_token,omitempty"` // [tokens, running minimum of the score]
	Checks        []tiers.Check    `json:"checks,omitempty"`         // the target's checks of the draft
	Continuations []tiers.Failover `json:"continuations,omitempty"`  // continuations by the target
	Tokens        Tokens           `json:"tokens"`
	MS            msJSON           `json:"ms"`
	USD           *float64         `json:"usd"`              // cost of its work at backends; null: prices were unknown
	DraftUSD      *float64         `json:"draft_usd"`        // of that, of the draft's backends
	AloneUSD      *float64         `json:"target_alone_usd"` // what the target alone would have cost, by the same prices; null as above
	AuditUSD      float64          `json:"audit_usd"`        // cost of the work for its audits, which may go on after its end; not part of usd
	CacheSaved    float64          `json:"cache_saved_usd"`  // what a cached answer had cost to make

	Path       string         `json:"-"`
	Stream     bool           `json:"-"`
	Took       time.Duration  `json:"-"` // until the end of the answer
	LookedUpAt time.Time      `json:"-"` // start of the cache look-up in Redis
	Lookup     time.Duration  `json:"-"` // its duration; 0: there was none
	Limits     time.Duration  `json:"-"` // spent on the tenant's limits
	Model      string         `json:"-"` // of the pool that wrote the answer, "" if it is not known
	Cascade    *tiers.Receipt `json:"-"` // nil if the cascade was not called
	Content    *Content       `json:"-"` // for the trace alone; nil unless the tenant opted in
}

// Settings are the settings of the route that the decisions depend on; the thresholds are in verdictJSON.
type Settings struct {
	Mode              string        `json:"mode"`
	HoldbackTokens    int           `json:"holdback_tokens"`
	Holdback          time.Duration `json:"holdback_ms"`
	MidstreamFailover bool          `json:"midstream_failover"`
	EconomyGuard      bool          `json:"economy_guard"`
	ExploreRate       float64       `json:"explore_rate"`
}

// auditJSON is the evidence that a request was judged by.
type auditJSON struct {
	Policy       string `json:"policy"` // g<version of the grid>.a<alarms>.op<operating index>
	TrafficClass string `json:"traffic_class"`
	Audited      bool   `json:"audited"` // its draft is verified in the background
	Shadow       bool   `json:"shadow"`  // and the client does not see it
}

type planJSON struct {
	Tier         string            `json:"tier"`
	Judged       bool              `json:"judged"`             // the draft is judged
	Reason       string            `json:"reason,omitempty"`   // why not
	Mode         string            `json:"mode,omitempty"`     // acceptance mode
	Buffered     bool              `json:"buffered"`           // nothing is released before the whole draft is judged
	Verification string            `json:"verification"`       // when the target is asked: never, always, exact
	Scorer       string            `json:"scorer,omitempty"`   // scoring method: ids, text, judge
	Estimate     *economy.Estimate `json:"estimate,omitempty"` // absent if nothing was estimated
}

type verdictJSON struct {
	Accept    bool          `json:"accept"`
	Reason    string        `json:"reason"`
	Score     accept.Nats   `json:"score"`
	Threshold accept.Nats   `json:"threshold"`
	Tokens    int           `json:"tokens"` // tokens judged
	At        time.Duration `json:"at_ms"`  // time of the verdict, after ms.cascade_start
}

// Tokens are numbers of tokens.
type Tokens struct {
	Prompt    int `json:"prompt"`
	Drafted   int `json:"drafted"`
	Accepted  int `json:"accepted"`
	Wasted    int `json:"wasted"`
	Scored    int `json:"scored"` // tokens that the target computed for its checks, prompts included
	Target    int `json:"target"`
	Committed int `json:"committed"` // number of draft tokens at which the draft was committed; 0: never
}

type msJSON struct {
	Queued       time.Duration `json:"queued"`        // waited for capacity in the pools
	Draft        time.Duration `json:"draft"`         // spent on the draft
	Verify       time.Duration `json:"verify"`        // spent on checks
	Target       time.Duration `json:"target"`        // spent on the target's answer, or its part
	FirstByte    time.Duration `json:"first_byte"`    // until the answer's first byte
	Total        time.Duration `json:"total"`         // from arrival until the end
	CascadeStart time.Duration `json:"cascade_start"` // from arrival to the cascade's start, the zero of at_ms; 0: not called
	Limits       time.Duration `json:"limits"`        // spent on the tenant's limits, part of cascade_start
	Cache        time.Duration `json:"cache"`         // spent on the cache look-up in Redis, also part of cascade_start
}

// SettingsOf returns the settings of a receipt.
func SettingsOf(c *plan.Config) Settings {
	return Settings{
		Mode: string(c.Mode), HoldbackTokens: c.HoldbackTokens, Holdback: c.Holdback, MidstreamFailover: c.MidstreamFailover,
		EconomyGuard: c.Economy.Enabled, ExploreRate: c.Economy.ExploreRate,
	}
}

// Answer fills in what the cascade, or an entry of the cache, tells of the answer: tier, finish and tokens. Both may be nil.
func (r *Receipt) Answer(rc *tiers.Receipt, e *cache.Entry) {
	switch {
	case e != nil: // it may be large: nothing of it is kept
		r.Tier, r.Finish, r.CacheSaved = strings.Clone(e.Tier), strings.Clone(e.Finish), e.USD
		r.Tokens = Tokens{Prompt: e.Prompt, Accepted: e.Accepted, Target: e.Target}
	case rc != nil:
		r.Cascade, r.Tier, r.Finish = rc, string(rc.Tier), rc.Finish
		r.Tokens = Tokens{rc.PromptTokens, rc.DraftedTokens, rc.AcceptedTokens, rc.WastedTokens, rc.ScoredTokens, rc.TargetTokens, rc.Committed}
	}
}

// Word is the acceptance in one word: accepted, rejected, bypassed, or "" if the cascade was not called.
func (r *Receipt) Word() string {
	if r.Cascade == nil {
		return ""
	}
	word, _, _ := strings.Cut(r.Cascade.Acceptance(), ";")
	return word
}

// Encode returns the receipt as one line of JSON: 1.5 kB, at most 11 kB with names of usual length.
func (r *Receipt) Encode() []byte {
	out := *r
	out.Time, out.Acceptance = r.Time.UTC(), r.Word()
	out.USD, out.DraftUSD, out.AloneUSD = new(float64), new(float64), new(float64)
	if rc := r.Cascade; rc != nil {
		out.of(rc)
		out.MS.CascadeStart = max(rc.Began.Sub(r.Time), 0)
	}
	out.MS.Total, out.MS.Limits, out.MS.Cache = r.Took, r.Limits, r.Lookup
	b, err := json.Marshal(&out, asTold)
	if err != nil {
		panic(err) // only NaN and infinities cannot be encoded, and asTold replaces them
	}
	return b
}

// of fills in the cascade's receipt.
func (r *Receipt) of(rc *tiers.Receipt) {
	r.FallbackUnused = rc.Stayed
	known := func(usd float64) *float64 {
		if rc.Unpriced && usd == 0 {
			return nil
		}
		return &usd
	}
	r.USD, r.DraftUSD = known(rc.USD), known(rc.DraftUSD)
	if r.AloneUSD = nil; !rc.Unpriced {
		r.AloneUSD = new(rc.USD + rc.SavedUSD)
	}
	if rc.Audits != nil {
		r.AuditUSD = float64(rc.Audits.Load()) / 1e9
	}
	r.Plan = planOf(&rc.Decision, rc.Reason())
	if t := rc.Decision.Audit; t != nil {
		r.Audit = &auditJSON{t.Own.Policy(), t.Own.TrafficClass, t.Own.Audited, t.Shadow}
	}
	r.Attempts, r.Checks, r.Continuations = rc.Tries, slices.Clone(rc.Checks), rc.Failovers
	for i := range r.Checks {
		r.Checks[i].Reason = fmt.Sprintf("%.128s", r.Checks[i].Reason)
	}
	if w := rc.Verdict; w.Reason != "" {
		r.Verdict = &verdictJSON{w.Accept, w.Reason, w.Score, rc.Decision.Accept.Threshold, w.Tokens, rc.Judged}
	}
	for _, m := range rc.ScoreSeries {
		r.ScoreByToken = append(r.ScoreByToken, [2]float64{float64(m.Tokens), float64(m.Score)})
	}
	r.MS = msJSON{Queued: rc.Waited, Draft: rc.Draft, Verify: rc.Verify, Target: rc.Target, FirstByte: rc.First}
}

func planOf(p *plan.Decision, reason string) *planJSON {
	v := &planJSON{Tier: string(p.Tier), Judged: p.Judged, Reason: reason, Mode: string(p.Mode), Buffered: p.Whole, Verification: cmp.Or(string(p.Rule), "never"), Scorer: string(p.Scorer)}
	if s := &p.Estimate; s.Output > 0 {
		v.Estimate = s
	}
	return v
}

// asTold writes durations in milliseconds, with a precision of 1 µs, and numbers that JSON cannot hold as those next to them.
var asTold = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.WithMarshalers(json.JoinMarshalers(numbers[float64](), numbers[accept.Nats](),
	json.MarshalToFunc(func(to *jsontext.Encoder, d time.Duration) error {
		return to.WriteToken(jsontext.Float(float64(d.Microseconds()) / 1000))
	}))))

func numbers[T ~float64]() *json.Marshalers {
	return json.MarshalToFunc(func(to *jsontext.Encoder, v T) error {
		f := max(-math.MaxFloat64, min(float64(v), math.MaxFloat64))
		if math.IsNaN(f) {
			f = 0
		}
		return to.WriteToken(jsontext.Float(f))
	})
}
