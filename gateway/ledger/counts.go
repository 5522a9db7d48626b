package ledger

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Counts are the usage of one or several requests. Fields may be added at the end only: Redis keeps them in that order.
type Counts struct {
	Requests   int64 `json:"requests"`    // that named a known route; the next six add up to it
	OK         int64 `json:"ok"`          // 2xx
	Refused    int64 `json:"refused"`     // 4xx, but 429
	Limited    int64 `json:"limited"`     // 429
	Shed       int64 `json:"shed"`        // 503
	Failed     int64 `json:"failed"`      // other 5xx, and answers that broke off
	ClientLeft int64 `json:"client_left"` // before the end of the answer

	Cached    int64 `json:"cached_answers"`    // from the cache
	Coalesced int64 `json:"coalesced_answers"` // shared with an identical request

	Prompt       int64 `json:"prompt_tokens"`     // of all answers, those from the cache too
	Completion   int64 `json:"completion_tokens"` // as above
	DraftTokens  int64 `json:"draft_tokens"`      // of the completion tokens, those that drafts supplied; not those from the cache
	CachedTokens int64 `json:"cached_tokens"`     // prompt and completion tokens of cached and coalesced answers

	DraftUSD       Nanos `json:"draft_usd"`           // cost of the requests' work at the draft's backends
	TargetUSD      Nanos `json:"target_usd"`          // and at the target's and fallbacks'
	TargetAloneUSD Nanos `json:"target_alone_usd"`    // what the target alone would have cost
	DraftsSaved    Nanos `json:"saved_by_drafts_usd"` // that, less what the requests and their audits cost; negative where drafts cost more
	CacheSaved     Nanos `json:"saved_by_cache_usd"`  // what the cached and coalesced answers had cost to make
	AuditUSD       Nanos `json:"audit_usd"`           // cost of the work for the requests' audits
	Unpriced       int64 `json:"unpriced_requests"`   // whose cost is not in these amounts, or not all of it, because prices were unknown
}

// USD is what the requests and their audits cost.
func (c *Counts) USD() Nanos { return c.DraftUSD + c.TargetUSD + c.AuditUSD }

// blank replaces amounts of nothing by unknown ones, where the price of work was unknown.
func (c *Counts) blank() {
	if c.Unpriced == 0 {
		return
	}
	for _, v := range []*Nanos{&c.DraftUSD, &c.TargetUSD, &c.TargetAloneUSD, &c.DraftsSaved, &c.AuditUSD} {
		if *v == 0 {
			*v = Unknown
		}
	}
}

// numColumns is the number of counts.
var numColumns = reflect.TypeFor[Counts]().NumField()

// Columns are the names of the counts in JSON, in their order.
func Columns() []string {
	names := make([]string, numColumns)
	for i := range names {
		names[i] = reflect.TypeFor[Counts]().Field(i).Tag.Get("json")
	}
	return names
}

// sums returns the counts as they are added up.
func (c *Counts) sums() sums {
	all, fields := make(sums, numColumns), reflect.ValueOf(c).Elem()
	for i := range all {
		all[i] = fields.Field(i).Int()
	}
	return all
}

// add adds sums. A row of an earlier version has fewer, of a later one's only the known ones are read.
func (c *Counts) add(s sums) {
	fields := reflect.ValueOf(c).Elem()
	for i := range min(len(s), numColumns) {
		fields.Field(i).SetInt(plus(fields.Field(i).Int(), s[i]))
	}
}

// sums are numbers that are added up by row, in the order of Redis: decimal numbers, separated by spaces.
type sums []int64

// add adds o, of which a later version may have more numbers.
func (s sums) add(o sums) {
	for i := range min(len(s), len(o)) {
		s[i] = plus(s[i], o[i])
	}
}

func (s sums) String() string { return string(appendNumbers(nil, s...)[1:]) }

// maxNumbers bounds the numbers of a row: a later version may have more than this one.
const maxNumbers = 512

// errCounts means that a row in Redis is not one.
var errCounts = errors.New("not the counts of a row")

// decode is the inverse of String.
func decode(text string) (s sums, err error) {
	for word := range strings.SplitSeq(text, " ") {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n > maxAmount || n < -maxAmount || len(s) == maxNumbers {
			return nil, errCounts
		}
		s = append(s, n)
	}
	return s, nil
}

// Nanos is an amount in billionths of a US dollar. As JSON it is a number of dollars with at most nine decimals, exact.
type Nanos int64

// Unknown is an amount that nobody knows: null in JSON. There is no arithmetic with it.
const Unknown Nanos = math.MinInt64

const (
	nanosPerUSD = 1e9
	maxUSD      = 1e6 // bounds the cost of one request: a larger number is a mistake
)

// NanosOf rounds an amount in US dollars. NaN is 0; an amount is at most a million in both directions.
func NanosOf(usd float64) Nanos {
	if math.IsNaN(usd) {
		return 0
	}
	return Nanos(math.Round(max(-maxUSD, min(usd, maxUSD)) * nanosPerUSD))
}

// USD is the amount in US dollars.
func (n Nanos) USD() float64 { return float64(n) / nanosPerUSD }

// String is the amount in US dollars with a decimal point, exact and without trailing zeros.
func (n Nanos) String() string {
	sign, v := "", uint64(n)
	if n < 0 {
		sign, v = "-", -v
	}
	return sign + strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%09d", v/nanosPerUSD, v%nanosPerUSD), "0"), ".")
}

// MarshalJSON implements json.Marshaler.
func (n Nanos) MarshalJSON() ([]byte, error) {
	if n == Unknown {
		return []byte("null"), nil
	}
	return []byte(n.String()), nil
}

// UnmarshalJSON implements json.Unmarshaler for what MarshalJSON writes.
func (n *Nanos) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Unknown
		return nil
	}
	text, negative := strings.CutPrefix(string(b), "-")
	whole, decimals, _ := strings.Cut(text, ".")
	const digits = 9
	v, err := strconv.ParseUint(whole+decimals+strings.Repeat("0", max(0, digits-len(decimals))), 10, 63)
	if err != nil || len(decimals) > digits {
		return errors.New("not an amount in US dollars with at most nine decimals")
	}
	if *n = Nanos(v); negative {
		*n = -*n
	}
	return nil
}
