package usage

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
)

// Counts are the usage of one or several requests. Fields may be added at the end of columns only: Redis keeps them in
// that order.
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

	DraftUSD       Nanos `json:"draft_usd"`           // requests' share of the price of the draft's backends
	TargetUSD      Nanos `json:"target_usd"`          // and of the target's
	TargetAloneUSD Nanos `json:"target_alone_usd"`    // what requests that could be drafted would have cost the target alone, by token prices
	DraftsSaved    Nanos `json:"saved_by_drafts_usd"` // that, less what these requests cost by the same prices; negative where drafts cost more
	CacheSaved     Nanos `json:"saved_by_cache_usd"`  // what the cached and coalesced answers had cost to make
}

// numColumns is the number of counts.
const numColumns = 18

// columns are the counts in the order of Redis.
func (c *Counts) columns() [numColumns]*int64 {
	return [...]*int64{
		&c.Requests, &c.OK, &c.Refused, &c.Limited, &c.Shed, &c.Failed, &c.ClientLeft, &c.Cached, &c.Coalesced,
		&c.Prompt, &c.Completion, &c.DraftTokens, &c.CachedTokens,
		(*int64)(&c.DraftUSD), (*int64)(&c.TargetUSD), (*int64)(&c.TargetAloneUSD), (*int64)(&c.DraftsSaved), (*int64)(&c.CacheSaved),
	}
}

// maxNumber bounds each number, in both directions: Lua computes with floating point. It is 9 million USD.
const maxNumber = 1<<53 - 1

// Add adds o.
func (c *Counts) Add(o *Counts) {
	other := o.columns()
	for i, n := range c.columns() {
		*n = max(-maxNumber, min(*n+*other[i], maxNumber))
	}
}

// subtract is the inverse of Add.
func (c *Counts) subtract(o *Counts) {
	other := o.columns()
	for i, n := range c.columns() {
		*n = max(-maxNumber, min(*n-*other[i], maxNumber))
	}
}

// encode returns the counts as Redis keeps them: decimal numbers, separated by spaces.
func (c *Counts) encode() string {
	b := make([]byte, 0, 128)
	for i, n := range c.columns() {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, *n, 10)
	}
	return string(b)
}

// maxValue bounds the text of a row in Redis, in bytes: a later version may have more numbers.
const maxValue = 64 * 18

// errCounts means that a row in Redis is not one.
var errCounts = errors.New("not the counts of a row")

// decode is the inverse of encode. A row of an earlier version has fewer numbers; of a later version's only the known
// ones are read.
func decode(text string) (c Counts, err error) {
	if text == "" || len(text) > maxValue {
		return Counts{}, errCounts
	}
	columns := c.columns()
	i := 0
	for word := range strings.SplitSeq(text, " ") {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n > maxNumber || n < -maxNumber {
			return Counts{}, errCounts
		}
		if i < len(columns) {
			*columns[i] = n
		}
		i++
	}
	return c, nil
}

// Nanos is an amount in billionths of a US dollar. As JSON it is a number of dollars with at most nine decimals, exact.
type Nanos int64

// maxUSD bounds the cost of one request, in US dollars: a larger number is a mistake.
const maxUSD = 1e6

// NanosOf rounds an amount in US dollars. NaN is 0; an amount is at most a million in both directions.
func NanosOf(usd float64) Nanos {
	if math.IsNaN(usd) {
		return 0
	}
	return Nanos(math.Round(max(-maxUSD, min(usd, maxUSD)) * 1e9))
}

// USD is the amount in US dollars.
func (n Nanos) USD() float64 { return float64(n) / 1e9 }

// String is the amount in US dollars with a decimal point, exact and without trailing zeros.
func (n Nanos) String() string {
	sign, v := "", uint64(n)
	if n < 0 {
		sign, v = "-", -v
	}
	text := strconv.FormatUint(v/1e9, 10)
	if rest := v % 1e9; rest > 0 {
		decimals := strconv.FormatUint(1e9+rest, 10)[1:]
		text += "." + strings.TrimRight(decimals, "0")
	}
	return sign + text
}

// MarshalJSON implements json.Marshaler.
func (n Nanos) MarshalJSON() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalJSON implements json.Unmarshaler for what MarshalJSON writes.
func (n *Nanos) UnmarshalJSON(b []byte) error {
	text, negative := bytes.CutPrefix(b, []byte("-"))
	whole, decimals, _ := strings.Cut(string(text), ".")
	if len(decimals) > 9 || len(whole) > 9 {
		return errors.New("not an amount with at most nine decimals")
	}
	v, err := strconv.ParseUint(whole+decimals+strings.Repeat("0", 9-len(decimals)), 10, 63)
	if err != nil {
		return errors.New("not an amount in US dollars")
	}
	if *n = Nanos(v); negative {
		*n = -*n
	}
	return nil
}
