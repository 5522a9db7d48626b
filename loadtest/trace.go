package loadtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Bounds of a trace in memory.
const (
	maxRows   = 2_000_000
	maxHashes = 8_000_000 // block ids, of all rows
	maxLine   = 1 << 20   // bytes
	maxInput  = 1 << 20   // tokens
)

// blockTokens is how much text one of a trace's hash_ids stands for.
const blockTokens = 512

// row is one recorded request.
type row struct {
	at            time.Duration // since the first row, at the speed of the run
	input, output int32
	ids, count    int32 // where its block ids are
}

// trace is a recorded load.
type trace struct {
	rows []row
	ids  []uint64
	cut  bool // there was more than fits
}

// blocks returns the block ids of a row.
func (t *trace) blocks(r row) []uint64 { return t.ids[r.ids : r.ids+r.count] }

// entry is a line of a trace as it is recorded.
type entry struct {
	at            time.Duration
	input, output int
	ids           []uint64
}

// openTrace reads a trace: at speed, and no further than end.
func openTrace(t Trace, speed float64, end time.Duration) (*trace, error) {
	f, err := os.Open(t.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("loadtest: the trace %s is not there; the scenario says where to get it, and %s=<folder> where it is", t.Path, tracesFolder)
	} else if err != nil {
		return nil, fmt.Errorf("loadtest: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	return readTrace(f, t, speed, end)
}

// readTrace reads the rows that begin before end. Its errors name file and line.
func readTrace(r io.Reader, t Trace, speed float64, end time.Duration) (*trace, error) {
	parse := jsonRow
	if t.Format == "azure" {
		parse = azureRow
	}
	out, number := &trace{}, 0
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s", t.Path, max(1, number), fmt.Sprintf(format, args...))
	}
	var first, last time.Duration
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		number++
		line := lines.Bytes()
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			if t.Format == "azure" {
				if got := string(bytes.TrimSpace(line)); !strings.EqualFold(got, azureHeader) {
					return nil, bad("want the header %s", azureHeader)
				}
				continue
			}
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		e, err := parse(line)
		if err != nil {
			return nil, bad("%v", err)
		}
		if len(out.rows) == 0 {
			first, last = e.at, e.at
		}
		if e.at < last {
			return nil, bad("the time is before that of the row above; want the rows in order")
		}
		last = e.at
		if !out.add(e, float64(e.at-first)/speed, end) {
			return out, nil
		}
	}
	if err := lines.Err(); err != nil {
		number++
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, bad("the line is longer than %d bytes", maxLine)
		}
		return nil, bad("%v", err)
	}
	if len(out.rows) == 0 {
		return nil, bad("the trace ends without a request")
	}
	return out, nil
}

// add appends a row that begins so many nanoseconds after the first one. It
// returns false when this and what follows do not count.
func (t *trace) add(e entry, at float64, end time.Duration) bool {
	if at >= float64(end) {
		return false
	}
	if len(t.rows) == maxRows || len(t.ids)+len(e.ids) > maxHashes {
		t.cut = true
		return false
	}
	t.rows = append(t.rows, row{
		at: time.Duration(at), input: int32(e.input), output: int32(e.output),
		ids: int32(len(t.ids)), count: int32(len(e.ids)),
	})
	t.ids = append(t.ids, e.ids...)
	return true
}

const azureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens"

// azureTimes are the spellings of the years' traces.
var azureTimes = []string{"2006-01-02 15:04:05.9999999", "2006-01-02 15:04:05.999999999Z07:00"}

// epoch keeps the difference of any two times of a trace within a Duration.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// azureRow reads a line of the traces of Azure/AzurePublicDataset.
func azureRow(line []byte) (e entry, err error) {
	fields := strings.Split(string(line), ",")
	if len(fields) != 3 {
		return e, fmt.Errorf("has %d fields; want the 3 of %s", len(fields), azureHeader)
	}
	var at time.Time
	for _, layout := range azureTimes {
		if at, err = time.Parse(layout, fields[0]); err == nil {
			break
		}
	}
	if err != nil || at.Year() < 2000 || at.Year() > 2100 {
		return e, errors.New("TIMESTAMP: want a time such as 2023-11-16 18:15:46.6805900")
	}
	e.at = at.Sub(epoch)
	if e.input, err = strconv.Atoi(fields[1]); err != nil || e.input < 0 || e.input > maxInput {
		return e, fmt.Errorf("ContextTokens: want a whole number of 0 … %d", maxInput)
	}
	if e.output, err = strconv.Atoi(fields[2]); err != nil || e.output < 0 || e.output > maxTokens {
		return e, fmt.Errorf("GeneratedTokens: want a whole number of 0 … %d", maxTokens)
	}
	return e, nil
}

// jsonRow reads a line in the shape of Mooncake's traces. Other fields are
// allowed.
func jsonRow(line []byte) (e entry, err error) {
	var in struct {
		Timestamp *float64 `json:"timestamp"`
		Input     *int     `json:"input_length"`
		Output    *int     `json:"output_length"`
		IDs       []uint64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(line, &in); err != nil {
		wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
		switch {
		case ok && wrong.Field == "":
			return e, fmt.Errorf("want a JSON object, got %s", wrong.Value)
		case ok && wrong.Field == "timestamp":
			return e, fmt.Errorf("timestamp: want a number, got %s", wrong.Value)
		case ok:
			return e, fmt.Errorf("%s: want whole numbers, not negative, got %s", wrong.Field, wrong.Value)
		}
		return e, fmt.Errorf("no JSON: %w", err)
	}
	const century = 3.2e12 // milliseconds
	switch {
	case in.Timestamp == nil || *in.Timestamp < 0 || *in.Timestamp > century:
		return e, fmt.Errorf("timestamp: want milliseconds of 0 … %g", century)
	case in.Input == nil || *in.Input < 0 || *in.Input > maxInput:
		return e, fmt.Errorf("input_length: want a whole number of 0 … %d", maxInput)
	case in.Output == nil || *in.Output < 0 || *in.Output > maxTokens:
		return e, fmt.Errorf("output_length: want a whole number of 0 … %d", maxTokens)
	}
	// More blocks than the input is long say nothing.
	ids := in.IDs[:min(len(in.IDs), (*in.Input+blockTokens-1)/blockTokens)]
	return entry{at: time.Duration(*in.Timestamp * 1e6), input: *in.Input, output: *in.Output, ids: ids}, nil
}
