package plan

import (
	"math"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/risk"
)

// Mode says how a route uses its draft pool.
type Mode string

// The modes (setting speculation.mode).
const (
	ModeOff        Mode = "off"        // every request goes to the target
	ModeVerify     Mode = "verify"     // a draft is kept up to the last token that the target stands by, by Config.VerifyRule
	ModeConfidence Mode = "confidence" // a draft is kept if its own logprobs are good enough; the target may check doubtful ones
	ModeRisk       Mode = "risk"       // the same, with thresholds that audits have certified (package risk)
	ModeShadow     Mode = "shadow"     // drafts are made and audited in the background; every answer is the target's
)

// Audited reports whether the thresholds of the mode come from audits.
func (m Mode) Audited() bool { return m == ModeRisk || m == ModeShadow }

// Demand is what a request may demand (header X-Acceptance-Mode): its route's mode or a stricter one.
type Demand string

// The demands.
const (
	DemandDefault Demand = "default" // as the route has it
	DemandExact   Demand = "exact"   // the target's own answer, drafted or not
	DemandTarget  Demand = "target"  // no draft
)

// Stricter returns the settings for a request with a demand on a route with these.
func (c Config) Stricter(d Demand) Config {
	switch {
	case d == DemandTarget:
		c.Mode = ModeOff
	case d == DemandExact && c.Mode != ModeOff:
		c.Mode, c.VerifyRule = ModeVerify, RuleExact
	}
	return c
}

// VerifyRule says by which tokens of a draft the target stands in mode verify.
type VerifyRule string

// The rules (setting speculation.verify_rule).
const (
	RuleExact   VerifyRule = "exact"   // those that it would have written itself
	RuleLenient VerifyRule = "lenient" // those that are plausible to it
)

// IsExact reports whether only the target's own tokens are served.
func (c *Config) IsExact() bool { return c.Mode == ModeVerify && c.VerifyRule != RuleLenient }

// Config holds the live settings of one route's cascade. A request reads them once, when it is planned.
type Config struct {
	Mode   Mode
	Accept accept.Config

	HoldbackTokens  int           // tokens of a stream held back before the decision (speculation.holdback_tokens, 0 … 1024)
	Holdback        time.Duration // time limit for the decision (speculation.holdback_ms, 0 … 60000)
	MaxPromptTokens int           // prompts estimated longer than this many tokens are not drafted (speculation.max_prompt_tokens, 0 … 1000000)

	VerifyRule        VerifyRule // of mode verify (speculation.verify_rule)
	MidstreamFailover bool       // whether the target continues an answer whose backend failed or whose draft was rejected after the first byte (speculation.midstream_failover)

	VerifyDrafts VerifyDrafts // which served drafts the target checks before they are kept for other requests (cache.verify_drafts)

	Risk    Risk           // of the modes risk and shadow
	Economy economy.Policy // economy.guard, economy.explore_rate

	MaxConcurrentScores int // scores under way at one backend, of this replica; none at 0 (speculation.max_concurrent_scores)

	MaxRetries  int     // retries on other backends before the first byte (retry.max_retries, 0 … 10)
	RetryBudget float64 // share of requests in flight that may be retries, never below 10 (retry.budget, 0 … 1)

	Timeouts Timeouts
}

// What no operator can choose better; tests set other values in [Risk].
const (
	// AuditBoost is the factor by which more drafts are audited while a drift is suspected, so that four times fewer
	// requests pass before the alarm, and after the first certificate while the target has spare capacity.
	AuditBoost = 4
	// FullRangeShare is the share of the audits that have no floor. The frontier and a refit rest on them alone.
	FullRangeShare = 0.2
	// ColdStartShare is the largest share of requests that are drafted in the background while no threshold is certified.
	ColdStartShare = 0.5
	// ExploreShare is the share of requests that are drafted in the background in a traffic class in which no threshold
	// can be certified, to notice if that changes.
	ExploreShare = 0.02
	// DriftRunLength is the least average number of audits between two false drift alarms (docs/measurements.md).
	DriftRunLength = 1000
	// WarmupDuration bounds the warm-up of a traffic class: a certificate takes 40 to 500 audits.
	WarmupDuration = time.Hour
)

// Risk configures audits and the promise.
type Risk struct {
	Rule                risk.Rule  // risk.max_disagreement, .error_probability, .lease_audits
	Rates               risk.Rates // risk.audit_rate, .cold_start_audits_per_minute
	Label               Label      // what makes an audited draft good (risk.label)
	AuditBudget         float64    // cost of audits as a share of the target's cost (risk.audit_budget, 0 … 1; 0: no bound)
	MaxConcurrentAudits int        // audits under way in one replica (risk.max_concurrent_audits, 0 … 1000)
	Refit               bool       // whether the score is refitted in the background (risk.refit)

	Warmup         bool          // whether a new traffic class is served drafts above a cautious threshold (risk.warmup)
	WarmupDuration time.Duration // how long it lasts at most

	MaxStaleness time.Duration // how long thresholds stay valid while Redis cannot be read (risk.max_staleness)
}

// Label says what makes an audited draft good.
type Label string

// The labels (setting risk.label).
const (
	LabelLenient    Label = "lenient"    // every token is plausible to the target
	LabelExact      Label = "exact"      // every token is the target's own first choice, up to ties
	LabelJudge      Label = "judge"      // the target, asked in words, calls it correct
	LabelRegenerate Label = "regenerate" // the target's own answer is the same, or the target calls the draft correct
)

// VerifyDrafts says which served drafts the target checks before they are kept for other requests.
type VerifyDrafts string

// The values of cache.verify_drafts.
const (
	VerifyNever    VerifyDrafts = "never"
	VerifyDoubtful VerifyDrafts = "doubtful" // those whose score is little above the threshold
	VerifyAlways   VerifyDrafts = "always"   // all that only their score accepted
)

// Checks reports whether any drafts are checked.
func (v VerifyDrafts) Checks() bool { return v == VerifyDoubtful || v == VerifyAlways }

// fingerprint returns a short text that is equal for equal judging rules.
func (c *Config) fingerprint() string {
	b := append(make([]byte, 0, 160), c.Mode...)
	b = append(append(b, ' '), c.VerifyRule...)
	b = append(append(b, ' '), c.VerifyDrafts...) // with a stricter one, answers that were kept before are not served
	// Without mid-stream failover a draft that has begun is kept even if its score falls.
	b = strconv.AppendBool(append(b, ' '), c.MidstreamFailover)
	if r := &c.Risk; c.Mode.Audited() {
		b = append(append(append(b, ' '), r.Label...), ' ')
		b = strconv.AppendUint(append(b, ' '), math.Float64bits(r.Rule.MaxDisagreement), 16) // ten times as fast as decimals
		b = strconv.AppendUint(append(b, ' '), math.Float64bits(r.Rule.ErrorProbability), 16)
	}
	return string(b)
}

// Timeouts bound the phases of an upstream call.
type Timeouts struct {
	DraftFirstToken    time.Duration // timeout.draft_first_token: the draft's first token
	TargetFirstToken   time.Duration // timeout.target_first_token: the target's first token, for a prompt of up to 4,000 tokens; longer prompts get proportionally more
	StreamIdle         time.Duration // timeout.stream_idle: between two events of a stream
	Total              time.Duration // timeout.total: the whole request
	MaxTotal           time.Duration // timeout.max_total: the whole request if max_tokens needs longer than Total; off if it is not above Total
	MinTokensPerSecond float64       // timeout.min_tokens_per_s: of one answer, on a healthy backend; 0 is 5
}
