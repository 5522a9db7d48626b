package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/foregate/foregate/clients/programs"
)

// events are a stream of any API by its official client.
type events struct {
	next  func() (text, end bool) // whether the next event has text of the answer, and whether it is the API's last one
	err   func() error            // after the last event
	close func() error
}

// begins begin a stream by each API's official client.
var begins = map[string]func(ctx context.Context, url, route, text string) events{
	"chat": func(ctx context.Context, url, route, text string) events {
		c := client(url)
		s := c.Chat.Completions.NewStreaming(ctx, chatParams(route, text, false))
		return events{func() (bool, bool) {
			if !s.Next() || len(s.Current().Choices) == 0 {
				return false, false
			}
			choice := s.Current().Choices[0]
			return choice.Delta.Content != "", choice.FinishReason != ""
		}, s.Err, s.Close}
	},
	"responses": func(ctx context.Context, url, route, text string) events {
		c := client(url)
		s := c.Responses.NewStreaming(ctx, responsesParams(route, text, false))
		return events{func() (bool, bool) {
			if !s.Next() {
				return false, false
			}
			kind := s.Current().Type
			return kind == "response.output_text.delta", kind == "response.completed" || kind == "response.incomplete"
		}, s.Err, s.Close}
	},
	"messages": func(ctx context.Context, url, route, text string) events {
		c := anthropicClient(url)
		s := c.Messages.NewStreaming(ctx, messagesParams(route, text, false))
		return events{func() (bool, bool) {
			if !s.Next() {
				return false, false
			}
			kind := s.Current().Type
			return kind == "content_block_delta", kind == "message_delta" || kind == "message_stop"
		}, s.Err, s.Close}
	},
}

// maxEvents bounds the events of a stream that should end before.
const maxEvents = 200

// fault makes a simulator misbehave; {} ends that. The simulator answers before the fault strikes: a second request on the same
// connection is answered afterwards.
func fault(t *testing.T, simulator, what string) {
	t.Helper()
	one := &http.Transport{MaxConnsPerHost: 1}
	defer one.CloseIdleConnections()
	c := &http.Client{Transport: one, Timeout: programs.Client.Timeout}
	for _, ask := range []func() (*http.Response, error){
		func() (*http.Response, error) {
			return c.Post(simulator+"/sim/fault", "application/json", strings.NewReader(what))
		},
		func() (*http.Response, error) { return c.Get(simulator + "/sim/state") },
	} {
		resp, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was read to its end
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", what, resp.StatusCode, body, err)
		}
	}
}

// testAborts leaves in the middle of streams that would not end: the gateway notices, and nothing is under way afterwards.
func testAborts(t *testing.T, w *world) {
	fault(t, w.target, `{"hang":"stream","after_tokens":3}`)
	defer fault(t, w.target, `{}`)
	before, _ := clientsLeft(t, w) // a client may close a stream before it has read the end of the connection
	for name, begin := range begins {
		ctx, leave := context.WithCancel(t.Context())
		s := begin(ctx, w.URL, routeAlone, "Tell me of leaving, "+name+".")
		began := false
		for range maxEvents {
			if began, _ = s.next(); began || s.err() != nil {
				break
			}
		}
		leave()
		for range maxEvents {
			if _, end := s.next(); end {
				t.Errorf("%s: the stream ends as if it were whole", name)
			}
		}
		if err := s.err(); !began || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: begun: %t, %v", name, began, err)
		}
		_ = s.close()
	}
	programs.Within(t, programs.StartWait, "the gateway knows that each client left, and no request is under way", func() bool {
		left, page := clientsLeft(t, w)
		return left >= before+len(begins) && strings.Contains(page, "\nforegate_requests_in_flight 0\n")
	})
}

// clientsLeft counts the requests whose clients left, on the route of the target alone.
func clientsLeft(t *testing.T, w *world) (left int, page string) {
	t.Helper()
	_, page = programs.Get(t, w.Admin+"/metrics")
	for line := range strings.Lines(page) {
		var n int
		if strings.HasPrefix(line, "foregate_requests_total{") && strings.Contains(line, `code="499"`) && strings.Contains(line, `route="`+routeAlone+`"`) {
			_, _ = fmt.Sscan(line[strings.LastIndex(line, " "):], &n)
			left += n
		}
	}
	return left, page
}

// testBrokenStreams has the only engine end its answers in the middle: every client gets an error, and no stream looks whole.
func testBrokenStreams(t *testing.T, w *world) {
	fault(t, w.target, `{"clean_eof_after_tokens":3}`)
	defer fault(t, w.target, `{}`)
	for name, begin := range begins {
		s := begin(t.Context(), w.URL, routeAlone, "Tell me of breaking, "+name+".")
		began := false
		for range maxEvents {
			text, end := s.next()
			began = began || text
			if end {
				t.Errorf("%s: the stream ends as if it were whole", name)
			}
		}
		err := s.err()
		var theirs *anthropic.Error
		if !began || err == nil || !strings.Contains(err.Error(), "upstream_cut") ||
			name == "messages" && (!errors.As(err, &theirs) || theirs.Type() != anthropic.ErrorTypeAPIError || theirs.RequestID == "") {
			t.Errorf("%s: begun: %t, %v", name, began, err)
		}
		_ = s.close()
	}
}
