package settings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
)

// Spec describes one setting.
type Spec struct {
	Name     string
	Default  string
	Range    string // valid values, in words
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

// Names of the settings in the rules between fields.
const (
	shedLow       = "shed.low"
	shedNormal    = "shed.normal"
	shedHigh      = "shed.high"
	shedRelease   = "shed.hysteresis"
	shedAllowHigh = "shed.allow_high"
)

// specs is the table of all settings: ranges, defaults and destinations. It is sorted by name and read-only.
var specs = sorted([]Spec{
	route("speculation.mode", "risk", "How a route uses its draft pool. `off`: the target answers everything. `risk`: a draft is served if its score reaches a threshold that audits have certified. `confidence`: a draft is served if its score reaches `speculation.threshold_nats`. `shadow`: drafts are audited and never served. `verify`: the target scores the whole draft before anything is sent; the answer is the draft up to the last token that the target stands by (`speculation.verify_rule`), and the target continues from there.",
		choice(func(v *Values) *plan.Mode { return &v.Tiers.Mode }, plan.ModeOff, plan.ModeShadow, plan.ModeConfidence, plan.ModeRisk, plan.ModeVerify)),
	route("speculation.verify_rule", "exact", "Mode `verify`: the rule by which the target stands by a draft's tokens. `exact`: only what the target would have generated itself at temperature 0; requests above temperature 0 go to the target. `lenient`: every token is plausible to the target.",
		choice(func(v *Values) *plan.VerifyRule { return &v.Tiers.VerifyRule }, plan.RuleExact, plan.RuleLenient)),
	route("risk.max_disagreement", "0.1", "Modes `risk` and `shadow`: the largest share of unverified drafts that the target may disagree with. A new value takes effect at once: certified thresholds are computed again from the evidence that is there. It may be chosen by that evidence (`foregate risk show --frontier`).",
		number.of(0.001, 0.5, func(v *Values) *float64 { return &v.Tiers.Risk.Rule.MaxDisagreement })),
	route("risk.error_probability", "0.05", "Modes `risk` and `shadow`: the probability that a certificate is wrong, that is, that the disagreement exceeds `risk.max_disagreement`. It holds for each lease (`risk.lease_audits`).",
		number.of(0.0001, 0.5, func(v *Values) *float64 { return &v.Tiers.Risk.Rule.ErrorProbability })),
	route("risk.audit_rate", "0.05", "Share of drafts that the target audits in the background while a threshold is certified. During the first hour of a traffic class half of them are audited, if the target has spare capacity.",
		number.of(0, 1, func(v *Values) *float64 { return &v.Tiers.Risk.Rates.Audit })),
	route("speculation.threshold_nats", "0", "Mode `confidence`: lowest score, in nats, with which a draft is served. A higher value serves fewer drafts.",
		number.of(-20, 20, func(v *Values) *float64 { return (*float64)(&v.Tiers.Accept.Threshold) })),
	route("speculation.midstream_failover", "yes", "What happens to a stream that has begun if its backend is lost, or if the draft's score falls below the threshold. `yes`: the target continues the answer. `no`: a stream with a lost backend ends with an error, and a draft below the threshold is continued by the draft pool.",
		either(func(v *Values) *bool { return &v.Tiers.MidstreamFailover }, "yes", "no")),
	route("economy.guard", "on", "Whether the target answers directly if a draft is expected to cost more than it saves.",
		either(func(v *Values) *bool { return &v.Tiers.Economy.Enabled }, "on", "off")),
	route("economy.explore_rate", "0.005", "Share of the requests that `economy.guard` sends to the target which are drafted nevertheless, so that the estimate stays current.",
		number.of(0, 1, func(v *Values) *float64 { return &v.Tiers.Economy.ExploreRate })),
	route("speculation.max_concurrent_scores", "4", "Scoring calls that one replica may have in flight at one target backend. Drafts beyond it are handled as if the target could not be asked.",
		whole.of(0, 1000, func(v *Values) *int { return &v.Tiers.MaxConcurrentScores })),
	route("speculation.holdback_tokens", "32", "Tokens of a streamed draft that are held back until the draft is judged. Each token adds the time of one decode step to the time to first token.",
		whole.of(0, 1024, func(v *Values) *int { return &v.Tiers.HoldbackTokens })),
	route("speculation.holdback_ms", "1200", "Longest hold-back of a streamed draft, in milliseconds. After this time the draft is judged if it has at least 8 tokens.",
		millis.of(0, time.Minute, func(v *Values) *time.Duration { return &v.Tiers.Holdback })),
	route("speculation.max_prompt_tokens", "4000", "Longest prompt, in estimated tokens, that is drafted. The target answers longer ones directly.",
		whole.of(0, 1000000, func(v *Values) *int { return &v.Tiers.MaxPromptTokens })),

	route("risk.label", "lenient", "How an audit decides whether a draft is good. `lenient`: its tokens are plausible to the target. `exact`: each token is the target's own first choice. `judge`: the target says in words that it is right. `regenerate`: the target's own answer says the same, or the target says that the draft is right.",
		choice(func(v *Values) *plan.Label { return &v.Tiers.Risk.Label }, plan.LabelLenient, plan.LabelExact, plan.LabelJudge, plan.LabelRegenerate)),
	route("risk.warmup", "serve", "What happens in a new traffic class until a threshold is certified. `serve`: drafts above a cautious threshold are served from the first minute, marked `phase=warmup`, and audited as far as the target has capacity. `shadow`: nothing unproven is served; drafts are made and audited in the background. The warm-up ends when a threshold is certified, when too many drafts are wrong, or after one hour.",
		either(func(v *Values) *bool { return &v.Tiers.Risk.Warmup }, "serve", "shadow")),
	route("risk.lease_audits", "4000", "Audits after which a certificate expires and must be earned again. A smaller value follows drift faster and accepts fewer drafts.",
		whole.of(200, 1000000, func(v *Values) *int { return &v.Tiers.Risk.Rule.LeaseAudits })),
	route("risk.cold_start_audits_per_minute", "20", "Audits per minute that all replicas together aim at for one traffic class while no threshold is certified.",
		number.of(0, 100000, func(v *Values) *float64 { return &v.Tiers.Risk.Rates.ColdStartPerMinute })),
	route("risk.audit_budget", "0.03", "Largest cost of audits, as a share of what the target alone would cost for all requests of the route, computed from token prices; 0 means no limit. During the first hour of a traffic class an audit counts only while the target's KV usage is above 0.5 or requests wait there; otherwise only `risk.max_concurrent_audits` limits it.",
		number.of(0, 1, func(v *Values) *float64 { return &v.Tiers.Risk.AuditBudget })),
	route("risk.max_concurrent_audits", "4", "Background drafts and audits that one replica may have in flight, and, besides these, questions for comparisons of targets; 0 turns all of them off.",
		whole.of(0, 1000, func(v *Values) *int { return &v.Tiers.Risk.MaxConcurrentAudits })),
	route("risk.refit", "auto", "Whether a score is fitted to the audits in the background. `auto`: a fitted score that is clearly better becomes a candidate. While audits certify it, they are of drafts with any score. It judges drafts when it is certified for as many drafts as the score in force. `off`: the plain score judges drafts.",
		either(func(v *Values) *bool { return &v.Tiers.Risk.Refit }, "auto", "off")),
	route("risk.max_staleness", "60s", "How long a certified threshold stays valid if it cannot be refreshed from Redis. Then no draft is accepted.",
		duration.of(time.Second, 24*time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Risk.MaxStaleness })),

	route(shedLow, "0.85", "KV usage at which priority `low` is shed. If every backend of the pool is at or above it, the request is refused within 50 ms (503); below it the request waits for capacity up to `shed.max_wait_low`. 0 sheds all of priority `low`.",
		number.of(0, 1, func(v *Values) *float64 { return &v.Admission.Threshold[identity.Low] })),
	route(shedNormal, "0.95", "KV usage at which priority `normal` is shed. If every backend of the pool is at or above it, the request is refused within 50 ms (503); below it the request waits for capacity up to `shed.max_wait_normal`. Not below `shed.low`. 0 sheds all of priority `normal`.",
		number.of(0, 1, func(v *Values) *float64 { return &v.Admission.Threshold[identity.Normal] })),
	route(shedHigh, "1.0", "KV usage at which priority `high` is shed. With 1 it always waits for capacity, up to `shed.max_wait_high`. Not below `shed.normal`. A value below 0.5 is rejected unless `shed.allow_high` is `yes`.",
		number.of(0, 1, func(v *Values) *float64 { return &v.Admission.Threshold[identity.High] })),
	route(shedAllowHigh, "no", "Safety catch: `shed.high` may be below 0.5 only if this is `yes`, so that one mistake cannot shed all traffic.",
		either(func(v *Values) *bool { return &v.AllowHighShed }, "yes", "no")),
	route(shedRelease, "0.05", "How far KV usage must fall below a class's threshold before shedding of that class ends. Must be smaller than every threshold that is not 0.",
		number.of(0, 1, func(v *Values) *float64 { return &v.Admission.Hysteresis })),
	route("shed.max_wait_low", "10s", "Longest wait of a request of priority `low` for capacity at a pool whose KV usage is below `shed.low`; then it is shed (503). 0s sheds at once.",
		duration.of(0, 10*time.Minute, func(v *Values) *time.Duration { return &v.Admission.MaxWait[identity.Low] })),
	route("shed.max_wait_normal", "15s", "Longest wait of a request of priority `normal` for capacity at a pool whose KV usage is below `shed.normal`; then it is shed (503). 0s sheds at once.",
		duration.of(0, 10*time.Minute, func(v *Values) *time.Duration { return &v.Admission.MaxWait[identity.Normal] })),
	route("shed.max_wait_high", "30s", "Longest wait of a request of priority `high` for capacity; then it is shed (503). Its queue is served first. 0s sheds at once.",
		duration.of(0, 10*time.Minute, func(v *Values) *time.Duration { return &v.Admission.MaxWait[identity.High] })),
	route("shed.forecast", "yes", "Count the KV memory that running requests will still need, not only what is in use. Without it, engines can run out of memory below every threshold, and a class with threshold 1 is admitted without a check.",
		either(func(v *Values) *bool { return &v.Admission.Forecast }, "yes", "no")),
	route("shed.queue_depth", "0", "Requests waiting in the engine of every backend above which priority `low` is shed; 0 turns the check off.",
		whole.of(0, 100000, func(v *Values) *int { return &v.Admission.QueueDepth })),

	fleet("breaker.max_failures", "5", "Failures, in a row or within 10 s, that open a backend's circuit breaker.",
		whole.of(1, 1000, func(v *Values) *int { return &v.Breaker.Failures })),
	fleet("breaker.open_duration", "10s", "How long a breaker that is open on this replica only, or without Redis, stays open before a trial request. A breaker that is open on all replicas is probed after 2 s, 4 s and so on, up to every 30 s.",
		duration.of(100*time.Millisecond, 10*time.Minute, func(v *Values) *time.Duration { return &v.Breaker.Open })),

	fleet("route.policy", "fit", "How a backend of a pool is chosen. `fit` weighs prefix-cache hits, KV memory and load; `round_robin` is a baseline for comparison.",
		choice(func(v *Values) *string { return &v.RoutePolicy }, pool.PolicyFit, pool.PolicyRoundRobin)),

	fleet("receipts.log_sample_rate", "0.01", "Share of requests whose receipt is written to the log, chosen at random. The admin listener always has the last 1,000 receipts.",
		number.of(0, 1, func(v *Values) *float64 { return &v.ReceiptLog.LogShare })),
	fleet("limit.high_priority_share", "0.2", "Share of a tenant's requests that may have priority `high`; requests beyond it are served with priority `normal`. 0 means no limit.",
		number.of(0, 1, func(v *Values) *float64 { return &v.Limit.HighPriorityShare })),

	fleet("scrape.interval", "500ms", "How often a replica scrapes a backend's metrics. A reading is used unchanged for 2 s, so a value above 1s is not recommended.",
		duration.of(20*time.Millisecond, time.Minute, func(v *Values) *time.Duration { return &v.ScrapeInterval })),

	route("cache.mode", "on", "`on`: answers are cached, and an identical request of the same tenant gets the cached answer. `off`: nothing is cached or read from the cache.",
		either(func(v *Values) *bool { return &v.Cache.Enabled }, "on", "off")),
	route("cache.ttl", "1h", "How long an answer stays in the cache. Up to 10 % is subtracted at random, so that entries do not expire together.",
		duration.of(time.Second, 24*time.Hour, func(v *Values) *time.Duration { return &v.Cache.TTL })),
	fleet("redis.timeout", "15ms", "Longest time that a request waits for Redis: for the cache and for its tenant's limits and budgets together. After it the request is answered without the cache, and the replica decides with its own counts.",
		duration.of(time.Millisecond, time.Second, func(v *Values) *time.Duration { return &v.RedisTimeout })),
	fleet("cache.max_entry_bytes", "1048576", "Largest answer that is cached, in bytes.",
		whole.of(1024, 16<<20, func(v *Values) *int { return &v.Cache.MaxEntryBytes })),
	route("cache.verify_drafts", "doubtful", "Which drafts the target checks, in the background and in one prefill, before the cache keeps them. `doubtful`: those that were served with a score little above the threshold (in the modes `risk` and `shadow`, within the loosest two certified thresholds; in mode `confidence`, within 0.3 nats), and those of a warm-up. `always`: all that only their score accepted. `never`: none. What fails is not kept, and the target answers the next identical request. A doubtful draft that cannot be checked, because the target has neither spare capacity nor audit budget (`risk.audit_budget`) left, is not kept either. Where a draft is audited, its audit decides. A check is no evidence for a threshold.",
		choice(func(v *Values) *plan.VerifyDrafts { return &v.Tiers.VerifyDrafts }, plan.VerifyNever, plan.VerifyDoubtful, plan.VerifyAlways)),
	route("cache.isolate_prefixes", "yes", "Whether engines keep the prefix caches of tenants apart (`cache_salt`). With `no` tenants with equal prompt prefixes share KV cache, which saves prefill but lets a tenant measure that another one uses the same prefix.",
		either(func(v *Values) *bool { return &v.Cache.IsolatePrefixes }, "yes", "no")),

	fleet("responses.store", "on", "`on`: answers of the Responses API are stored, unless the request says `store: false` or the tenant has `forget_responses`. `off`: none are stored, and what was is not found.",
		either(func(v *Values) *bool { return &v.Responses.Enabled }, "on", "off")),
	fleet("responses.ttl", "1h", "How long a stored conversation is kept after its last response.",
		duration.of(time.Second, 30*24*time.Hour, func(v *Values) *time.Duration { return &v.Responses.TTL })),
	fleet("responses.max_tenant_bytes", "67108864", "Bytes of stored responses of a tenant, as they are in Redis. For new ones those conversations are forgotten whose last response is the oldest.",
		whole.of(1<<10, 1<<40, func(v *Values) *int { return &v.Responses.TenantBytes })),

	route("retry.max_retries", "2", "Backends that are tried after the first one fails before the first byte.",
		whole.of(0, 10, func(v *Values) *int { return &v.Tiers.MaxRetries })),
	route("retry.budget", "0.2", "Largest share of requests in flight that may be retries, and never fewer than 10 requests. Retries after a refused or broken connection do not count.",
		number.of(0, 1, func(v *Values) *float64 { return &v.Tiers.RetryBudget })),

	fleet("timeout.connect", "1s", "Longest time to open a connection to a backend. The TLS handshake with an `https` backend may take twice as long again.",
		duration.of(10*time.Millisecond, time.Minute, func(v *Values) *time.Duration { return &v.ConnectTimeout })),
	fleet("timeout.body", "60s", "Longest time for a client to send its whole request body.",
		duration.of(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.Client.Body })),
	route("timeout.write", "10s", "How long a client may block one write of its answer. Then its connection is closed, or with HTTP/2 its stream, and its generation is cancelled. With HTTP/2 a connection that takes no byte for 15 s is closed in any case.",
		duration.of(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.Client.Write })),
	route("stream.early_headers", "no", "What the client of a stream gets that waits for its first token for 10 s. `yes`: the headers and a comment, and one more after each 10 s, so that no proxy takes its connection for dead; then the headers do not tell the tier, and an error comes as an event. `no`: nothing. Once the headers are out, comments are sent in any case.",
		either(func(v *Values) *bool { return &v.Client.EarlyHeaders }, "yes", "no")),
	route("timeout.draft_first_token", "5s", "Longest wait for the first token of the draft pool.",
		duration.of(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Timeouts.DraftFirstToken })),
	route("timeout.target_first_token", "30s", "Longest wait for the first token of the target pool with a prompt of up to 4,000 tokens. Longer prompts get proportionally more time.",
		duration.of(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Timeouts.TargetFirstToken })),
	route("timeout.stream_idle", "20s", "Longest pause between two chunks of a backend's stream.",
		duration.of(10*time.Millisecond, time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Timeouts.StreamIdle })),
	route("timeout.total", "600s", "Longest time for a whole request. `timeout.max_total` gives requests with long answers more.",
		duration.of(10*time.Millisecond, 24*time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Timeouts.Total })),
	route("timeout.max_total", "0s", "Longest time for a whole request whose `max_tokens` need more than `timeout.total`. Such a request gets `timeout.target_first_token`, plus `max_tokens` ÷ `timeout.min_tokens_per_s`, plus one minute; a request without `max_tokens` gets this value. 0s, or a value not above `timeout.total`, turns it off. Set `drain.grace` and the timeouts of proxies in front accordingly.",
		duration.of(0, 24*time.Hour, func(v *Values) *time.Duration { return &v.Tiers.Timeouts.MaxTotal })),
	route("timeout.min_tokens_per_s", "5", "Slowest rate, in tokens per second, at which a healthy backend generates one answer. It sets how long a non-streamed answer may take for its `max_tokens`; `timeout.max_total` uses it too.",
		number.of(0.1, 10000, func(v *Values) *float64 { return &v.Tiers.Timeouts.MinTokensPerSecond })),
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

// check parses value and discards the result.
func check(spec *Spec, value string) error {
	if len(value) > maxValue {
		return fmt.Errorf("longer than the %d bytes that are read", maxValue)
	}
	var scratch Values
	return spec.kind.set(&scratch, value)
}
