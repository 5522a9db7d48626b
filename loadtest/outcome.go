package loadtest

import "time"

// The ways a request ends.
const (
	Answered = "answered"
	Shed     = "shed"    // 503 with X-Shed-Reason
	Limited  = "limited" // 429
	Failed   = "failed"  // any other error before the first byte
	Broken   = "broken"  // after it
)

// Outcome is what came of one request. Times are since the start of the run, in
// the profiles' time.
type Outcome struct {
	Session, Turn    int
	Tenant, Priority string

	At    time.Duration // when it should have been sent
	First time.Duration // first byte of text; 0: none came
	Done  time.Duration // end of the answer, or of the attempt

	End    string // one of the constants above
	Detail string // of an error: few words, few different ones

	Tier       string // draft, target, mixed; "" is unknown
	Acceptance string // accepted, rejected, bypassed; "" is unknown
	Reason     string // of the acceptance
	Cached     bool   // served from the response cache
	Coalesced  bool   // served with the answer to an identical request that was under way

	PromptTokens int
	DraftTokens  int // of the answer, from the draft
	TargetTokens int // of the answer, from the target

	Drafted       int  // tokens that the draft made, kept or not
	TargetChecked bool // the target was asked about the draft
	Scored        int  // tokens that it computed for that, prompt and draft

	Checked     bool // the answer was compared with what the target alone would have said
	Identical   bool // it is the same
	Wrong       bool // it is the draft's, and the target would have rejected it
	WrongAnswer bool // the target would refuse it, whoever made it

	Unverified bool // it is the draft's, and the target was not asked about all of it
	Drifted    bool // the draft was another one by then than in the beginning
}

// Usage is what a pool's backends did in the measured time, all of them
// together.
type Usage struct {
	Tier       string // draft or target
	Backends   int
	GPUs       int     // of one backend
	USDPerHour float64 // of one backend

	Busy                      time.Duration // spent in engine steps, the profiles' time
	PrefixQueries, PrefixHits int           // prompt tokens
	Preemptions               int
	OOMDeaths                 int // of engines, of a full cache
	Generated                 int // tokens, thrown-away ones too
}

// Result is what one case of a scenario came to.
type Result struct {
	Case     string
	Window   time.Duration // measured: from the warm-up's end to the last answer
	Recorder *Recorder
	Pools    []Usage
	PeakKV   float64 // the highest share of its KV memory that a backend used, after the warm-up

	Totals  bool     // the row has the columns of all answers and all of the rent
	Promise *Promise // what became of the disagreement that was allowed; nil where nobody asked
	Notes   []string // what a reader should know of this case
}

// Row is a result in numbers. Shares are 0..1; what could not be measured is 0.
type Row struct {
	Name     string `json:"name"`
	Requests int    `json:"requests" table:"Load|Requests||"` // counted: sent after the warm-up
	Errors   int    `json:"errors" table:"Load|Errors||"`     // failed, limited or broken; shed ones apart
	Shed     int    `json:"shed" table:"Load|Shed||"`

	Escalated int `json:"escalated" table:"Acceptance and quality|Escalated||"` // answered requests whose draft was rejected
	Cached    int `json:"cached"`
	Coalesced int `json:"coalesced,omitempty" table:"Cache and memory|Of these coalesced||?"`

	TTFT50 float64 `json:"ttft_p50_ms" table:"Latency|TTFT p50|ms|answered"`
	TTFT95 float64 `json:"ttft_p95_ms" table:"Latency|TTFT p95|ms|answered"`
	TTFT99 float64 `json:"ttft_p99_ms" table:"Latency|TTFT p99|ms|answered"`
	E2E50  float64 `json:"e2e_p50_ms" table:"Latency|E2E p50|ms|answered"`
	E2E95  float64 `json:"e2e_p95_ms" table:"Latency|E2E p95|ms|answered"`
	E2E99  float64 `json:"e2e_p99_ms" table:"Latency|E2E p99|ms|answered"`

	HighTTFT99 float64 `json:"high_ttft_p99_ms" table:"Priorities|High: TTFT p99|ms|high"` // of priority high
	HighLost   int     `json:"high_lost" table:"Priorities|High: shed or failed||high"`    // of priority high: errors and shed
	LowShed    int     `json:"low_shed" table:"Priorities|Low: shed||low"`                 // of priority low

	RequestsPerSecond float64 `json:"requests_per_s" table:"Load|Answers per second|1|"` // answered
	TokensPerSecond   float64 `json:"tokens_per_s" table:"Load|Tokens per second|1|"`    // of answers

	PrefixHitRate float64 `json:"prefix_hit_rate" table:"Cache and memory|Prefix hits|%|queried"` // of prompt tokens looked up in KV caches
	Preemptions   int     `json:"preemptions" table:"Cache and memory|Preemptions||"`
	OOMDeaths     int     `json:"oom_deaths" table:"Cache and memory|OOM deaths||"`
	GPUSeconds    float64 `json:"gpu_seconds" table:"Money|GPU busy, both|s|"`               // busy GPUs × seconds, both tiers
	USDPerMTok    float64 `json:"usd_per_mtok" table:"Money|Per million tokens|$|delivered"` // price of the busy time per million tokens of answers that ended in it

	Acceptance          float64 `json:"acceptance" table:"Acceptance and quality|Drafts accepted|%|judged"`               // accepted ÷ (accepted + rejected)
	DraftTokenShare     float64 `json:"draft_token_share" table:"Acceptance and quality|Tokens by the draft|%|delivered"` // of the answers' tokens
	CheckedDisagreement float64 `json:"checked_disagreement" table:"Acceptance and quality|Disagreement|%|accepts"`       // of the accepted drafts that were checked
	SharedDrafts        int     `json:"shared_drafts,omitempty"`                                                          // answers that are the draft of another request: from the cache, or made once for both
	WrongShared         float64 `json:"shared_disagreement,omitempty"`                                                    // of these, the ones that the target would have rejected
	Identical           float64 `json:"identical_rate" table:"Acceptance and quality|Same as target's|%|checked"`         // of the answers that were checked
	CacheHitRate        float64 `json:"cache_hit_rate" table:"Cache and memory|Cached answers|%|answered"`                // (cached + coalesced) ÷ answered

	Guarded      float64 `json:"guarded_share,omitempty" table:"Acceptance and quality|Kept from the draft|%|?"` // answers that were not drafted because it would not have paid
	CheckedShare float64 `json:"checked_share,omitempty" table:"Acceptance and quality|Drafts checked|%|?"`      // of the judged drafts, those that the target was asked about
	Scored       float64 `json:"scored_share,omitempty" table:"Acceptance and quality|Tokens scored|%|?"`        // tokens that it computed for that ÷ tokens of prompts and answers

	DraftGPUSeconds  float64 `json:"draft_gpu_seconds" table:"Money|Draft GPU busy|s|"`
	TargetGPUSeconds float64 `json:"target_gpu_seconds" table:"Money|Target GPU busy|s|"`
	DraftUSD         float64 `json:"draft_usd" table:"Money|Draft cost|$|"`
	TargetUSD        float64 `json:"target_usd" table:"Money|Target cost|$|"`

	// Of scenarios with totals.

	NormalLost        int     `json:"normal_lost,omitempty" table:"All answers, all of the rent|Normal: shed or failed||?"`               // of priority normal: errors and shed
	LowLost           int     `json:"low_lost,omitempty" table:"All answers, all of the rent|Low: shed or failed||?"`                     // of priority low: errors and shed
	DisagreementOfAll float64 `json:"disagreement_of_all,omitempty" table:"All answers, all of the rent|Disagreement of all|%|?"`         // of all answers, those that the target would refuse, whoever made them
	Rent              float64 `json:"rent_usd_per_hour,omitempty" table:"All answers, all of the rent|Rent per hour|$|?"`                 // price of all backends
	RentPerMTok       float64 `json:"rent_usd_per_mtok,omitempty" table:"All answers, all of the rent|Rent per million tokens|$|?"`       // rent of the measured time per million tokens of answers that ended in it
	WidePricedPerMTok float64 `json:"wide_priced_usd_per_mtok,omitempty" table:"All answers, all of the rent|By token prices at 128|$|?"` // priced_usd_per_mtok with 128 sequences at once
	Utilisation       float64 `json:"gpu_utilisation,omitempty" table:"All answers, all of the rent|GPUs busy|%|?"`                       // busy GPU-seconds ÷ (GPUs × measured time), both tiers
	DraftUtilisation  float64 `json:"draft_gpu_utilisation,omitempty" table:"All answers, all of the rent|Draft GPUs busy|%|?"`           //
	TargetUtilisation float64 `json:"target_gpu_utilisation,omitempty" table:"All answers, all of the rent|Target GPUs busy|%|?"`         //

	// Of scenarios in which somebody promises a disagreement.

	Served                 float64 `json:"served_by_draft,omitempty" table:"Promise|Answers by the draft|%|?"`              // answers by the draft alone ÷ all
	UnverifiedDisagreement float64 `json:"unverified_disagreement,omitempty" table:"Promise|Disagreement|%|?"`              // of the drafts that were served on their own word, those that the target would have refused
	DisagreementBefore     float64 `json:"unverified_disagreement_before,omitempty" table:"Promise|… before the drift|%|?"` // before the draft drifted
	DisagreementAfter      float64 `json:"unverified_disagreement_after,omitempty" table:"Promise|… after it|%|?"`
	AboveBefore            float64 `json:"above_eps_before,omitempty" table:"Promise|Time above ε, before|%|?"` // share of the time in which the threshold in force let through more than was promised
	AboveAfter             float64 `json:"above_eps_after,omitempty" table:"Promise|Time above ε, after|%|?"`
	Recovered              float64 `json:"above_eps_until_s,omitempty" table:"Promise|Above ε until, after it|s|?"` // seconds from the drift until it no longer did
	Bound                  float64 `json:"bound_at_end,omitempty" table:"Promise|Bound shown at the end|%|?"`       // of the disagreement, as it was shown

	Audits           int     `json:"audits,omitempty" table:"Promise|Audits||?"`
	AuditsLost       int     `json:"audits_lost,omitempty" table:"Promise|Audits lost||?"`
	Alarms           int     `json:"alarms,omitempty" table:"Promise|Alarms||?"`
	FirstCertificate float64 `json:"first_certificate_s,omitempty" table:"Promise|First certificate|s|?"`
	AllCertificates  float64 `json:"all_certificates_s,omitempty" table:"Promise|All certificates|s|?"`
	AuditsOfTarget   float64 `json:"audits_of_target_usd,omitempty" table:"Promise|Audits of target cost|%|?"` // scores for audits, share of what the target cost by the prices of tokens
	AuditsOfDraft    float64 `json:"audits_of_draft_usd,omitempty" table:"Promise|Audits of draft cost|%|?"`   // drafts in the background, of what the draft pool cost

	PricedPerMTok float64 `json:"priced_usd_per_mtok,omitempty" table:"Promise|By token prices, per Mtok|$|?"` // tokens computed × their prices with 64 sequences at once, per million tokens of answers

	BaseBefore  float64 `json:"all_drafts_disagreement_before,omitempty" table:"Promise|All drafts, before|%|?"` // of all drafts, those that the target would refuse
	BaseAfter   float64 `json:"all_drafts_disagreement_after,omitempty" table:"Promise|All drafts, after|%|?"`
	AUROCBefore float64 `json:"auroc_before,omitempty" table:"Promise|AUROC, before|%|?"`
	AUROCAfter  float64 `json:"auroc_after,omitempty" table:"Promise|AUROC, after|%|?"`
	BestBefore  float64 `json:"best_acceptance_before,omitempty" table:"Promise|Best acceptance, before|%|?"` // that the best thresholds have which keep the promise
	BestAfter   float64 `json:"best_acceptance_after,omitempty" table:"Promise|Best acceptance, after|%|?"`
}
