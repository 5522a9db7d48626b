package plan

import (
	"math"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/economy"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/prefix"
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

// Demand is what a request may demand of its route, by headers. The zero value demands nothing.
type Demand struct {
	Tier Tier       // X-Tier: who must answer; "" is Auto
	Mode DemandMode // X-Acceptance-Mode: a stricter mode than the route's; "" is DemandDefault
}

// DemandMode is the route's mode or a stricter one.
type DemandMode string

// The modes that may be demanded.
const (
	DemandDefault DemandMode = "default" // as the route has it
	DemandExact   DemandMode = "exact"   // the target's own answer, drafted or not
	DemandTarget  DemandMode = "target"  // no draft
)

// IsStricter reports whether a draft is to be judged more strictly than the route has it.
func (d Demand) IsStricter() bool { return d.Mode != "" && d.Mode != DemandDefault }

// IsAny reports whether anything is demanded.
func (d Demand) IsAny() bool { return d.Tier != "" && d.Tier != Auto || d.IsStricter() }

// Stricter returns the settings for a request with a demand on a route with these.
func (c Config) Stricter(d Demand) Config {
	switch {
	case d.Mode == DemandTarget:
		c.Mode, c.ByApplication = ModeOff, false
	case d.Mode == DemandExact && c.Mode != ModeOff:
		c.Mode, c.VerifyRule = ModeVerify, RuleExact
	}
	return c
}

// Application is what operators have set for one application of a route.
type Application struct {
	Mode Mode   // in place of the route's; "": the route's
	Name string // for people, in place of its fingerprint; "": none
}

// Of returns the settings for a request of an application.
func (c Config) Of(a Application) Config {
	if a.Mode != "" {
		c.Mode, c.ByApplication = a.Mode, true
	}
	return c
}

// ForLow returns the settings for a request of priority low: those of its route, or with the bound of its own where there is one.
func (c Config) ForLow() Config {
	if c.Risk.Rule.MaxDisagreementLow > 0 {
		c.Risk.Low = true
		c.Risk.Rule = c.Risk.Rule.For(risk.LowPriority)
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

// Config holds the live settings of one route's cascade, which its tags declare. A request reads them once, when it is planned.
type Config struct {
	Mode   Mode `setting:"speculation.mode,application" default:"risk" choice:"off,shadow,confidence,risk,verify" doc:"How a route uses its draft pool. 'off': the target answers everything. 'risk': a draft is served if its score reaches a threshold that audits have certified. 'confidence': a draft is served if its score reaches 'speculation.threshold_nats'. 'shadow': drafts are audited and never served. 'verify': the target scores the whole draft before anything is sent; the answer is the draft up to the last token that the target stands by ('speculation.verify_rule'), and the target continues from there. 'speculation.mode@ROUTE#TENANT/APPLICATION' sets it for one application, and 'application.name@ROUTE#TENANT/APPLICATION' gives that a name in tables and metrics ('foregate risk applications' lists them)."`
	Accept accept.Config

	ByApplication bool // the mode is that of the request's application

	When            When          `setting:"speculation.when" default:"always" choice:"always,scarce" doc:"When a route makes drafts. 'always': of all requests that may be drafted. 'scarce': only while the target is short of room: from a KV usage of 0.5 on, or when requests queue for its seats, until the usage is below 0.3 and a fifth of the seats are free again. Otherwise the target answers, and in the modes 'risk' and 'shadow' some drafts are made and audited in the background, so that thresholds are certified when they are needed."`
	HoldbackTokens  int           `setting:"speculation.holdback_tokens" default:"32" min:"0" max:"1024" doc:"Tokens of a streamed draft that are held back until the draft is judged. Each token adds the time of one decode step to the time to first token."`
	Holdback        time.Duration `setting:"speculation.holdback_ms" default:"1200" scale:"1e6" min:"0" max:"60000" doc:"Longest hold-back of a streamed draft, in milliseconds. After this time the draft is judged if it has at least 8 tokens."`
	MaxPromptTokens int           `setting:"speculation.max_prompt_tokens" default:"4000" min:"0" max:"1000000" doc:"Longest prompt, in estimated tokens, that is drafted. The target answers longer ones directly."`

	VerifyRule        VerifyRule `setting:"speculation.verify_rule" default:"exact" choice:"exact,lenient" doc:"Mode 'verify': the rule by which the target stands by a draft's tokens. 'exact': only what the target would have generated itself at temperature 0; requests above temperature 0 go to the target. 'lenient': every token is plausible to the target."`
	MidstreamFailover bool       `setting:"speculation.midstream_failover" default:"yes" choice:"yes,no" doc:"What happens to a stream that has begun if its backend is lost, or if the draft's score falls below the threshold. 'yes': the target continues the answer. 'no': a stream with a lost backend ends with an error, and a draft below the threshold is continued by the draft pool."`

	VerifyDrafts VerifyDrafts `setting:"cache.verify_drafts" default:"doubtful" choice:"never,doubtful,always" doc:"Which drafts the target checks, in the background and in one prefill, before the cache keeps them. 'doubtful': those that were served with a score little above the threshold (in the modes 'risk' and 'shadow', within the loosest two certified thresholds; in mode 'confidence', within 0.3 nats), and those of a warm-up. 'always': all that only their score accepted. 'never': none. What fails is not kept, and the target answers the next identical request. A doubtful draft that cannot be checked, because the target has neither spare capacity nor audit budget ('risk.audit_budget') left, is not kept either. Where a draft is audited, its audit decides. A check is no evidence for a threshold."`

	Risk    Risk           // of the modes risk and shadow
	Economy economy.Policy // economy.guard, economy.explore_rate

	MaxConcurrentScores int `setting:"speculation.max_concurrent_scores" default:"4" min:"0" max:"1000" doc:"Scoring calls that one replica may have in flight at one target backend. Drafts beyond it are handled as if the target could not be asked."`

	MaxRetries  int     `setting:"retry.max_retries" default:"2" min:"0" max:"10" doc:"Backends that are tried after the first one fails before the first byte."`
	RetryBudget float64 `setting:"retry.budget" default:"0.2" min:"0" max:"1" doc:"Largest share of requests in flight that may be retries, and never fewer than 10 requests. Retries after a refused or broken connection do not count."`

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
	Rule                risk.Rule  // risk.max_disagreement, .max_disagreement_low, .error_probability, .lease_audits
	Low                 bool       // the request is of priority low, and the rule is for such requests alone
	Rates               risk.Rates // risk.audit_rate, .cold_start_audits_per_minute
	Label               Label      `setting:"risk.label" default:"lenient" choice:"lenient,exact,judge,regenerate" doc:"How an audit decides whether a draft is good. 'lenient': its tokens are plausible to the target. 'exact': each token is the target's own first choice. 'judge': the target says in words that it is right. 'regenerate': the target's own answer is the same, or the target, who compares both, says that they say the same."`
	AuditBudget         float64    `setting:"risk.audit_budget" default:"0.03" min:"0" max:"1" doc:"Largest cost of audits, as a share of what the target alone would cost for all requests of the route, computed from token prices; 0 means no limit. During the first hour of a traffic class an audit counts only while the target's KV usage is above 0.5 or requests wait there; otherwise only 'risk.max_concurrent_audits' limits it. An audit that counts is made even where the operator's own target is full: a target that waits for the evidence that drafts need would stay full."`
	AuditUSDPerDay      float64    `setting:"risk.audit_dollars_per_day" default:"10" min:"0" max:"1000000" doc:"US dollars that audits of the route may cost in a day at a target that is paid by the token, over all replicas and evenly over the day; 0 means no limit but 'risk.audit_budget'. Audits stop where either is used up."`
	MaxConcurrentAudits int        `setting:"risk.max_concurrent_audits" default:"16" min:"0" max:"1000" doc:"Background drafts and audits that one replica may have in flight; 0 turns them off."`
	Refit               bool       `setting:"risk.refit" default:"auto" choice:"auto,off" doc:"Whether a score is fitted to the audits in the background. 'auto': a fitted score that is clearly better becomes a candidate. While audits certify it, they are of drafts with any score. It judges drafts when it is certified for as many drafts as the score in force. 'off': the plain score judges drafts."`

	Warmup         bool          `setting:"risk.warmup" default:"serve" choice:"serve,shadow" doc:"What happens in a new traffic class until a threshold is certified. 'serve': drafts above a cautious threshold are served from the first minute, marked 'phase=warmup', and audited as far as the target has capacity. 'shadow': nothing unproven is served; drafts are made and audited in the background. The warm-up ends when a threshold is certified, when too many drafts are wrong, or after one hour."`
	WarmupDuration time.Duration // how long it lasts at most

	MaxStaleness time.Duration `setting:"risk.max_staleness" default:"60s" min:"1s" max:"24h" doc:"How long a certified threshold stays valid if it cannot be refreshed from Redis. Then no draft is accepted."`
}

// Label says what makes an audited draft good.
type Label string

// The labels (setting risk.label).
const (
	LabelLenient    Label = "lenient"    // every token is plausible to the target
	LabelExact      Label = "exact"      // every token is the target's own first choice, up to ties
	LabelJudge      Label = "judge"      // the target, asked in words, calls it correct
	LabelRegenerate Label = "regenerate" // the target's own answer is the same, or says the same in the target's own words
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
	if r := &c.Risk; c.Mode.Audited() {
		b = append(append(append(b, ' '), r.Label...), ' ')
		b = strconv.AppendUint(append(b, ' '), math.Float64bits(r.Rule.MaxDisagreement), 16) // ten times as fast as decimals
		b = strconv.AppendUint(append(b, ' '), math.Float64bits(r.Rule.ErrorProbability), 16)
	}
	return string(b)
}

// Timeouts bound the phases of an upstream call.
type Timeouts struct {
	DraftFirstToken    time.Duration `setting:"timeout.draft_first_token" default:"5s" min:"10ms" max:"1h" doc:"Longest wait for the first token of the draft pool."`
	TargetFirstToken   time.Duration `setting:"timeout.target_first_token" default:"30s" min:"10ms" max:"1h" doc:"Longest wait for the first token of the target pool with a prompt of up to 4,000 tokens. Longer prompts get proportionally more time."`
	StreamIdle         time.Duration `setting:"timeout.stream_idle" default:"20s" min:"10ms" max:"1h" doc:"Longest pause between two chunks of a backend's stream."`
	Total              time.Duration `setting:"timeout.total" default:"600s" min:"10ms" max:"24h" doc:"Longest time for a whole request. 'timeout.max_total' gives requests with long answers more."`
	MaxTotal           time.Duration `setting:"timeout.max_total" default:"0s" min:"0s" max:"24h" doc:"Longest time for a whole request whose 'max_tokens' need more than 'timeout.total'. Such a request gets 'timeout.target_first_token', plus 'max_tokens' ÷ 'timeout.min_tokens_per_s', plus one minute; a request without 'max_tokens' gets this value. 0s, or a value not above 'timeout.total', turns it off. Set 'drain.grace' and the timeouts of proxies in front accordingly."`
	MinTokensPerSecond float64       `setting:"timeout.min_tokens_per_s" default:"5" min:"0.1" max:"10000" doc:"Slowest rate, in tokens per second, at which a healthy backend generates one answer. It sets how long a non-streamed answer may take for its 'max_tokens'; 'timeout.max_total' uses it too."` // 0 is 5
}

const (
	// promptUnit is the prompt length in tokens up to which the first-byte timeouts hold.
	promptUnit = 4000
	// defaultMinRate is the setting's default, and stands in where none is given.
	defaultMinRate = 5
	// deadlineMargin is what a request may wait for capacity, be tried again and be judged, beside the
	// time for its prompt and its answer.
	deadlineMargin = time.Minute
	// maxGenerating bounds the time for an answer's tokens, so that no sum overflows: the longest
	// deadline that can be set.
	maxGenerating = 24 * time.Hour
)

// Deadline is how long a request may take from its begin to its last byte: at least Total, at most the
// larger of Total and MaxTotal. Between these it is the first-byte timeout of the target, the time
// for its answer at MinTokensPerSecond, and a margin of a minute. The prompt has so many tokens; the answer has
// at most so many, and -1 is one that only the context bounds: it may take MaxTotal.
func (t Timeouts) Deadline(prompt, answer int) time.Duration {
	switch {
	case t.MaxTotal <= t.Total:
		return t.Total
	case answer < 0:
		return t.MaxTotal
	}
	need := FirstByte(t.TargetFirstToken, prompt) + t.generating(answer) + deadlineMargin
	return min(max(need, t.Total), t.MaxTotal)
}

// generating is how long so many tokens take at the slowest.
func (t Timeouts) generating(tokens int) time.Duration {
	rate := t.MinTokensPerSecond
	if rate <= 0 {
		rate = defaultMinRate
	}
	return time.Duration(min(float64(tokens)/rate*float64(time.Second), float64(maxGenerating)))
}

// DirectFirstByte is how long to wait for the first byte of one tier's own answer, 0
// for as long as the request lives. An answer that is not streamed comes all at
// once, so its whole generation counts.
func (t Timeouts) DirectFirstByte(tier Tier, r *openai.Request) time.Duration {
	base := t.TargetFirstToken
	if tier == Draft {
		base = t.DraftFirstToken
	}
	wait := FirstByte(base, r.PromptTokens)
	if r.Stream {
		return wait
	}
	return t.WholeAnswer(wait, r)
}

// WholeAnswer is how long to wait for an answer in one piece whose prompt may take as long as wait:
// as long as its tokens need at the slowest, 0 for as long as the request lives.
func (t Timeouts) WholeAnswer(wait time.Duration, r *openai.Request) time.Duration {
	limit := AnswerLimit(r)
	if limit < 0 {
		return 0
	}
	if wait += t.generating(limit); wait >= t.Deadline(r.PromptTokens, limit) {
		return 0
	}
	return wait
}

// AnswerLimit is the most tokens of a request's answer, -1 where only the context bounds them.
func AnswerLimit(r *openai.Request) int {
	if r.MaxTokens < 0 && r.Kind == openai.Chat {
		return -1
	}
	return r.Limit()
}

// FirstByte scales a first-byte timeout with a prompt of so many tokens: it holds up
// to 4,000, and longer prompts get proportionally more.
func FirstByte(base time.Duration, promptTokens int) time.Duration {
	return time.Duration(float64(base) * max(1, float64(promptTokens)/promptUnit))
}

// When says when a route makes drafts.
type When string

// The values of the setting speculation.when.
const (
	WhenAlways When = "always"
	WhenScarce When = "scarce" // while the target is short of room
)

// reasonSpare is why the target answers where drafts are made only while it is short of room.
const reasonSpare = "target_has_room"

const (
	// scarceFrom is the KV usage from which on the target is short of room, and scarceUntil to where that must fall again.
	scarceFrom, scarceUntil = 0.5, 0.3
	// seatsUntil is the share of the requests that ran when others began to queue, to which they must fall again.
	seatsUntil = 0.8
)

// Scarcity says whether a target is short of room: of KV memory, or of seats. The zero value is not.
type Scarcity struct {
	Scarce bool
	seats  float64 // requests that ran at a backend when others queued for seats; 0: they did not
}

// Next returns the scarcity after a look at the target. It ends later than it begins (hysteresis).
func (s Scarcity) Next(r pool.Room) Scarcity {
	switch {
	case r.Queues():
		return Scarcity{Scarce: true, seats: r.Running}
	case r.Usage >= scarceFrom:
		s.Scarce = true
	case r.Usage <= scarceUntil && (s.seats == 0 || r.Running <= seatsUntil*s.seats):
		return Scarcity{}
	}
	return s
}

// TypicalOutput is the expected length of an answer in tokens before any was seen: about the mean of public conversation
// traces.
const TypicalOutput = 200

// DemandOf returns what a request needs of a backend. head is the beginning of its prompt.
func DemandOf(r *openai.Request, head prefix.Head) pool.Demand {
	d := pool.Demand{PromptTokens: r.PromptTokens, PromptBytes: r.PromptBytes, OutputTokens: TypicalOutput}
	if r.MaxTokens >= 0 {
		d.OutputTokens = min(r.MaxTokens, TypicalOutput)
	}
	d.MaxOutput, d.Answers, d.LongestShare = r.Limit(), r.Answers(), r.LongestShare()
	d.Parts = head.Parts(max(r.PromptBytes, len(head.System)+len(head.First)))
	return d
}

// EnginePriority returns vLLM's priority for a class: its priority scheduler takes lower numbers first, and requests
// without a priority have 0, as has the middle class.
func EnginePriority(class int8) int64 { return 10 * (1 - int64(class)) }
