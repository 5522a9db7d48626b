package evidence

import (
	_ "embed" // the scripts
	"fmt"
	"regexp"
	"strings"

	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/risk"
)

// The keys share the hash tag {fg} with the other keys of the replicas, so that a script may use several.
// None has a TTL, because a full Redis evicts keys with a TTL first. Their number is bounded, and times in
// them are by Redis' clock.
const (
	// keyRisk plus a key's name is a hash: the state of one kind of request, and one field for each audit in
	// progress. Its number rises when what is stored changes.
	keyRisk = "foregate:{fg}:risk3:"
	// keyIndex is a sorted set: the names of all these hashes, by the second of their last use.
	keyIndex = keyRisk + "index"
	// keyLog is a stream of opened and closed audits.
	keyLog = keyRisk + "log"
	// keyRefits is a hash: the record of each route's fitted scores, and the lease of the replica that works on them.
	keyRefits = keyRisk + "refits"
)

const (
	maxKeys  = 1024     // kinds of request, here and in Redis
	maxLog   = 40000    // entries of the log
	maxValue = 16 << 10 // bytes of a field
	maxName  = 256      // bytes of a route's name
)

// names are the fields of a state in the order of the scripts; viewed are those of a view.
var (
	names = []string{
		"version", "alarm", "grid", "scores", "eps", "delta", "op", "drift", "hopeless", "cold", "outcomes", "warmup",
		"born", "e1", "n1", "k1", "o1", "e2", "n2", "k2", "o2",
	}
	viewed = []string{"version", "alarm", "grid", "scores", "eps", "delta", "op", "drift", "hopeless", "warmup"}
)

// The common code that begins every script that changes a state.
var (
	//go:embed state.lua
	stateSource string
	//go:embed open.lua
	openSource string
	//go:embed close.lua
	closeSource string
	//go:embed warmup.lua
	warmupSource string
	//go:embed prior.lua
	priorSource string
	//go:embed forget.lua
	forgetSource string
	//go:embed refit.lua
	refitSource string

	openScript   = script.New(stateSource + openSource)
	closeScript  = script.New(stateSource + closeSource)
	warmupScript = script.New(stateSource + warmupSource)
	priorScript  = script.New(stateSource + priorSource)
	forgetScript = script.New(forgetSource)
	refitScript  = script.New(refitSource)
)

var (
	wordShape   = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	ticketShape = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
)

// isRequest reports whether a text is a request id, or "" for an unknown one.
func isRequest(id string) bool { return id == "" || ticketShape.MatchString(id) }

// nameOf is the unique name of a key.
func nameOf(k risk.Key) (string, error) {
	if k.Route == "" || len(k.Route) > maxName || strings.ContainsFunc(k.Route, func(r rune) bool { return r < ' ' || r == '\u007f' || r == '\ufffd' }) {
		return "", fmt.Errorf("evidence: route %.80q is not 1 to %d printable bytes", k.Route, maxName)
	}
	if !wordShape.MatchString(k.TrafficClass) {
		return "", fmt.Errorf("evidence: traffic class %.80q is not 1 to 64 of A-Z, a-z, 0-9, . _ -", k.TrafficClass)
	}
	return k.String(), nil
}

// keyOf parses a name. Only a route may contain slashes.
func keyOf(name string) (risk.Key, bool) {
	at := strings.LastIndexByte(name, '/')
	if at < 0 {
		return risk.Key{}, false
	}
	k := risk.Key{Route: name[:at], TrafficClass: name[at+1:]}
	_, err := nameOf(k)
	return k, err == nil
}

// checkRule returns what is wrong with a rule.
func checkRule(r risk.Rule) error {
	if !(r.MaxWrongRate > 0 && r.MaxWrongRate < 1 && r.ErrorProbability > 0 && r.ErrorProbability < 1 && r.LeaseAudits >= 2 && r.DriftRunLength >= 1 && r.DriftRunLength <= 1e15) {
		return fmt.Errorf("evidence: no promise can be kept by ε %g, δ %g, lease %d, run %g", r.MaxWrongRate, r.ErrorProbability, r.LeaseAudits, r.DriftRunLength)
	}
	return nil
}
