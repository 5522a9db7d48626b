package pressure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// maxBody bounds an exposition, in bytes.
const maxBody = 4 << 20

// openMetrics is the content type of the format that fromOpenMetrics reads.
const openMetrics = "application/openmetrics-text"

// fromOpenMetrics converts an exposition to the older text format, the only one that expfmt reads: counters
// get their _total, unknown types and exemplars are removed, timestamps become milliseconds. We request text,
// so this is for servers and proxies that answer otherwise. The final "# EOF" is required, because it
// distinguishes a complete exposition from a truncated one.
func fromOpenMetrics(r io.Reader) (io.Reader, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxBody)
	var out bytes.Buffer
	ended := false
	for in.Scan() {
		line := in.Bytes()
		if ended {
			return nil, errors.New("text after # EOF")
		}
		if ended = bytes.Equal(line, []byte("# EOF")); ended {
			continue
		}
		if err := rewrite(&out, line); err != nil {
			return nil, err
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if !ended {
		return nil, errors.New("cut off: no # EOF")
	}
	return &out, nil
}

// rewrite appends a line in the text format.
func rewrite(out *bytes.Buffer, line []byte) error {
	if len(line) == 0 || line[0] != '#' {
		return rewriteSample(out, line)
	}
	words := bytes.Fields(line)
	if len(words) != 4 || string(words[1]) != "TYPE" {
		return nil // HELP and UNIT are not needed
	}
	switch kind := string(words[3]); kind {
	case "counter":
		// Also for the plain name: a gauge that claims to be a counter is refused.
		fmt.Fprintf(out, "# TYPE %s_total counter\n# TYPE %s counter\n", words[2], words[2])
	case "gauge", "histogram", "summary":
		fmt.Fprintf(out, "# TYPE %s %s\n", words[2], kind)
	}
	return nil
}

// rewriteSample removes a sample's exemplar and converts its timestamp.
func rewriteSample(out *bytes.Buffer, line []byte) error {
	at := valueAt(line)
	words := bytes.Fields(line[at:])
	if at == 0 || len(words) == 0 {
		return fmt.Errorf("not a sample: %.80q", line)
	}
	out.Write(line[:at])
	out.WriteByte(' ')
	out.Write(words[0])
	if len(words) > 1 && words[1][0] != '#' {
		seconds, err := strconv.ParseFloat(string(words[1]), 64)
		if err != nil || math.IsNaN(seconds) || math.Abs(seconds) > 1e12 {
			return fmt.Errorf("not a timestamp: %.80q", words[1])
		}
		fmt.Fprintf(out, " %d", int64(seconds*1000))
	}
	out.WriteByte('\n')
	return nil
}

// valueAt is where a sample's name and labels end.
func valueAt(line []byte) int {
	quoted, escaped, braces := false, false, false
	for i, c := range line {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			braces = true
		case c == '}':
			return i + 1
		case c == ' ' && !braces:
			return i
		}
	}
	return 0
}
