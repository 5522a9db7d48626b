// Package replay tells what other settings would have made of requests that are over, by
// their receipts. Start at [Read], [Parse] and [Compare].
//
// It tells only what a receipt knows. A draft that was given up after 40 tokens says
// nothing about the 41st: where that would have mattered, everything that may have come
// is counted, from the least to the most. Answers are taken to be as long as they were,
// and what the gateway learns from its requests (expected savings, acceptance) to be what
// it was: a setting that is in force for a day changes both.
package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Receipt is what a replay reads of a receipt: a part of what GET /admin/receipts tells,
// by the same names. Scores are in nats, times in milliseconds.
type Receipt struct {
	ID         string  `json:"id"`
	Route      string  `json:"route"`
	Code       int     `json:"code"`
	Error      string  `json:"error"`
	Tier       string  `json:"tier"`
	Acceptance string  `json:"acceptance"`
	USD        float64 `json:"usd"`

	Rules *struct {
		Mode              string  `json:"mode"`
		Holdback          int     `json:"holdback_tokens"`
		MidstreamFailover bool    `json:"midstream_failover"`
		Guard             bool    `json:"economy_guard"`
		MaxTTFT           float64 `json:"max_extra_ttft_ms"`
	} `json:"settings"`
	Prices *Prices `json:"prices"`
	Plan   *struct {
		Judged      bool      `json:"judged"`
		Reason      string    `json:"reason"`
		Mode        string    `json:"mode"`
		Whole       bool      `json:"buffered"`
		TargetCheck string    `json:"verification"`
		Estimate    *Estimate `json:"estimate"`
	} `json:"plan"`
	Verdict *struct {
		Accept    bool    `json:"accept"`
		Reason    string  `json:"reason"`
		Score     float64 `json:"score"`
		Threshold float64 `json:"threshold"`
		Tokens    int     `json:"tokens"`
	} `json:"verdict"`
	ScoreSeries [][2]float64 `json:"score_by_token"`
	Checks      []Check      `json:"checks"`
	Tokens      struct {
		Prompt    int `json:"prompt"`
		Drafted   int `json:"drafted"`
		Accepted  int `json:"accepted"`
		Scored    int `json:"scored"`
		Target    int `json:"target"`
		Committed int `json:"committed"`
	} `json:"tokens"`
	MS struct {
		Draft  float64 `json:"draft"`
		Verify float64 `json:"verify"`
		First  float64 `json:"first_byte"`
	} `json:"ms"`
}

// Check is the target's of a part of the draft.
type Check struct {
	Scorer string `json:"scorer"`
	Tokens int    `json:"tokens"`
	Pass   bool   `json:"pass"`
	Reason string `json:"reason"`
}

// Estimate are those of the receipt's plan.
type Estimate struct {
	Samples   float64 `json:"samples"`
	TargetUSD float64 `json:"target_usd"`
	Saving    float64 `json:"saving_usd"`
	ExtraTTFT float64 `json:"extra_ttft_ms"`
	Explored  bool    `json:"explored"`
}

// Prices are USD per token; 0 is unknown.
type Prices struct {
	DraftPrefill  float64 `json:"draft_prefill"`
	DraftDecode   float64 `json:"draft_decode"`
	TargetPrefill float64 `json:"target_prefill"`
	TargetDecode  float64 `json:"target_decode"`
}

func (p *Prices) complete() bool {
	return p != nil && p.DraftPrefill > 0 && p.DraftDecode > 0 && p.TargetPrefill > 0 && p.TargetDecode > 0
}

const (
	// maxLine bounds a line, in bytes: several receipts' worth.
	maxLine = 64 << 10
	// maxReceipts bounds what is read, so that a wrong file does not fill the memory.
	maxReceipts = 1_000_000
	// maxTokens bounds counts: no engine has a context of that length.
	maxTokens = math.MaxInt32
)

// Bad is a line that holds no receipt.
type Bad struct {
	Line int    `json:"line"` // from 1
	Why  string `json:"why"`
}

func (b Bad) String() string { return fmt.Sprintf("line %d: %s", b.Line, b.Why) }

// Read reads receipts, one in a line, as GET /admin/receipts gives them or as the gateway's
// log does (in the field "receipt" of a line). Empty lines are skipped, and so is a receipt
// that was read before. Lines that hold none are returned with what is wrong with them; err
// is of reading only.
func Read(r io.Reader) (list []Receipt, bad []Bad, err error) {
	lines := bufio.NewReaderSize(r, maxLine)
	seen := map[string]bool{}
	for n := 1; ; n++ {
		line, long, err := next(lines)
		switch {
		case err == io.EOF:
			return list, bad, nil
		case err != nil:
			return list, bad, fmt.Errorf("line %d: %w", n, err)
		case long:
			bad = append(bad, Bad{n, fmt.Sprintf("longer than %d bytes", maxLine)})
			continue
		case len(bytes.TrimSpace(line)) == 0:
			continue
		}
		rc, err := parse(line)
		switch {
		case err != nil:
			bad = append(bad, Bad{n, err.Error()})
		case seen[rc.ID]:
		case len(list) == maxReceipts:
			return list, bad, fmt.Errorf("line %d: more than %d receipts", n, maxReceipts)
		default:
			seen[rc.ID] = true
			list = append(list, rc)
		}
	}
}

// next is the next line; long says that it is too long to be one. io.EOF comes after the
// last.
func next(r *bufio.Reader) (line []byte, long bool, err error) {
	line, err = r.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		long = true
		_, err = r.ReadSlice('\n')
	}
	if err == io.EOF && (len(line) > 0 || long) {
		err = nil
	}
	return line, long, err
}

// parse reads one line.
func parse(line []byte) (Receipt, error) {
	var logged struct {
		Receipt json.RawMessage `json:"receipt"`
	}
	if err := json.Unmarshal(line, &logged); err != nil {
		return Receipt{}, fmt.Errorf("no JSON object: %w", err)
	}
	if logged.Receipt != nil {
		line = logged.Receipt
	}
	var rc Receipt
	if err := json.Unmarshal(line, &rc); err != nil {
		return Receipt{}, fmt.Errorf("no receipt: %w", err)
	}
	return rc, rc.check()
}

// check refuses what no gateway writes.
func (r *Receipt) check() error {
	if r.ID == "" || r.Route == "" {
		return errors.New("no receipt: id or route is missing")
	}
	for _, n := range []int{r.Tokens.Prompt, r.Tokens.Drafted, r.Tokens.Accepted, r.Tokens.Scored, r.Tokens.Target, r.Tokens.Committed} {
		if n < 0 || n > maxTokens {
			return fmt.Errorf("%d tokens", n)
		}
	}
	for i, m := range r.ScoreSeries {
		switch {
		case m[0] < 1 || m[0] > maxTokens || m[0] != math.Trunc(m[0]):
			return fmt.Errorf("track: %v is no count of tokens", m[0])
		case i > 0 && m[0] <= r.ScoreSeries[i-1][0]:
			return errors.New("track: the tokens do not rise")
		case i > 0 && r.ScoreSeries[i-1][0] >= headTokens && m[1] > r.ScoreSeries[i-1][1]:
			return errors.New("track: the running minimum rises")
		}
	}
	if v := r.Verdict; v != nil && (v.Tokens < 0 || v.Tokens > maxTokens) {
		return fmt.Errorf("verdict: %d tokens", v.Tokens)
	}
	return nil
}

// headTokens is from how many tokens on a score is a running minimum (tiers/accept).
const headTokens = 8
