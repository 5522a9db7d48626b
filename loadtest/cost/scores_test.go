package cost

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// mockAsked is in every request of the benchmarks, and in none of a probe.
const mockAsked = `She said:`

// simBehind starts a simulator for what the mock has no answer to: a gateway's probe, which finds an engine with all abilities.
func simBehind() (addr string, err error) {
	sim, err := vllmsim.New(vllmsim.Options{Model: mockModel, Seed: 1, TimeScale: 50})
	if err != nil {
		return "", err
	}
	if err := sim.Start("127.0.0.1:0"); err != nil {
		return "", err
	}
	return sim.Addr(), nil // it ends with the process
}

// forward lets a server answer a request. The client's connection ends with the answer.
func forward(c net.Conn, to string, line, body []byte) error {
	server, err := net.Dial("tcp", to)
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }() // the answer was read
	head := fmt.Appendf(nil, "%s\r\nHost: mock\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", line, len(body))
	_, err = server.Write(append(head, body...))
	_, errBack := io.Copy(c, server)
	return errors.Join(err, errBack)
}

// mockScores answers a request to score one of the mock's own drafts: every token was the first choice. It returns nil for
// another request.
func mockScores(body []byte) []byte {
	mine := append([]byte(`"prompt":`), promptIDs()...)
	mine[len(mine)-1] = ',' // the draft follows
	_, rest, ok := bytes.Cut(body, mine)
	if !ok {
		return nil
	}
	draft, _, _ := bytes.Cut(rest, []byte("]"))
	ids := bytes.Split(draft, []byte(","))
	n := len(ids)
	out := fmt.Appendf(nil, `{"id":"cmpl-4f2c9a1b7d3e48f6","object":"text_completion","created":1795219200,"model":"%s","choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":[%d],"prompt_logprobs":[null`, mockModel, 1000+n)
	for i := 1; i < mockPrompt; i++ {
		out = appendScore(out, 9000+31*i, i)
	}
	for i, raw := range ids {
		id, err := strconv.Atoi(string(raw))
		if err != nil {
			return nil
		}
		out = appendScore(out, id, i) // the last may be an end that the gateway has added
	}
	out = fmt.Appendf(out, `],"prompt_token_ids":null}],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":1,"prompt_tokens_details":null}}`, mockPrompt+n, mockPrompt+n+1)
	return answered("application/json", string(out))
}

// appendScore writes one entry of prompt_logprobs: the token was the first choice. Its text is the draft's at that place.
func appendScore(out []byte, id, i int) []byte {
	return fmt.Appendf(out, `,{"%d":{"logprob":-0.021345678269863129,"rank":1,"decoded_token":"%s"}}`, id, pieces[i%len(pieces)])
}
