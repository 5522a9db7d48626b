package settings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/choose"
	"github.com/foregate/foregate/tiers/plan"
)

// Spec describes one setting.
type Spec struct {
	Name     string
	Default  string
	Range    string // what a value may be, in words
	Doc      string
	PerRoute bool // name@route may override it

	kind kind
}

// Value returns the setting's value in v, spelled as an operator would.
func (s Spec) Value(v *Values) string { return s.kind.get(v) }

// DefaultValue is the setting's default in the spelling of [Spec.Value].
func (s Spec) DefaultValue() string {
	d := Defaults()
	return s.Value(&d)
}

// Specs returns every setting, sorted by name.
func Specs() []Spec { return slices.Clone(specs) }

// Names of the settings that the cross-field rules speak of.
const (
	shedLow       = "shed.low"
	shedNormal    = "shed.normal"
	shedHigh      = "shed.high"
	shedRelease   = "shed.hysteresis"
	shedAllowHigh = "shed.allow_high"
)

// specs is the one table of settings: their ranges, defaults and places. It is
// sorted by name, and never written after it was made.
var specs = sorted([]Spec{
	route("speculation.mode", "risk", "How a route uses its draft pool: `off` sends everything to the target; `risk` keeps drafts whose score reaches a threshold that audits have certified, `confidence` those whose score reaches `speculation.threshold_nats`; `shadow` audits drafts and serves none; `lenient` keeps those of which every token is plausible to the target, `judge` those that the target calls right when it is asked, `verify` what the target would have written itself (above temperature 0 see `speculation.verify_sampled`). The last three hold the whole answer back.",
		choice(func(v *Values) *plan.Mode { return &v.Tiers.Mode }, plan.ModeOff, plan.ModeShadow, plan.ModeConfidence, plan.ModeRisk, plan.ModeLenient, plan.ModeJudge, plan.ModeVerify)),
	route("risk.max_wrong_rate", "0.1", "Modes `risk` and `shadow`: the largest share of the drafts served unverified that the target may have refused. Changing it certifies anew by what is known.",
		number(0.001, 0.5, func(v *Values) *float64 { return &v.Tiers.Risk.Rule.MaxWrongRate })),
	route("risk.error_probability", "0.05", "The probability with which that share may be exceeded, for each lease.",
		number(0.0001, 0.5, func(v *Values) *float64 { return &v.Tiers.Risk.Rule.ErrorProbability })),
	route("risk.audit_rate", "0.05", "Share of the drafts that are audited while some threshold is certified; `risk.cold_start_rate` of them in the first `risk.warmup_duration` of a kind of request, while the target has capacity to spare.",
		number(0, 1, func(v *Values) *float64 { return &v.Tiers.Risk.Rates.Audit })),
	route("speculation.allow_low_score_under_pressure", "yes", "Whether tenants that allow it (`allow_low_score_under_pressure` in the configuration) may get drafts below the threshold while the target is short of memory for their class.",
		yesNo(func(v *Values) *bool { return &v.Tiers.Risk.AllowLowScore })),
	route("speculation.pressure_threshold_nats", "-0.5", "The lowest score with which such a draft is kept.",
		number(-20, 20, func(v *Values) *accept.Nats { return &v.Tiers.Risk.PressureThreshold })),
	route("speculation.verify_sampled", "no", "Mode `verify` above temperature 0: drafts are checked so that the answer has exactly the target's law, where its engines allow that; elsewhere such requests go to the target.",
		yesNo(func(v *Values) *bool { return &v.Tiers.VerifySampled })),
	route("speculation.threshold_nats", "0", "The lowest score with which a draft is kept. Higher keeps fewer drafts.",
		number(-20, 20, func(v *Values) *accept.Nats { return &v.Tiers.Accept.Threshold })),
	route("speculation.band_nats", "0.3", "How far below the threshold a score is doubtful instead of bad: there the target is asked, where it can be and where that pays. 0 asks never.",
		number(0, 20, func(v *Values) *accept.Nats { return &v.Tiers.Accept.Band })),
	route("speculation.head_check", "auto", "Whether the target is asked about doubtful drafts before they are released: `auto` where that is expected to pay, `always`, or `off`.",
		choice(func(v *Values) *plan.HeadCheck { return &v.Tiers.HeadCheck }, plan.HeadAuto, plan.HeadAlways, plan.HeadOff)),
	route("speculation.score_auroc", "0.75", "How well the draft's own score tells its good answers from its bad ones: the chance that a good one scores higher. From 0.8 on asking the target about doubtful drafts is not worth its price.",
		number(0.5, 1, func(v *Values) *float64 { return &v.Tiers.ScoreAUROC })),
	route("speculation.strictness", "balanced", "How plausible a draft's tokens must be to the target when it is asked: `high` at least half of its first choice's probability, `balanced` three tenths, `loose` a tenth. Of an answer of temperature T, a draft may have as many implausible tokens as the target's own answers have at T.",
		choice(func(v *Values) *accept.Strictness { return &v.Tiers.Strictness }, accept.StrictHigh, accept.StrictBalanced, accept.StrictLoose)),
	route("speculation.judge_threshold_nats", "0", "Where the target is asked in words whether a draft is right: the log odds of yes to no from which on it passes.",
		number(-20, 20, func(v *Values) *accept.Nats { return &v.Tiers.JudgeThreshold })),
	route("speculation.tie_tolerance_nats", "0", "Mode `verify`: by how much a token may miss the target's first choice. 0 lets exact ties pass, 0.125 is one step of bfloat16.",
		number(0, 1, func(v *Values) *accept.Nats { return &v.Tiers.TieTolerance })),
	route("speculation.verify_block_tokens", "0", "Mode `verify`: tokens drafted between two checks; 0 checks the whole answer once. Where the target's engines compute the prompt anew for each check the whole answer is checked, unless `speculation.allow_uncached_blocks` is `yes`.",
		whole(0, 256, func(v *Values) *int { return &v.Tiers.BlockTokens })),
	route("speculation.allow_uncached_blocks", "no", "Mode `verify`: blocks also where each costs the prompt's prefill again (about 20 times the price of the target alone for blocks of 8).",
		yesNo(func(v *Values) *bool { return &v.Tiers.AllowUncachedBlocks })),
	route("speculation.midstream_failover", "yes", "Whether the target carries on in mid-answer where a backend is lost or a draft that has begun falls below the threshold; with `no` the first breaks off and the second goes on.",
		yesNo(func(v *Values) *bool { return &v.Tiers.MidstreamFailover })),
	route("speculation.on_missing_logprobs", "escalate", "What becomes of a draft whose tokens come without logprobs: `escalate` to the target, `ask` the target about it (where it can be asked and `speculation.head_check` has it), or `accept` it.",
		choice(func(v *Values) *plan.MissingLogprobs { return &v.Tiers.OnMissingLogprobs }, plan.MissingLogprobsEscalate, plan.MissingLogprobsCheck, plan.MissingLogprobsAccept)),
	route("speculation.escalate_refusals", "no", "Whether a draft that opens like a refusal goes to the target.",
		yesNo(func(v *Values) *bool { return &v.Tiers.EscalateRefusals })),
	route("economy.guard", "on", "Whether requests whose draft is expected to cost more than it saves go straight to the target.",
		onOff(func(v *Values) *bool { return &v.Tiers.Economy.Enabled })),
	route("economy.explore_rate", "0.005", "Share of the requests that the guard would send to the target which are drafted all the same, to see whether that still holds.",
		number(0, 1, func(v *Values) *float64 { return &v.Tiers.Economy.ExploreRate })),
	route("speculation.max_extra_ttft_ms", "0", "By how many milliseconds drafts may put off the first token, as expected; where it would be more the target answers. 0 is no bound.",
		millis(0, 600000, func(v *Values) *time.Duration { return &v.Tiers.Economy.MaxExtraTTFT })),
	route("speculation.max_score_tokens", "8192", "The longest prompt and draft, in tokens, that the target is asked to score: engines keep the logits of all of it in memory.",
		whole(1, 1000000, func(v *Values) *int { return &v.Tiers.Scoring.MaxTokens })),
	route("speculation.max_concurrent_scores", "4", "Scores under way at one target backend, of each replica; beyond them drafts are not checked.",
		whole(0, 1000, func(v *Values) *int { return &v.Tiers.Scoring.MaxConcurrent })),
	route("speculation.score_timeout", "1500ms", "Longest wait for the target's word on a draft of up to 1,000 tokens with its prompt; longer ones get proportionally more.",
		duration(10*time.Millisecond, 10*time.Minute, func(v *Values) *time.Duration { return &v.Tiers.Scoring.Timeout })),
	route("speculation.offset_mean_nats", "-0.45", "Subtracted from the mean logprob of the answer before it is compared with the threshold.",
		number(-20, 20, func(v *Values) *accept.Nats { return &v.Tiers.Accept.MeanOffset })),
	route("speculation.offset_window_nats", "-1.1", "Subtracted from the mean logprob of the worst 16-token window.",
		number(-20, 20, func(v *Values) *accept.Nats { return &v.Tiers.Accept.WindowOffset })),
	route("speculation.offset_entropy_nats", "1.0", "What the mean entropy of the first 8 tokens is subtracted from.",
		number(-20, 20, func(v *Values) *accept.Nats { return &v.Tiers.Accept.EntropyOffset })),
	route("speculation.holdback_tokens", "32", "Tokens of a stream held back before the draft is judged. Time to first token grows by a draft step for each.",
		whole(0, 1024, func(v *Values) *int { return &v.Tiers.HoldbackTokens })),
	route("speculation.holdback_ms", "1200", "The draft of a stream is judged after this many milliseconds at the latest, if there are 8 tokens by then.",
		millis(0, 60000, func(v *Values) *time.Duration { return &v.Tiers.Holdback })),
	route("speculation.max_prompt_tokens", "4000", "Prompts estimated longer than this go straight to the target.",
		whole(0, 1000000, func(v *Values) *int { return &v.Tiers.MaxPromptTokens })),

	route("risk.label", "lenient", "What makes an audited draft good: `lenient` (its tokens are plausible to the target, by `speculation.strictness`; above temperature 0 as plausible as those that the target draws itself), `judge` (the target, asked in words, calls it right), `regenerate` (its own answer says the same, or it calls the draft right), `greedy_prefix` (its own first choices go as far as `risk.min_prefix_share`).",
		choice(func(v *Values) *plan.Label { return &v.Tiers.Risk.Label }, plan.LabelLenient, plan.LabelJudge, plan.LabelRegenerate, plan.LabelPrefix)),
	route("risk.min_prefix_share", "0.9", "With `risk.label` `greedy_prefix`: share of a draft that must be the target's own first choices.",
		number(0, 1, func(v *Values) *float64 { return &v.Tiers.Risk.MinPrefixShare })),
	route("risk.warmup", "serve", "What a new kind of request gets until a threshold is certified: `serve` answers by drafts above a cautious threshold from the first minute, marked `phase=warmup`, each of them audited as far as the target has capacity; `shadow` serves nothing unproven, drafts are made and audited in the background. A warm-up ends when a threshold is certified, when audits say that too many drafts are wrong, and after `risk.warmup_duration`.",
		either(func(v *Values) *bool { return &v.Tiers.Risk.Warmup }, "serve", "shadow")),
	route("risk.warmup_duration", "1h", "How long a warm-up lasts at most, from the first request of its kind.",
		duration(time.Minute, 24*time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Risk.WarmupDuration })),
	route("risk.lease_audits", "2000", "Audits after which a certificate is over. Fewer follow a drift sooner and accept less.",
		whole(200, 1000000, func(v *Values) *int { return &v.Tiers.Risk.Rule.LeaseAudits })),
	route("risk.drift_average_run_length", "1000", "Audits of served drafts between false alarms of drift, on average, at least.",
		number(10, 1e9, func(v *Values) *float64 { return &v.Tiers.Risk.Rule.DriftRunLength })),
	route("risk.audit_boost", "4", "How much more is audited while a drift is suspected, and during `risk.warmup_duration` after a first certificate, while the target has capacity to spare and looser thresholds may be certified.",
		number(1, 20, func(v *Values) *float64 { return &v.Tiers.Risk.Rates.Boost })),
	route("risk.cold_start_rate", "0.5", "Largest share of the requests that are drafted in the background while no threshold is certified.",
		number(0, 1, func(v *Values) *float64 { return &v.Tiers.Risk.Rates.ColdStart })),
	route("risk.cold_start_audits_per_minute", "20", "Audits a minute that are wanted then of one kind of request, of all replicas together.",
		number(0, 100000, func(v *Values) *float64 { return &v.Tiers.Risk.Rates.ColdStartPerMinute })),
	route("risk.explore_rate", "0.02", "Share of the requests that are drafted in the background where audits say that no threshold keeps to `risk.max_wrong_rate`.",
		number(0, 1, func(v *Values) *float64 { return &v.Tiers.Risk.Rates.Explore })),
	route("risk.audit_budget", "0.03", "Audits may cost this share of what the target costs, on top of it, by the price of tokens; 0 is no bound. In the first `risk.warmup_duration` of a kind of request, audits count for it only while the target's KV usage is above a half or requests wait there; else `risk.max_concurrent_audits` alone bounds them.",
		number(0, 1, func(v *Values) *float64 { return &v.Tiers.Risk.AuditBudget })),
	route("risk.max_concurrent_audits", "4", "Drafts in the background and audits under way in one replica; 0 audits nothing.",
		whole(0, 1000, func(v *Values) *int { return &v.Tiers.Risk.MaxConcurrentAudits })),
	route("risk.score_version", "0", "Version of the calibrated score (`foregate risk fit`) by which drafts are judged; 0 is the plain score. Each version is certified by itself.",
		whole(0, 1000000, func(v *Values) *int { return &v.Tiers.Risk.ScoreVersion })),
	route("risk.inherit_from_route", "no", "Whether requests whose own kind has no certified threshold are served by that of the whole route; the promise is then for the route's mixture.",
		yesNo(func(v *Values) *bool { return &v.Tiers.Risk.InheritFromRoute })),
	route("risk.max_staleness", "60s", "How long certified thresholds hold that could not be looked up in Redis.",
		duration(time.Second, 24*time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Risk.MaxStaleness })),
	route("risk.on_stale", "nothing", "What is accepted after that: `nothing`, or by the `last` threshold known.",
		either(func(v *Values) *bool { return &v.Tiers.Risk.ServeStale }, "last", "nothing")),

	route(shedLow, "0.85", "KV usage from which on priority `low` is shed: where every backend is as full, it is refused within 50 ms. Below it may wait for room. 0 sheds all of it.",
		number(0, 1, func(v *Values) *float64 { return &v.Admission.Low })),
	route(shedNormal, "0.95", "The same for priority `normal`; not below `shed.low`. 0 sheds all of it.",
		number(0, 1, func(v *Values) *float64 { return &v.Admission.Normal })),
	route(shedHigh, "1.0", "The same for priority `high`; not below `shed.normal`. With 1 it waits however full they are. Below 0.5 it is refused unless `shed.allow_high` is `yes`.",
		number(0, 1, func(v *Values) *float64 { return &v.Admission.High })),
	route(shedAllowHigh, "no", "The second key of the kill switch: only with `yes` may `shed.high` be below 0.5.",
		yesNo(func(v *Values) *bool { return &v.AllowHighShed })),
	route(shedRelease, "0.05", "How far usage must fall below a threshold before shedding ends; less than every threshold that is not 0.",
		number(0, 1, func(v *Values) *float64 { return &v.Admission.Hysteresis })),
	route("shed.max_wait_low", "10s", "How long a request of priority `low` waits for its turn at a pool whose KV usage is below `shed.low` and that has no room for it all the same, before it is shed; 0s sheds at once.",
		duration(0, 10*time.Minute, func(v *Values) *time.Duration { return &v.Admission.MaxWaitLow })),
	route("shed.max_wait_normal", "15s", "The same for priority `normal`, below `shed.normal`.",
		duration(0, 10*time.Minute, func(v *Values) *time.Duration { return &v.Admission.MaxWaitNormal })),
	route("shed.max_wait_high", "30s", "The same for priority `high`, which goes first.",
		duration(0, 10*time.Minute, func(v *Values) *time.Duration { return &v.Admission.MaxWaitHigh })),
	route("shed.forecast", "yes", "Count what requests will still add to KV memory, not only what is in use. Without it engines can run out of memory below every threshold, and a class whose threshold is 1 is let in whatever there is.",
		yesNo(func(v *Values) *bool { return &v.Admission.Forecast })),
	route("shed.queue_depth", "0", "Waiting requests per backend above which priority `low` is shed; 0 is off.",
		whole(0, 100000, func(v *Values) *int { return &v.Admission.QueueDepth })),

	fleet("breaker.max_failures", "5", "Faults in a row, or within the window, that open a backend's breaker.",
		whole(1, 1000, func(v *Values) *int { return &v.Breaker.Failures })),
	fleet("breaker.window", "10s", "How far back faults count.",
		duration(time.Second, 10*time.Minute, func(v *Values) *time.Duration { return &v.Breaker.Window })),
	fleet("breaker.open_duration", "10s", "How long a breaker that is open on this replica alone, or without Redis, waits before it is tried. One that is open for the fleet is probed after 2 s, 4 s, and so on up to 30 s while probes fail.",
		duration(100*time.Millisecond, 10*time.Minute, func(v *Values) *time.Duration { return &v.Breaker.Open })),

	fleet("route.policy", "fit", "How a backend of a pool is chosen; all but `fit` are baselines for comparison.",
		choice(func(v *Values) *string { return &v.Pool.Policy }, choose.PolicyFit, choose.PolicyRoundRobin, choose.PolicyLeastRequests)),
	fleet("route.kv_usage_weight", "0.05", "Weight of a backend's KV usage in its expected wait: seconds for 1,000 prompt tokens at half-full KV memory.",
		number(0, 100, func(v *Values) *float64 { return &v.Pool.KVUsageWeight })),

	fleet("route.max_load_ratio", "1.25", "How busy a backend may be, as a multiple of the pool's mean, while it still gets every request whose prefix is warm there.",
		number(1, 100, func(v *Values) *float64 { return &v.Pool.MaxLoadRatio })),

	fleet("receipts.log_sample_rate", "0.01", "Share of the requests whose receipt is written to the log, chosen at random. The admin listener has those of the last 1,000 in any case.",
		number(0, 1, func(v *Values) *float64 { return &v.ReceiptLog.LogShare })),
	fleet("limit.high_priority_share", "0.2", "Share of a tenant's requests that may have priority `high`; those beyond it are served as `normal`. 0 is all.",
		number(0, 1, func(v *Values) *float64 { return &v.Limit.HighPriorityShare })),
	fleet("limit.redis_timeout", "15ms", "Longest time that a request waits until its tenant's limits are counted in Redis, less what it has waited for the cache; then this replica counts.",
		duration(time.Millisecond, time.Second, func(v *Values) *time.Duration { return &v.Limit.RedisTimeout })),

	fleet("scrape.timeout", "500ms", "Longest time for one reading of a backend's metrics, or one question for its health.",
		duration(20*time.Millisecond, time.Minute, func(v *Values) *time.Duration { return &v.Pressure.Timeout })),
	fleet("scrape.probe_timeout", "500ms", "How long an engine whose numbers stand still has to give the one token that it is asked for.",
		duration(20*time.Millisecond, time.Minute, func(v *Values) *time.Duration { return &v.Pressure.ProbeTimeout })),
	fleet("scrape.interval", "500ms", "How often a replica reads a backend's metrics. A reading counts as it is for 2s, so 1s is as slow as is wise.",
		duration(20*time.Millisecond, time.Minute, func(v *Values) *time.Duration { return &v.Pressure.Interval })),

	route("cache.mode", "on", "`on`: an answer is kept, and given again to the same request of the same tenant; `off`: neither.",
		onOff(func(v *Values) *bool { return &v.Cache.Enabled })),
	route("cache.ttl", "1h", "How long an answer is kept, up to a tenth less by chance.",
		duration(time.Second, 24*time.Hour, func(v *Values) *time.Duration { return &v.Cache.TTL })),
	fleet("cache.lookup_timeout", "15ms", "Longest time that a request waits for the cache; then it goes on without.",
		duration(time.Millisecond, time.Second, func(v *Values) *time.Duration { return &v.Cache.LookupTimeout })),
	fleet("cache.max_entry_bytes", "1048576", "The largest answer that is kept, in bytes.",
		whole(1024, 16<<20, func(v *Values) *int { return &v.Cache.MaxEntryBytes })),
	route("cache.tool_calls", "no", "Whether answers that call tools are kept; calls may have effects that should not be repeated.",
		yesNo(func(v *Values) *bool { return &v.Cache.ToolCalls })),
	route("cache.coalesce_timeout", "60s", "How long a request waits for the answer to an identical one that is under way, before it asks a backend itself; 0s asks at once.",
		duration(0, 10*time.Minute, func(v *Values) *time.Duration { return &v.Cache.CoalesceTimeout })),
	route("cache.coalesce_sampled", "no", "Whether requests above temperature 0 without a `seed` wait for an identical one that is under way, too (`cache.coalesce_timeout`), so that all get one sample. With `no` those that run at once get a sample each.",
		yesNo(func(v *Values) *bool { return &v.Cache.CoalesceSampled })),
	route("cache.isolate_prefixes", "yes", "Whether engines are told (`cache_salt`) to share no prefix between tenants. With `no` tenants who begin alike save each other's prefill, and can measure that they do.",
		yesNo(func(v *Values) *bool { return &v.Cache.IsolatePrefixes })),

	route("retry.max_retries", "2", "Further backends tried after the first, before the first byte.",
		whole(0, 10, func(v *Values) *int { return &v.Tiers.MaxRetries })),
	route("retry.budget", "0.2", "Share of the requests in flight that may be retries, never below 10. Retries after a refused or broken connection are not counted.",
		number(0, 1, func(v *Values) *float64 { return &v.Tiers.RetryBudget })),

	fleet("timeout.connect", "1s", "Longest time for a connection to a backend to come up.",
		duration(10*time.Millisecond, time.Minute, func(v *Values) *time.Duration { return &v.Dial.Connect })),
	fleet("timeout.tls", "2s", "Longest time for the TLS handshake with an `https` backend.",
		duration(10*time.Millisecond, time.Minute, func(v *Values) *time.Duration { return &v.Dial.TLS })),
	fleet("timeout.body_start", "5s", "How long a client's request body may take to start; from then on it must keep up 1 KiB a second.",
		duration(10*time.Millisecond, 10*time.Minute, func(v *Values) *time.Duration { return &v.Client.BodyStart })),
	fleet("timeout.body", "60s", "Longest time for a client's whole request body.",
		duration(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.Client.Body })),
	route("timeout.write", "10s", "How long a client may take to accept one write; one that reads nothing is cut then, and its generation with it.",
		duration(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.Client.Write })),
	route("timeout.draft_first_token", "5s", "Longest wait for the draft's first token.",
		duration(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Timeouts.DraftFirstToken })),
	route("timeout.target_first_token", "30s", "Longest wait for the target's first token with a prompt of up to 4,000 tokens; longer prompts get proportionally more.",
		duration(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Timeouts.TargetFirstToken })),
	route("timeout.stream_idle", "20s", "Longest silence inside a stream.",
		duration(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Timeouts.StreamIdle })),
	route("timeout.total", "600s", "Longest time for a whole request; `timeout.max_total` gives long answers more.",
		duration(10*time.Millisecond, 24*time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Timeouts.Total })),
	route("timeout.max_total", "0s", "Longest time for a whole request whose `max_tokens` need more than `timeout.total`: they get `timeout.target_first_token`, `max_tokens` ÷ `timeout.min_tokens_per_s` and a minute, and a request that names no `max_tokens` gets all of it. 0, and what is not above `timeout.total`, is off. `drain.grace` and proxies in front must allow for it.",
		duration(0, 24*time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Timeouts.MaxTotal })),
	route("timeout.min_tokens_per_s", "5", "Slowest rate at which a healthy backend generates one answer, in tokens a second: an answer that is not streamed is waited for as long as its `max_tokens` take at it, and `timeout.max_total` goes by it.",
		number(0.1, 10000, func(v *Values) *float64 { return &v.Tiers.Timeouts.MinTokensPerSecond })),
})

// route makes a setting that name@route may override.
func route(name, def, doc string, k kind) Spec {
	s := fleet(name, def, doc, k)
	s.PerRoute = true
	return s
}

// fleet makes a setting that is the same for every route.
func fleet(name, def, doc string, k kind) Spec {
	return Spec{Name: name, Default: def, Range: k.words, Doc: doc, kind: k}
}

func sorted(s []Spec) []Spec {
	slices.SortFunc(s, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// lookup finds a setting by its name without @route.
func lookup(name string) (*Spec, bool) {
	i, ok := slices.BinarySearchFunc(specs, name, func(s Spec, n string) int { return strings.Compare(s.Name, n) })
	if !ok {
		return nil, false
	}
	return &specs[i], true
}

// Validate tells whether value may be stored under name, which may be
// "name@route". It cannot see the other fields, so the rules between fields are
// checked by [FromHash] alone.
func Validate(name, value string) error {
	base, onRoute, perRoute := strings.Cut(name, "@")
	spec, ok := lookup(base)
	switch {
	case !ok:
		return fmt.Errorf("%s: %s", show(name), unknown(base))
	case perRoute && !spec.PerRoute:
		return fmt.Errorf("%s: %s", show(name), reasonFleet)
	case perRoute && onRoute == "":
		return fmt.Errorf("%s: the route's name is missing after @", show(name))
	}
	if err := check(spec, value); err != nil {
		return fmt.Errorf("%s: %q is refused: %w", show(name), show(value), err)
	}
	return nil
}

// check parses value for spec and throws the result away.
func check(spec *Spec, value string) error {
	if len(value) > maxValue {
		return fmt.Errorf("longer than the %d bytes that are read", maxValue)
	}
	var scratch Values
	return spec.kind.set(&scratch, value)
}
