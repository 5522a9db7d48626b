package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/upstream"
)

// How a cut backend ends its response.
const (
	cutFIN   = "fin"   // the connection is closed where it stands
	cutRST   = "rst"   // the connection is reset
	cutClean = "clean" // the HTTP body ends properly, only too early
)

// cutter is a backend on a bare socket whose answer ends after as many bytes as
// the request's id says: "<mode>-<bytes>-…".
type cutter struct {
	ln   net.Listener
	body func(path, request string) string // an event stream, whole
	sane bool                              // never cut, whatever the id says
	wg   sync.WaitGroup
}

func startCutter(t *testing.T, sane bool, body func(path, request string) string) *cutter {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{ln: ln, body: body, sane: sane}
	c.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) url() string { return "http://" + c.ln.Addr().String() }

func (c *cutter) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	var asked struct{ User string }
	_ = json.Unmarshal(raw, &asked) // what is no request has no user
	mode, rest, _ := strings.Cut(asked.User, "-")
	number, _, _ := strings.Cut(rest, "-")
	after, err := strconv.Atoi(number)
	if err != nil || c.sane {
		mode, after = "", 1<<30
	}
	stream := c.body(req.URL.Path, string(raw))
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
	if mode == cutClean {
		stream = stream[:min(after, len(stream))]
		after = 1 << 30
	}
	var b strings.Builder
	b.WriteString(head)
	for _, event := range strings.SplitAfter(stream, "\n\n") {
		if event != "" {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(event), event)
		}
	}
	b.WriteString("0\r\n\r\n")
	out := b.String()
	if tcp, ok := conn.(*net.TCPConn); ok && mode == cutRST && after < len(out) {
		defer func() { _ = tcp.SetLinger(0) }()
	}
	_, _ = io.WriteString(conn, out[:min(after, len(out))])
}

// whole streams, as small as vLLM's can be.
func wholeTarget(path, request string) string {
	text := "fresh"
	if path == "/v1/completions" { // a continuation: it says behind how many tokens it begins
		var in struct{ Prompt []int }
		_ = json.Unmarshal([]byte(request), &in)
		text = fmt.Sprintf("<%d>", len(in.Prompt)-2)
		return fmt.Sprintf("data: {\"model\":\"big\",\"choices\":[{\"index\":0,\"text\":%q,\"finish_reason\":null}]}\n\n", text) +
			"data: {\"model\":\"big\",\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n" +
			"data: {\"model\":\"big\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n"
	}
	return "data: {\"model\":\"big\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n" +
		fmt.Sprintf("data: {\"model\":\"big\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", text) +
		"data: {\"model\":\"big\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" air\"},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: {\"model\":\"big\",\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n"
}

const draftTokens = 12

func draftText(tokens int) string {
	var b strings.Builder
	for i := range tokens {
		fmt.Fprintf(&b, " w%d", i)
	}
	return b.String()
}

func wholeDraft(string, string) string {
	var b strings.Builder
	b.WriteString("data: {\"model\":\"small\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}],\"prompt_token_ids\":[1,2]}\n\n")
	for i := range draftTokens {
		finish := "null"
		if i == draftTokens-1 {
			finish = `"stop"`
		}
		fmt.Fprintf(&b, "data: {\"model\":\"small\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" w%d\"},\"logprobs\":{\"content\":[{\"logprob\":-0.01}]},\"finish_reason\":%s,\"token_ids\":[%d]}]}\n\n", i, finish, 10+i)
	}
	b.WriteString("data: {\"model\":\"small\",\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":12}}\n\ndata: [DONE]\n\n")
	return b.String()
}

// startCut starts a gateway over a draft, and a target that is cut too or not. What it keeps of
// answers is in k; nil keeps none.
func startCut(t *testing.T, targetCut bool, k *kept) string {
	t.Helper()
	cfg := plan.Config{
		MidstreamFailover: true, Mode: plan.ModeConfidence, Accept: accept.Config{MeanOffset: -1, WindowOffset: -1, EntropyOffset: 1},
		HoldbackTokens: 4, Holdback: time.Minute, MaxPromptTokens: 1000, RetryBudget: 1,
		Timeouts: plan.Timeouts{DraftFirstToken: 10 * time.Second, TargetFirstToken: 10 * time.Second, StreamIdle: 10 * time.Second, Total: time.Minute},
	}
	newPool := func(name, model, url string) *pool.Pool {
		p, err := pool.New(pool.Options{Name: name, Model: model, Backends: []string{url}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// So many connections use ports again that have just been used, and the kernel sends a SYN again after 1 s. That is
	// timeout.connect; and nobody here looks again at a backend that was not reached.
	engines := upstream.New(upstream.Options{Dial: func() upstream.Dial { return upstream.Dial{Connect: 20 * time.Second} }})
	t.Cleanup(engines.Close)
	cascade, err := tiers.New(tiers.Options{Upstream: engines, Routes: []tiers.Route{{
		Model: "m", SameTokenizer: true, Config: func() plan.Config { return cfg },
		Draft: newPool("drafts", "small", startCutter(t, false, wholeDraft).url()), Target: newPool("targets", "big", startCutter(t, !targetCut, wholeTarget).url()),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Listen: "127.0.0.1:0", Cascade: cascade, Identity: who, Drain: Drain{Grace: 3 * time.Second}}
	if k != nil {
		withCache(t, &o, k)
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Stop(context.Background()) })
	if k != nil {
		hears(t, o.Cache)
	}
	return "http://" + g.Addr().String()
}

// ending is how a client saw an answer end.
type ending struct {
	status     int
	text       string
	finish     string
	errorEvent bool
	done       bool
	err        error
}

// asking is how the clients of a test ask.
type asking struct {
	base, tier string
	form       form
}

func (a asking) ask(t *testing.T, client *http.Client, id string) ending {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.base+a.form.path, strings.NewReader(a.form.body(id)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Tier", a.tier)
	resp, err := client.Do(req)
	if err != nil {
		return ending{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	e := ending{status: resp.StatusCode, err: err}
	for _, event := range strings.Split(string(raw), "\n\n") {
		e.errorEvent = e.errorEvent || strings.HasPrefix(event, "event: error\n")
		if _, data, ok := strings.Cut(event, "data: "); ok {
			a.form.read(&e, data)
		}
	}
	return e
}

// cutStep is how many bytes apart cuts are: every one, and in short runs a sample that each way of ending
// begins at another byte.
func cutStep() int {
	if testing.Short() {
		return 11
	}
	return 1
}

// everyCut asks once for every cut (cutStep) and every way of ending, in
// parallel but bounded.
func everyCut(t *testing.T, a asking, bytes int, check func(id string, e ending)) {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	slots := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for i, mode := range []string{cutFIN, cutRST, cutClean} {
		for n := i % cutStep(); n < bytes; n += cutStep() {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				id := fmt.Sprintf("%s-%d-x", mode, n)
				check(id, a.ask(t, client, id))
			})
		}
	}
	wg.Wait()
}

// responseBytes is the length of a whole response on the wire, and some.
func responseBytes(stream string) int { return len(stream) + 8*strings.Count(stream, "\n\n") + 140 }

// TestARelayedStreamCutAnywhereNeverLooksWhole cuts the target's stream at every
// byte offset, in three ways. The client sees an error status, or an error event
// and an unexpected EOF, or the whole answer; never a terminator behind half an
// answer. What was cut is not kept.
func TestARelayedStreamCutAnywhereNeverLooksWhole(t *testing.T) {
	t.Parallel()
	for _, f := range forms {
		t.Run(f.path[1:], func(t *testing.T) {
			t.Parallel()
			relayedStreamCutAnywhere(t, f)
		})
	}
}

// relayedStreamCutAnywhere is the test for the clients of one API.
func relayedStreamCutAnywhere(t *testing.T, f form) {
	t.Helper()
	k := newKept(t)
	a := asking{startCut(t, true, k), "target", f}
	var mu sync.Mutex
	seen := map[string]int{}
	everyCut(t, a, responseBytes(wholeTarget("", "")), func(id string, e ending) {
		kind := "broken"
		switch {
		case e.status != http.StatusOK && e.err == nil && e.status >= 500 && !e.done:
			kind = "refused"
		case e.done && !e.errorEvent && e.err == nil && e.text == "fresh air" && e.finish == "stop":
			kind = "whole"
		case e.done || !e.errorEvent || !errors.Is(e.err, io.ErrUnexpectedEOF):
			t.Errorf("%s: %+v", id, e)
		}
		mu.Lock()
		seen[kind]++
		mu.Unlock()
	})
	t.Logf("outcomes: %v", seen)
	if seen["broken"] < 500/cutStep() || seen["refused"] == 0 || seen["whole"] == 0 {
		t.Errorf("the cuts did not reach every part of the stream: %v", seen)
	}
	soon(t, "the whole answers are kept", func() bool { return len(k.answers()) >= seen["whole"] })
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	a.ask(t, client, "fin-1000000-last") // is kept after all others
	soon(t, "the last answer is kept", func() bool { return len(k.answers()) > seen["whole"] })
	if n := len(k.answers()) - 1; n != seen["whole"] {
		t.Errorf("%d answers are kept, %d were whole", n, seen["whole"])
	}
}

// TestADraftCutAnywhereGoesOnFromWhatWasDelivered does the same to the draft's
// stream: the target continues behind as many tokens as the client's text shows, or
// answers afresh, and every answer is whole.
func TestADraftCutAnywhereGoesOnFromWhatWasDelivered(t *testing.T) {
	t.Parallel()
	for _, f := range forms {
		t.Run(f.path[1:], func(t *testing.T) {
			t.Parallel()
			draftCutAnywhere(t, f)
		})
	}
}

// draftCutAnywhere is the test for the clients of one API.
func draftCutAnywhere(t *testing.T, f form) {
	t.Helper()
	a := asking{startCut(t, false, nil), "auto", f}
	var mu sync.Mutex
	seen := map[string]int{}
	everyCut(t, a, responseBytes(wholeDraft("", "")), func(id string, e ending) {
		kind := "continued"
		at := strings.IndexByte(e.text, '<')
		switch {
		case !e.done || e.errorEvent || e.err != nil || e.status != http.StatusOK || e.finish != "stop":
			t.Errorf("%s: %+v", id, e)
			return
		case e.text == "fresh air":
			kind = "afresh"
		case e.text == draftText(draftTokens):
			kind = "draft"
		case at < 0 || e.text != draftText(strings.Count(e.text, " w"))+fmt.Sprintf("<%d>", strings.Count(e.text, " w")):
			t.Errorf("%s: the seam does not fit: %q", id, e.text)
		}
		mu.Lock()
		seen[kind]++
		mu.Unlock()
	})
	t.Logf("outcomes: %v", seen)
	if seen["continued"] < 500/cutStep() || seen["afresh"] == 0 || seen["draft"] == 0 {
		t.Errorf("the cuts did not reach every part of the stream: %v", seen)
	}
}
