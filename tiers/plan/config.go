package plan

import (
	"math"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/risk"
	"github.com/foregate/foregate/tiers/scoring"
)

// Mode says how a route uses its draft pool.
type Mode string

// The modes (setting speculation.mode), from the one that promises most of what a draft
// is kept by.
const (
	ModeOff        Mode = "off"        // every request goes to the target
	ModeVerify     Mode = "verify"     // a draft is kept as far as it is what the target would have written itself; above temperature 0 see Config.Sampled
	ModeLenient    Mode = "lenient"    // a draft is kept when every token of it is plausible to the target
	ModeJudge      Mode = "judge"      // a draft is kept when the target, asked in words, calls it right
	ModeConfidence Mode = "confidence" // a draft is kept when its own logprobs are good enough; doubtful ones may be checked
	ModeRisk       Mode = "risk"       // the same, by thresholds that audits have certified: see package risk
	ModeShadow     Mode = "shadow"     // drafts are made and audited in the background; every answer is the target's
)

// Audited reports whether drafts are judged by what audits have shown.
func (m Mode) Audited() bool { return m == ModeRisk || m == ModeShadow }

// Demand is what a request may ask of the acceptance logic: nothing, or something stricter
// than its route has (header X-Acceptance-Mode).
type Demand string

// The demands.
const (
	DemandDefault Demand = "default" // as the route has it
	DemandExact   Demand = "exact"   // the target's own answer, drafted or not
	DemandTarget  Demand = "target"  // no draft
)

// Stricter is the mode for a request with a demand on a route with a mode.
func (m Mode) Stricter(d Demand) Mode {
	switch {
	case d == DemandTarget:
		return ModeOff
	case d == DemandExact && m != ModeOff:
		return ModeVerify
	}
	return m
}

// HeadCheck says when the first tokens of a draft are checked by the target before they are
// released.
type HeadCheck string

// When.
const (
	HeadOff    HeadCheck = "off"
	HeadAuto   HeadCheck = "auto"   // of doubtful drafts, where it is expected to pay
	HeadAlways HeadCheck = "always" // of doubtful drafts, whether it pays or not
)

// MissingLogprobs says what becomes of a draft whose tokens came without logprobs.
type MissingLogprobs string

// What.
const (
	MissingLogprobsEscalate MissingLogprobs = "escalate" // the target answers
	MissingLogprobsCheck    MissingLogprobs = "ask"      // the target is asked about the whole of it
	MissingLogprobsAccept   MissingLogprobs = "accept"   // it is kept, if its structure is sound
)

// Reason is the word for it that a course of accept understands.
func (u MissingLogprobs) Reason() string {
	switch u {
	case MissingLogprobsCheck:
		return accept.ReasonDoubtful
	case MissingLogprobsAccept:
		return accept.ReasonConfident
	}
	return accept.ReasonNoLogprobs
}

// Config is what an operator may tune of one route's cascade, live. A request
// reads it once, when it is planned.
type Config struct {
	Mode   Mode
	Accept accept.Config

	HoldbackTokens  int           // a stream's tokens held back before the decision (speculation.holdback_tokens, 0 … 1024)
	Holdback        time.Duration // the decision is taken after this long at the latest (speculation.holdback_ms, 0 … 60000)
	MaxPromptTokens int           // prompts estimated longer than this many tokens are not drafted (speculation.max_prompt_tokens, 0 … 1000000)

	Strictness          accept.Strictness // by which the target judges a draft leniently (speculation.strictness)
	TieTolerance        accept.Nats       // by how much a token may miss the target's first choice in mode verify (speculation.tie_tolerance_nats, 0 … 1; 0 lets exact ties pass)
	BlockTokens         int               // tokens drafted between two checks in mode verify; 0 is the whole answer (speculation.verify_block_tokens, 0 … 256)
	AllowUncachedBlocks bool              // blocks also where engines compute the prompt anew for each (speculation.allow_uncached_blocks)
	JudgeThreshold      accept.Nats       // log odds of yes to no from which on a draft passes in mode judge (speculation.judge_threshold_nats, −20 … 20)
	HeadCheck           HeadCheck         // speculation.head_check
	ScoreAUROC          float64           // how well the draft's own score tells good drafts from bad: the chance that a good one scores higher, 0.5 … 1 (speculation.score_auroc)
	MidstreamFailover   bool              // whether the target carries on where an answer that has begun is lost or doubted (speculation.midstream_failover)
	OnMissingLogprobs   MissingLogprobs   // speculation.on_missing_logprobs
	EscalateRefusals    bool              // whether drafts that open like refusals go to the target (speculation.escalate_refusals)

	VerifySampled bool // mode verify above temperature 0, where that can be exact (speculation.verify_sampled)

	Risk    Risk           // of the modes risk and shadow
	Economy economy.Policy // economy.guard, .explore, .max_extra_ttft_ms
	Scoring scoring.Config // speculation.max_score_tokens, .score_at_once, .score_timeout

	MaxRetries  int     // further backends tried after the first, before the first byte (retry.max_retries, 0 … 10)
	RetryBudget float64 // share of requests in flight that may be retries, never below 10 (retry.budget, 0 … 1)

	Timeouts Timeouts
}

// Risk is how audits are taken, and what is promised by them.
type Risk struct {
	Rule                risk.Rule  // risk.max_wrong_rate, .delta; risk.lease_audits, .drift_run
	Rates               risk.Rates // risk.audit_rate; risk.cold_start_rate, .cold_per_minute, .boost, .explore
	Label               Label      // what makes an audited draft good (risk.label)
	MinPrefixShare      float64    // share of it that must be the target's own first choices, with LabelPrefix (risk.min_prefix_share, 0 … 1)
	AuditBudget         float64    // share of what the target costs that audits may cost on top (risk.audit_budget, 0 … 1; 0 is no bound)
	MaxConcurrentAudits int        // audits under way in one replica (risk.max_concurrent_audits, 0 … 1000)
	ScoreVersion        int        // version of the calibrated score; 0 is the plain one (risk.score_version)

	Warmup         bool          // in the warm-up of a kind of request drafts above a cautious threshold are served (risk.warmup)
	WarmupDuration time.Duration // how long it lasts at most (risk.warmup_duration, 1 minute … 24 hours)

	InheritFromRoute bool          // requests whose own kind has no certified threshold go by that of the whole route (risk.inherit_from_route)
	MaxStaleness     time.Duration // how long thresholds hold that nobody could look up (risk.max_staleness)
	ServeStale       bool          // they hold for longer, too (risk.on_stale)

	AllowLowScore     bool        // tenants that allow it may get drafts beyond the threshold while the target is short of memory (speculation.allow_low_score_under_pressure)
	PressureThreshold accept.Nats // the least score of these (speculation.pressure_threshold_nats, −20 … 20)
}

// Label says what makes an audited draft good.
type Label string

// The labels (setting risk.label).
const (
	LabelLenient    Label = "lenient"       // every token of it is plausible to the target, by speculation.strictness
	LabelJudge      Label = "judge"         // the target, asked in words, calls it right
	LabelRegenerate Label = "regenerate"    // the target's own answer says the same, or it calls the draft right
	LabelPrefix     Label = "greedy_prefix" // the target's own first choices go as far as risk.min_prefix_share of it
)

// Fingerprint says in a few characters how drafts are judged: equal for equal rules.
func (c *Config) Fingerprint() string {
	b := append(make([]byte, 0, 160), c.Mode...)
	for _, word := range [...]string{string(c.Strictness), string(c.HeadCheck), string(c.OnMissingLogprobs)} {
		b = append(append(b, ' '), word...)
	}
	b = strconv.AppendBool(append(b, ' '), c.EscalateRefusals)
	b = strconv.AppendBool(append(b, ' '), c.VerifySampled)
	// Without takeover a draft that has begun is kept though its score falls.
	b = strconv.AppendBool(append(b, ' '), c.MidstreamFailover)
	// The threshold of an audited mode is not the setting's.
	if c.Mode.Audited() {
		r := &c.Risk
		b = append(append(append(b, ' '), r.Label...), ' ')
		b = strconv.AppendUint(append(b, ' '), math.Float64bits(r.Rule.MaxWrongRate), 16)
		b = strconv.AppendUint(append(b, ' '), math.Float64bits(r.Rule.ErrorProbability), 16)
		b = strconv.AppendUint(append(b, ' '), math.Float64bits(r.MinPrefixShare), 16)
		b = strconv.AppendUint(append(b, ' '), math.Float64bits(float64(c.JudgeThreshold)), 16)
		return string(strconv.AppendInt(append(b, ' '), int64(r.ScoreVersion), 10))
	}
	a := &c.Accept
	for _, v := range [...]accept.Nats{a.Threshold, a.Band, a.MeanOffset, a.WindowOffset, a.EntropyOffset, c.TieTolerance, c.JudgeThreshold} {
		b = strconv.AppendUint(append(b, ' '), math.Float64bits(float64(v)), 16) // the decimals take ten times as long
	}
	return string(b)
}

// Timeouts bound every phase of an upstream call.
type Timeouts struct {
	DraftFirstToken    time.Duration // timeout.draft_first_token: the draft's first token
	TargetFirstToken   time.Duration // timeout.target_first_token: the target's first token, for a prompt of up to 4,000 tokens; longer prompts get proportionally more
	StreamIdle         time.Duration // timeout.stream_idle: the longest silence inside a stream
	Total              time.Duration // timeout.total: the whole request
	MaxTotal           time.Duration // timeout.max_total: the same where max_tokens need longer than Total; not above Total, and 0, is off
	MinTokensPerSecond float64       // timeout.min_tokens_per_s: of one answer, on a healthy backend; 0 is 5
}
