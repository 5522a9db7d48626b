package trace

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"regexp"
	"strings"
	"time"
)

// What a vLLM server with --enable-log-requests and --enable-log-outputs logs.
const (
	received  = "Received request "
	generated = "Generated response "
	details   = " details: "
)

var (
	logTime    = regexp.MustCompile(`\d\d-\d\d \d\d:\d\d:\d\d`) // without a year
	logRequest = regexp.MustCompile(`(?:Received request|Generated response|Request) ([^\s:]+)`)
)

// logged is a request of an engine's log.
type logged struct {
	record
	blocks []uint64 // hashes of the prompt's beginnings, each a block of 16 tokens longer
}

// charsPerToken is about what a token of English has.
const charsPerToken = 4

// engineLog reads the log of a vLLM server. Other lines than those of requests are left out.
func (c *collector) engineLog(in io.Reader, l Load) error {
	t := c.trace
	t.Format, t.TellsWords, t.TellsPrefix = "vLLM's log of requests", true, true
	var all []*logged
	byID := map[string]*logged{}
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxLine)
	for line := 1; s.Scan() && len(all) < maxRequests; line++ {
		text := s.Text()
		m := logRequest.FindStringSubmatchIndex(text)
		if m == nil || strings.Contains(text, "(streaming delta)") {
			continue
		}
		id := text[m[2]:m[3]]
		r := byID[id]
		switch rest := text[m[3]:]; {
		case strings.HasPrefix(text[m[0]:], received):
			at, err := time.Parse("01-02 15:04:05", logTime.FindString(text))
			if err != nil {
				c.bad(line, errors.New("a request without a time"))
				continue
			}
			if r = (&logged{record: record{at: at.AddDate(2000, 0, 0)}}); len(all) > 0 && r.at.Before(all[0].at) {
				r.at = r.at.AddDate(1, 0, 0) // the log has no years
			}
			all, byID[id] = append(all, r), r
			c.prompt(r, rest)
		case r != nil && strings.HasPrefix(text[m[0]:], generated):
			r.output = c.length(between(rest, "output_token_ids: ", "]"), between(rest, "output: ", ", output_token_ids"))
		case r != nil && strings.HasPrefix(rest, details):
			c.prompt(r, rest)
		}
	}
	return errors.Join(s.Err(), c.addLogged(all, l))
}

// between is the text after the last begin, up to end.
func between(text, begin, end string) string {
	i := strings.LastIndex(text, begin)
	if i < 0 {
		return ""
	}
	text, _, _ = strings.Cut(text[i+len(begin):], end)
	return text
}

// length is the number of ids in a list without its end; where there is none, about that of a text.
func (c *collector) length(ids, text string) int {
	if list, ok := strings.CutPrefix(ids, "["); ok && list != "" {
		return strings.Count(list, ",") + 1
	}
	if text != "" && !strings.HasPrefix(text, "None") {
		c.assume(fmt.Sprintf("Where the log has no token ids, %d characters are a token.", charsPerToken))
		return len(text)/charsPerToken + 1
	}
	return 0
}

func (c *collector) assume(text string) {
	all := &c.trace.Assumed
	if n := len(*all); n == 0 || (*all)[n-1] != text {
		*all = append(*all, text)
	}
}

// prompt reads the prompt of a request, if the line has it.
func (c *collector) prompt(r *logged, rest string) {
	ids, _, _ := strings.Cut(between(rest, "prompt_token_ids: ", ", prompt_embeds"), "]")
	text := ""
	if _, after, ok := strings.Cut(rest, "prompt: "); ok {
		if i := strings.LastIndex(after, ", params: "); i >= 0 {
			text = after[:i]
		} else if i := strings.LastIndex(after, ", prompt_token_ids: "); i >= 0 {
			text = after[:i]
		}
	}
	if n := c.length(ids, text); n > 0 {
		r.prompt = n
	}
	h := fnv.New64a()
	list := strings.TrimPrefix(ids, "[")
	for n := 1; list != "" && list != "None"; n++ {
		var one string
		one, list, _ = strings.Cut(list, ",")
		_, _ = h.Write([]byte(strings.TrimSpace(one) + ",")) // never fails
		if n%blockTokens == 0 && len(r.blocks) < maxBlocks {
			r.blocks = append(r.blocks, h.Sum64())
		}
	}
	if ids == "" || ids == "None" {
		_, _ = h.Write([]byte(text))
	}
	if r.prompt > 0 {
		r.words = fmt.Sprint(h.Sum64())
	}
}

// Prefixes are looked for in blocks, as engines keep them.
const (
	blockTokens = 16
	maxBlocks   = 512
	popular     = 100 // one request in so many, and at least five, make a shared prefix: turns of one conversation are none
)

// addLogged adds the requests of a log, with the longest beginning that is popular.
func (c *collector) addLogged(all []*logged, l Load) error {
	count, answers := map[uint64]int{}, 0
	for _, r := range all {
		for _, b := range r.blocks {
			count[b]++
		}
		if r.output > 0 {
			answers++
		}
	}
	if answers == 0 && l.Output == 0 {
		return errors.New("the log has no answers: run vLLM with --enable-log-outputs, or say how long they are with --output")
	}
	prefixes := map[uint64]int{}
	for _, r := range all {
		if answers == 0 {
			r.output = l.Output
		}
		n := len(c.trace.Requests)
		if err := c.add(r.record); err != nil {
			c.bad(0, err)
		}
		if len(c.trace.Requests) == n {
			continue
		}
		g := &c.trace.Requests[n]
		for i, b := range r.blocks {
			if count[b] >= max(5, len(all)/popular) && (i+1)*blockTokens < g.Prompt {
				if _, ok := prefixes[b]; !ok {
					prefixes[b] = len(prefixes) + 1
				}
				g.Prefix, g.Shared = prefixes[b], (i+1)*blockTokens
			}
		}
	}
	if answers == 0 {
		c.assume(fmt.Sprintf("The log has no answers: each has %d tokens (--output).", l.Output))
	}
	return nil
}
