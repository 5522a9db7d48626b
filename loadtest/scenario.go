package loadtest

import "time"

// Scenario is a whole measurement. [Parse] makes it; every field is filled and
// checked then.
type Scenario struct {
	Name  string // of the file, without .yaml
	About string // what it shows, and where its numbers come from

	Kind      string        // of run unless the command says: Live (default) or Virtual, for long ones
	Seed      uint64        // default 1
	Duration  time.Duration // arrivals end then; what is under way is finished
	Warmup    time.Duration // what arrives before is sent, but not counted
	Ramp      Ramp          // of cases with a load above 1; default none
	Deadline  time.Duration // a client's patience with one request; default 10 min
	TimeScale float64       // live runs: how many times faster than the profiles; default 1
	Totals    bool          // rows have the columns of all answers and all of the rent
	Audits    int           // virtual runs: drafts of each case that are judged to their end, for free, and of each time between drifts; default 0

	Arrivals Arrivals
	Prompts  []Prompt // the mix, by weight
	Tenants  []Tenant // the mix, by weight; default one of normal priority
	Cases    []Case   // what is compared, at least one; each becomes a row
	Faults   []Fault
	Changes  []Change // virtual runs: settings that are set live
	Outages  []Outage // virtual runs: of Redis
}

// Change sets settings in the middle of a run, as an operator does. Then they are what they were.
type Change struct {
	At, For  time.Duration // For 0: until the end
	Settings map[string]string
}

// Outage is a time in which no replica reaches Redis.
type Outage struct{ At, For time.Duration }

// Ramp is when a load above 1 rises: it is 1 before From, and rises evenly until Until. The zero value is none.
type Ramp struct{ From, Until time.Duration }

// Case is one row's system under test: the scenario's, with the case's own
// changes laid over it.
type Case struct {
	Name     string
	Replicas int               // of the gateway; default 1
	Draft    *Pool             // nil: the route has no draft pool
	Target   Pool              //
	Settings map[string]string // live settings of the gateway, as an operator would set them
	Load     float64           // times the scenario's arrivals; default 1
	Only     string            // the tenant who alone sends; "" is all
	Warmup   time.Duration     // instead of the scenario's; 0 is the scenario's
	Oracle   float64           // virtual runs: its thresholds are those that free audits find to keep the disagreement below this; 0 is none
	Router   float64           // virtual runs: clients demand the draft for this share of the requests, by chance, and the target for the others; 0 is none
}

// In returns the scenario as the case has it.
func (c *Case) In(s *Scenario) *Scenario {
	own := *s
	if c.Warmup > 0 {
		own.Warmup = c.Warmup
	}
	return &own
}

// Pool is a set of like backends.
type Pool struct {
	Model      string  // default "draft" or "target"
	Profile    string  // speeds and sizes of the simulator; unknown ones are the run's to refuse
	Count      int     // backends; default 1
	USDPerHour float64 // of one backend

	Divergence float64 // 0..1, of the language from the target's
	Blind      float64 // 0..1, how little its confidence says of its errors

	Blocks, MaxSeqs, MaxBatchedTokens int           // instead of the profile's; 0 is the profile's
	Policy                            string        // scheduling: fcfs (default) or priority
	OOM                               bool          // an overfull cache kills the engine
	Restart                           time.Duration // until it is back; default 60 s
}

// The kinds of [Arrivals].
const (
	Closed  = "closed"  // Users, each sending its next request after the answer and a pause
	Rate    = "rate"    // PerSecond, evenly spaced
	Poisson = "poisson" // PerSecond on average, independent
	Bursts  = "bursts"  // Poisson, and Burst more at once every Every
	Day     = "day"     // Poisson, with a rate that rises and falls as days do
)

// Arrivals say when conversations begin. All but Closed are open loops: nobody
// waits for the system to be ready for them.
type Arrivals struct {
	Kind      string
	Users     int           // closed
	Think     Spread        // closed: seconds between an answer and the user's next conversation
	PerSecond float64       // rate, poisson, bursts; the highest of a day
	Lowest    float64       // day: the rate per second at its quietest
	Length    time.Duration // day: how long it is
	Burst     int           // bursts; of a day, too, unless it is 0: as many at its busiest, fewer as the rate is lower
	Every     time.Duration // between bursts
	Tenant    string        // bursts: whose they are; "" is everybody's
}

// Prompt is one kind of conversation in the mix.
type Prompt struct {
	Name        string
	Tenant      string // whose alone it is; "" is everybody's
	Weight      float64
	System      Shared  // system prompt
	Context     Shared  // retrieved documents, in the system message after the system prompt; its digest goes into X-RAG-Hash
	Question    Spread  // tokens of each user message
	Turns       Spread  // user messages of a conversation, at least 1
	Think       Spread  // seconds between an answer and the next turn
	Repeat      float64 // share of conversations that repeat an earlier one's words exactly
	Catalogue   Catalogue
	Output      Spread // tokens of the answer, forced (ignore_eos); zero: the model ends by itself
	MaxTokens   int    // limit of an answer; 0 is none
	Temperature float64
	Stream      bool // default true
}

// Shared is text that several conversations begin with.
type Shared struct {
	Tokens   Spread
	Variants int     // how many there are; 0: each conversation has its own
	Zipf     float64 // exponent of their popularity; 0: all alike
	PerUser  bool    // closed arrivals: each user has one of his own
}

// Catalogue is what the conversations of one kind say again and again: each tenant has
// a number of its own of them, which begin as the others of the kind do.
type Catalogue struct {
	Share float64 // of the conversations that are in it, word for word; 0 is none
	Size  int     // how many there are, for each tenant
	Zipf  float64 // exponent of their popularity; 0: all alike
}

// Spread is a law of numbers: fixed, uniform, or lognormal through two of its
// quantiles. The zero value is always 0.
type Spread struct {
	Fixed    float64 // every value, when nothing else is set
	Min, Max float64 // uniform when P50 is 0, otherwise bounds of the lognormal (0 is none)
	P50, P95 float64 // of a lognormal
}

// Tenant is one customer's share of the load.
type Tenant struct {
	ID       string
	Weight   float64
	Priority map[string]float64 // high, normal, low → weight; default normal alone
}

// Fault is what goes wrong with backends at a time of the run. One of the kinds
// is set.
type Fault struct {
	At, For time.Duration // For 0: until the end, except of Die
	Pool    string        // draft or target
	Backend int           // its number from 0; −1 is all

	Die   bool   // the process ends; it is back after For, or the pool's Restart
	Drift *Drift // virtual runs: the draft becomes another model; nil is none
}

// Drift is what a draft pool's language becomes: see [Pool].
type Drift struct{ Divergence, Blind float64 }
