package gateway

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"time"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
)

// receiptJSON is a receipt as GET /admin/receipts and the log tell it: what was decided
// for one request, by which numbers, and what came of it. It never holds text, prompts or
// keys. Scores are in nats, times in milliseconds, prices in USD. Fields are added and
// never change their meaning; testdata/receipt.golden.json shows all there are.
type receiptJSON struct {
	ID       string    `json:"id"`                          // the gateway's own; request ids that backends were told begin with it
	Client   string    `json:"client_request_id,omitempty"` // X-Request-ID as the client sent it
	Tenant   string    `json:"tenant"`
	Priority string    `json:"priority"`
	Time     time.Time `json:"time"` // it came
	Route    string    `json:"route"`
	Code     int       `json:"code"`            // HTTP status; 499: the client left; 597: broken off after its first byte
	Cache    string    `json:"cache,omitempty"` // what came of the cache
	Error    string    `json:"error,omitempty"` // its code, as the client is told
	Trace    string    `json:"trace,omitempty"` // its id, where the trace is recorded

	Tier       string `json:"tier,omitempty"`       // that the answer came from: draft, target, mixed
	Finish     string `json:"finish,omitempty"`     // finish_reason
	Acceptance string `json:"acceptance,omitempty"` // accepted, rejected, bypassed; none where the cascade was not asked

	Settings      *settingsJSON      `json:"settings,omitempty"`
	Audit         *auditJSON         `json:"audit,omitempty"`  // modes risk and shadow: what it was judged by
	Prices        *pricesJSON        `json:"prices,omitempty"` // of the route's tokens, where any is known
	Plan          *planJSON          `json:"plan,omitempty"`
	Attempts      []attemptJSON      `json:"attempts,omitempty"`
	Verdict       *verdictJSON       `json:"verdict,omitempty"`        // of the draft; none where none was judged
	ScoreByToken  [][2]float64       `json:"score_by_token,omitempty"` // [tokens, running minimum of the score]
	Checks        []checkJSON        `json:"checks,omitempty"`         // what the target said of the draft
	Continuations []continuationJSON `json:"continuations,omitempty"`  // where the target carried on
	Tokens        tokensJSON         `json:"tokens"`
	MS            msJSON             `json:"ms"`
	USD           float64            `json:"usd"` // its share of the price of the backends that worked for it
}

// settingsJSON are the settings that were in force; the thresholds are in verdictJSON.
type settingsJSON struct {
	Mode              string  `json:"mode"`
	HeadCheck         string  `json:"head_check"`
	Band              float64 `json:"band_nats"`
	Holdback          int     `json:"holdback_tokens"`
	HoldbackMS        float64 `json:"holdback_ms"`
	MidstreamFailover bool    `json:"midstream_failover"`
	EconomyGuard      bool    `json:"economy_guard"`
	ExploreRate       float64 `json:"explore_rate"`
	MaxTTFT           float64 `json:"max_extra_ttft_ms"`
}

// auditJSON is the evidence that a request went by.
type auditJSON struct {
	Policy       string `json:"policy"` // g<version of the grid>.a<alarms>.op<operating index>
	TrafficClass string `json:"traffic_class"`
	Audited      bool   `json:"audited"` // its draft is asked about in the background
	Shadow       bool   `json:"shadow"`  // and the client sees nothing of it
	Inherited    bool   `json:"inherited,omitempty"`
}

// pricesJSON are USD per token; 0 is unknown.
type pricesJSON struct {
	DraftPrefill  float64 `json:"draft_prefill"`
	DraftDecode   float64 `json:"draft_decode"`
	TargetPrefill float64 `json:"target_prefill"`
	TargetDecode  float64 `json:"target_decode"`
}

type planJSON struct {
	Tier          string        `json:"tier"`
	Judged        bool          `json:"judged"`                    // the draft is judged
	Reason        string        `json:"reason,omitempty"`          // why it is not
	Mode          string        `json:"mode,omitempty"`            // by which it is
	Buffered      bool          `json:"buffered"`                  // nothing is released before the whole draft was judged
	Verification  string        `json:"verification"`              // when the target is asked: never, doubt, always, exact
	Scorer        string        `json:"scorer,omitempty"`          // and how: ids, text, judge
	Block         int           `json:"block_tokens,omitempty"`    // tokens between two checks
	AllowLowScore bool          `json:"allow_low_score,omitempty"` // a draft below the threshold may be the answer
	Estimate      *estimateJSON `json:"estimate,omitempty"`        // none where nothing was reckoned
}

type estimateJSON struct {
	Prompt     float64 `json:"prompt_tokens"` // tokens
	Output     float64 `json:"output_tokens"`
	Holdback   float64 `json:"holdback_tokens"`
	Acceptance float64 `json:"acceptance"` // that was reckoned with
	Samples    float64 `json:"samples"`
	TargetUSD  float64 `json:"target_usd"` // of asking the target alone
	DraftUSD   float64 `json:"draft_usd"`  // expected of asking the draft first
	Saving     float64 `json:"saving_usd"`
	BreakEven  float64 `json:"break_even"` // acceptance from which on drafts pay
	ExtraTTFT  float64 `json:"extra_ttft_ms"`
	Explored   bool    `json:"explored"`
}

type attemptJSON struct {
	Pool       string  `json:"pool"`
	Backend    string  `json:"backend"`
	Failed     string  `json:"failed,omitempty"`
	Score      bool    `json:"score,omitempty"`      // it was asked about the draft
	Role       string  `json:"role"`                 // draft, target, score, tokenize
	BrokenOff  string  `json:"broken_off,omitempty"` // why it broke off after its first byte
	Queued     float64 `json:"queued_ms,omitempty"`  // for room, before it
	At         float64 `json:"at_ms"`                // when it was begun, after ms.began
	FirstToken float64 `json:"first_token_ms"`       // from then until its first event; 0: none came
	MS         float64 `json:"ms"`                   // from then until it was over
	Call       string  `json:"call,omitempty"`       // its backend was told ID-CALL as the request's id
}

type verdictJSON struct {
	Accept    bool    `json:"accept"`
	Reason    string  `json:"reason"`
	Cohort    string  `json:"cohort,omitempty"` // by whose word: conf, head, whole
	Score     float64 `json:"score"`
	Threshold float64 `json:"threshold"`
	Band      float64 `json:"band"`
	Tokens    int     `json:"tokens"` // that were judged
	At        float64 `json:"at_ms"`  // when it stood, after ms.began
}

type checkJSON struct {
	Scorer  string  `json:"scorer"`
	Backend string  `json:"backend,omitempty"`
	Tokens  int     `json:"tokens"`
	Kept    int     `json:"kept"`
	Pass    bool    `json:"pass"`
	Score   float64 `json:"score"`
	Reason  string  `json:"reason"`
	MS      float64 `json:"ms"`
	At      float64 `json:"at_ms"` // when it was asked, after ms.began
}

type continuationJSON struct {
	Reason string  `json:"reason"`
	Tokens int     `json:"tokens"` // of the answer before it
	Bytes  int     `json:"bytes"`
	At     float64 `json:"at_ms"` // after ms.began
}

type tokensJSON struct {
	Prompt    int `json:"prompt"`
	Drafted   int `json:"drafted"`
	Accepted  int `json:"accepted"`
	Wasted    int `json:"wasted"`
	Scored    int `json:"scored"` // that the target computed for its checks, prompts included
	Target    int `json:"target"`
	Committed int `json:"committed"` // draft tokens at which the draft was committed; 0 never
}

type msJSON struct {
	Queued       float64 `json:"queued"`        // for room at the pools
	Draft        float64 `json:"draft"`         // spent on the draft
	Verify       float64 `json:"verify"`        // spent on checks
	Target       float64 `json:"target"`        // spent on the target's answer, or its part of one
	FirstByte    float64 `json:"first_byte"`    // until the answer's first byte
	Total        float64 `json:"total"`         // from when the request came until its end
	CascadeStart float64 `json:"cascade_start"` // from when it came until the cascade took it up: what at_ms and first count from; 0 where it did not
	Limits       float64 `json:"limits"`        // spent on its tenant's limits, which is part of began
	Cache        float64 `json:"cache"`         // spent on looking for a kept answer in Redis, also part of it
}

// encode is the receipt as JSON in one line: 1.5 kB, and at most 11 where names are of ordinary
// length.
func (f *keptReceipt) encode() []byte {
	v := receiptJSON{
		ID: f.id, Client: f.client, Tenant: f.tenant, Priority: f.class.String(), Time: f.time.UTC(), Route: f.route,
		Code: f.code, Cache: string(f.cache), Error: f.problem, Acceptance: f.acceptance(),
		Tier: f.cached.tier, Finish: f.cached.finish,
		Tokens: tokensJSON{Prompt: f.cached.prompt, Accepted: f.cached.accepted, Target: f.cached.target},
	}
	if rc := f.receipt; rc != nil {
		v.of(rc)
		v.MS.CascadeStart = milliseconds(max(rc.Began.Sub(f.time), 0))
		if f.prices != (pricesJSON{}) {
			v.Prices = &f.prices
		}
		if f.rules.mode != "" {
			v.Settings = f.rules.json()
		}
	}
	if f.trace != [16]byte{} {
		v.Trace = hex.EncodeToString(f.trace[:])
	}
	v.MS.Total, v.MS.Limits, v.MS.Cache = milliseconds(f.total), milliseconds(f.limits), milliseconds(f.lookup)
	b, err := json.Marshal(&v)
	if err != nil {
		panic(err) // only numbers that are not finite cannot be encoded, and there are none
	}
	return b
}

func (r *receiptSettings) json() *settingsJSON {
	return &settingsJSON{
		Mode: string(r.mode), HeadCheck: string(r.headCheck), Band: finite(r.band), Holdback: r.holdback, HoldbackMS: milliseconds(r.holdbackTime), MidstreamFailover: r.midstreamFailover,
		EconomyGuard: r.economyGuard, ExploreRate: finite(r.exploreRate), MaxTTFT: milliseconds(r.maxTTFT),
	}
}

// of fills in what the cascade tells.
func (v *receiptJSON) of(rc *receipt.Receipt) {
	v.Tier, v.Finish, v.USD = string(rc.Tier), rc.Finish, finite(rc.USD)
	v.Plan = planOf(&rc.Plan)
	if t := rc.Audit; t != nil {
		v.Audit = &auditJSON{t.Policy(), t.Own.Key.TrafficClass, t.IsAudited(), t.Shadow, t.Inherited}
	}
	for _, t := range rc.Tries {
		call := ""
		if t.Call > 0 {
			call = dispatch.CallName(t.Call)
		}
		v.Attempts = append(v.Attempts, attemptJSON{
			t.Pool, t.Backend, string(t.Failed), t.Score, string(t.Role), string(t.Broke),
			milliseconds(t.Waited), milliseconds(t.At), milliseconds(t.First), milliseconds(t.Took), call,
		})
	}
	if w := rc.Verdict; w.Reason != "" {
		v.Verdict = &verdictJSON{w.Accept, w.Reason, string(w.Cohort), finite(w.Score), finite(rc.Needed), finite(rc.Band), w.Tokens, milliseconds(rc.Judged)}
	}
	for _, m := range rc.ScoreSeries {
		v.ScoreByToken = append(v.ScoreByToken, [2]float64{float64(m.Tokens), finite(m.Score)})
	}
	for _, c := range rc.Checks {
		v.Checks = append(v.Checks, checkJSON{string(c.Scorer), c.Backend, c.Tokens, c.Kept, c.Pass, finite(c.Score), clip(c.Reason), milliseconds(c.Took), milliseconds(c.At)})
	}
	for _, o := range rc.Failovers {
		v.Continuations = append(v.Continuations, continuationJSON{o.Why, o.Tokens, o.Bytes, milliseconds(o.At)})
	}
	v.Tokens = tokensJSON{rc.PromptTokens, rc.DraftedTokens, rc.AcceptedTokens, rc.WastedTokens, rc.ScoredTokens, rc.TargetTokens, rc.Committed}
	v.MS = msJSON{Queued: milliseconds(rc.Waited), Draft: milliseconds(rc.Draft), Verify: milliseconds(rc.Verify), Target: milliseconds(rc.Target), FirstByte: milliseconds(rc.First)}
}

// verificationNames are the words for when the target is asked, by the values of accept.CheckPolicy.
var verificationNames = [...]string{"never", "doubt", "always", "exact"}

func planOf(p *plan.Plan) *planJSON {
	v := &planJSON{Tier: string(p.Tier), Judged: p.Judged, Reason: p.Reason, Mode: string(p.Mode), Buffered: p.Whole, Verification: verificationNames[p.CheckPolicy], Scorer: string(p.Scorer), Block: p.Block, AllowLowScore: p.AllowLowScore}
	if s := &p.Estimate; s.Output > 0 {
		v.Estimate = &estimateJSON{
			Prompt: finite(s.Prompt), Output: finite(s.Output), Holdback: finite(s.Held), Acceptance: finite(s.Acceptance), Samples: finite(s.Samples),
			TargetUSD: finite(s.TargetUSD), DraftUSD: finite(s.DraftUSD), Saving: finite(s.SavingUSD()), BreakEven: finite(s.BreakEven),
			ExtraTTFT: milliseconds(s.ExtraTTFT), Explored: s.Explored,
		}
	}
	return v
}

// finite brings a number to what JSON can hold.
func finite[T ~float64](v T) float64 {
	switch f := float64(v); {
	case math.IsNaN(f):
		return 0
	case math.IsInf(f, 0):
		return math.Copysign(math.MaxFloat64, f)
	default:
		return f
	}
}

// milliseconds are told to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
