package trace

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/internal/words"
	"github.com/foregate/foregate/loadtest"
)

// Bounds of a trace file.
const (
	maxLine     = 4 << 20 // bytes of a line
	maxRequests = 5_000_000
	maxLength   = 100_000 // tokens of a prompt or an answer
	examples    = 3       // unreadable lines that are shown
)

// record is one request of a file.
type record struct {
	at             time.Time
	prompt, output int
	words          string // requests with the same words are the same; "" is unknown
	repeats        bool   // some earlier one with the same sender
	sender         string
	unanswered     bool
}

// Read reads a trace in one of the formats; the first line tells which: Azure's CSV (TIMESTAMP, ContextTokens, GeneratedTokens),
// Foregate's receipts as JSON lines, LiteLLM's spend log as JSON lines or CSV, or the log of a vLLM server that logs requests.
// Lines that cannot be read are counted.
func Read(from io.Reader, l Load) (*Trace, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(from, 256<<10)
	if mark, _ := in.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = in.Discard(len(mark)) // they are there
	}
	head, _ := in.Peek(128 << 10) // less where the file is shorter
	head = bytes.TrimLeft(head, " \r\n\t")
	c := &collector{trace: &Trace{}, last: map[string]int{}}
	var err error
	switch {
	case len(head) == 0:
		return nil, errors.New("the trace is empty")
	case head[0] == '[':
		return nil, errors.New("the trace is one JSON array: want an object in each line, as jq -c '.[]' makes of it")
	case head[0] == '{':
		err = c.jsonLines(in)
	case bytes.Contains(head, []byte(received)):
		err = c.engineLog(in, l)
	default:
		err = c.table(in)
	}
	if err != nil {
		return nil, err
	}
	return c.trace, c.trace.complete(l)
}

// collector gathers the requests of a file.
type collector struct {
	trace *Trace
	last  map[string]int // the words of requests by what they say, or by sender and lengths
}

// bad counts a line that cannot be read.
func (c *collector) bad(line int, err error) {
	if c.trace.Unreadable++; len(c.trace.Examples) < examples {
		c.trace.Examples = append(c.trace.Examples, fmt.Sprintf("line %d: %s", line, words.Clip(err.Error(), 160)))
	}
}

// add takes a request.
func (c *collector) add(r record) error {
	t := c.trace
	switch {
	case r.prompt < 0 || r.output < 0:
		return fmt.Errorf("%d and %d tokens: a number of tokens is negative", r.prompt, r.output)
	case r.prompt > maxLength || r.output > maxLength:
		return fmt.Errorf("%d and %d tokens: more than %d", r.prompt, r.output, maxLength)
	case r.at.IsZero():
		return errors.New("it has no time")
	case r.unanswered || r.prompt == 0 || r.output == 0:
		t.Unanswered++
		return nil
	case len(t.Requests) >= maxRequests:
		return fmt.Errorf("the trace has more than %d requests", maxRequests)
	}
	if t.start.IsZero() {
		t.start = r.at
	}
	at := r.at.Sub(t.start)
	if at < -31*24*time.Hour || at > 31*24*time.Hour {
		return fmt.Errorf("it is %s from the first request: want a month at most", at.Round(time.Hour))
	}
	g := loadtest.Given{At: at, Prompt: r.prompt, Output: r.output, Words: len(t.Requests)}
	key := r.words
	if key == "" {
		key = fmt.Sprint(r.sender, "\x00", r.prompt)
	}
	if of, ok := c.last[key]; ok && (r.words != "" || r.repeats) {
		g.Words = of
	} else {
		c.last[key] = g.Words
	}
	t.Requests = append(t.Requests, g)
	return nil
}

// times are the layouts of times.
var times = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999"}

func parseTime(text string) (time.Time, error) {
	for _, layout := range times {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is no time such as 2026-11-30T10:00:00Z", words.Clip(text, 40))
}

// row is a request as LiteLLM's spend log has it, or Azure's trace.
type row struct {
	Time   string      `json:"startTime"`
	Prompt json.Number `json:"prompt_tokens"`
	Output json.Number `json:"completion_tokens"`
	Hit    any         `json:"cache_hit"` // "True", or a boolean
	Key    string      `json:"cache_key"`
	Status string      `json:"status"`
	Sender string      `json:"api_key"`
}

// record reads a row.
func (r *row) record() (out record, err error) {
	if out.at, err = parseTime(r.Time); err != nil {
		return out, err
	}
	if out.prompt, err = tokens(r.Prompt); err != nil {
		return out, err
	}
	if out.output, err = tokens(r.Output); err != nil {
		return out, err
	}
	if r.Key != "" && !strings.Contains(r.Key, " ") { // Cache OFF
		out.words = r.Key
	}
	out.repeats, out.sender = strings.EqualFold(fmt.Sprint(r.Hit), "true"), r.Sender
	out.unanswered = strings.EqualFold(r.Status, "failure")
	return out, nil
}

func tokens(n json.Number) (int, error) {
	v, err := strconv.ParseFloat(string(n), 64)
	if err != nil || !(v > -1e9 && v < 1e9) {
		return 0, fmt.Errorf("%q is no number of tokens", words.Clip(string(n), 40))
	}
	return int(v), nil
}

// receipt is what is read of a receipt, or of a line of the log that has one.
type receipt struct {
	Logged *receipt  `json:"receipt"`
	Time   time.Time `json:"time"`
	Tenant string    `json:"tenant"`
	Route  string    `json:"route"`
	Code   int       `json:"code"`
	Cache  string    `json:"cache"`
	Tokens *struct {
		Prompt   int `json:"prompt"`
		Accepted int `json:"accepted"`
		Target   int `json:"target"`
	} `json:"tokens"`
}

func (r *receipt) record() record {
	return record{
		at: r.Time, prompt: r.Tokens.Prompt, output: r.Tokens.Accepted + r.Tokens.Target,
		repeats: r.Cache == "hit" || r.Cache == "coalesced", sender: r.Tenant + "\x00" + r.Route, unanswered: r.Code != 200,
	}
}

// jsonLines reads receipts, or LiteLLM's spend log.
func (c *collector) jsonLines(in io.Reader) error {
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxLine)
	for line := 1; s.Scan(); line++ {
		if text := bytes.TrimSpace(s.Bytes()); len(text) > 0 {
			if err := c.jsonLine(text); err != nil {
				c.bad(line, err)
			}
		}
	}
	return s.Err()
}

func (c *collector) jsonLine(text []byte) error {
	var f receipt
	if err := json.Unmarshal(text, &f); err == nil && f.Logged != nil {
		f = *f.Logged
	}
	if f.Tokens != nil {
		c.trace.Format, c.trace.TellsWords = "receipts", true
		return c.add(f.record())
	}
	var r row
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	if r.Time == "" && r.Prompt == "" {
		return errors.New("it has neither tokens, as a receipt, nor startTime and prompt_tokens, as LiteLLM's spend log")
	}
	c.trace.Format, c.trace.TellsWords = "LiteLLM's spend log", true
	got, err := r.record()
	if err != nil {
		return err
	}
	return c.add(got)
}

// table reads a CSV: Azure's trace, or LiteLLM's spend log.
func (c *collector) table(in io.Reader) error {
	r := csv.NewReader(in)
	r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = -1, true, true
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	at := map[string]int{}
	for i, name := range head {
		at[strings.TrimSpace(name)] = i
	}
	names := [3]string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}
	if c.trace.Format = "Azure's trace"; !hasAll(at, names) {
		c.trace.Format, c.trace.TellsWords, names = "LiteLLM's spend log", true, [3]string{"startTime", "prompt_tokens", "completion_tokens"}
	}
	if !hasAll(at, names) {
		return fmt.Errorf("line 1: %s: want the columns TIMESTAMP, ContextTokens, GeneratedTokens or startTime, prompt_tokens, completion_tokens; JSON lines; or a log of vLLM with %q",
			words.Clip(strings.Join(head, ","), 100), strings.TrimSpace(received))
	}
	for {
		cells, err := r.Read()
		if err == io.EOF {
			return nil
		}
		line, _ := r.FieldPos(0)
		if err == nil {
			err = c.cells(cells, at, names)
		}
		if _, parse := errors.AsType[*csv.ParseError](err); err != nil && !parse && cells == nil {
			return err
		}
		if err != nil {
			c.bad(line, err)
		}
	}
}

func hasAll(at map[string]int, names [3]string) bool {
	for _, name := range names {
		if _, ok := at[name]; !ok {
			return false
		}
	}
	return true
}

// cells reads a line of a table.
func (c *collector) cells(cells []string, at map[string]int, names [3]string) error {
	cell := func(name string) string {
		if i, ok := at[name]; ok && i < len(cells) {
			return strings.TrimSpace(cells[i])
		}
		return ""
	}
	r := row{
		Time: cell(names[0]), Prompt: json.Number(cell(names[1])), Output: json.Number(cell(names[2])),
		Hit: cell("cache_hit"), Key: cell("cache_key"), Status: cell("status"), Sender: cell("api_key"),
	}
	got, err := r.record()
	if err != nil {
		return err
	}
	return c.add(got)
}
