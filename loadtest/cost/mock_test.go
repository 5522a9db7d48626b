package cost

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	mockModel   = "sim/llama-3"
	mockID      = "chatcmpl-4f2c9a1b7d3e48f6a5c0b1d2e3f40516"
	mockPrompt  = 250 // tokens it claims
	mockLongest = 512 // tokens of an answer
	mockEngines = 4   // addresses
	mockPause   = `"user":"pace-`
)

// ends is how much of each end of a request's body the mock searches: the prompt in between is long.
const ends = 768

// mockRole is an engine that costs as little as it can: it has prepared the answers, and searches a request only for what
// chooses among them. It also scores its own drafts. A simulator behind it answers the gateway's probes.
func mockRole() int {
	if err := serveMock(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mock:", err)
	}
	return 1
}

func serveMock() error {
	m := newMock()
	var err error
	if m.behind, err = simBehind(); err != nil {
		return err
	}
	var addrs []any
	failed := make(chan error)
	for range mockEngines {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addrs = append(addrs, ln.Addr())
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					failed <- err
					return
				}
				go m.serve(c)
			}
		}()
	}
	fmt.Println(addrs...)
	go exitAtEOF()
	return <-failed
}

// exitAtEOF ends this process when its parent, which holds the other end of its standard input, has ended.
func exitAtEOF() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// mock has the engine's answers.
type mock struct {
	plain, scored             script
	chats                     [][]byte // by the number of tokens
	embeddings, models, gauge []byte
	behind                    string // address of the simulator
}

// script is one stream, as the HTTP chunks of its frames.
type script struct {
	role   []byte
	tokens [][]byte
	finish [][]byte // the frame of the last token, for every length
	usage  [][]byte // by length
}

func newMock() *mock {
	chats := make([][]byte, mockLongest+1)
	for n := range chats {
		chats[n] = answered("application/json", chatAnswer(n))
	}
	return &mock{
		plain: newScript(false), scored: newScript(true), chats: chats,
		embeddings: answered("application/json", embeddingsAnswer()),
		models:     answered("application/json", `{"object":"list","data":[{"id":"`+mockModel+`","object":"model","created":1795219200,"owned_by":"vllm","root":"`+mockModel+`","parent":null,"max_model_len":131072}]}`),
		gauge: answered("text/plain; version=0.0.4; charset=utf-8", `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="sim/llama-3"} 3.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="sim/llama-3"} 0.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="sim/llama-3"} 0.12
`),
	}
}

func answered(kind, body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\ndate: Sat, 21 Nov 2026 04:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: %d\r\ncontent-type: %s\r\n\r\n%s", len(body), kind, body)
}

// streamHead opens a stream; its frames are HTTP chunks.
const streamHead = "HTTP/1.1 200 OK\r\ndate: Sat, 21 Nov 2026 04:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"

func chatAnswer(tokens int) string {
	return `{"id":"` + mockID + `","object":"chat.completion","created":1795219200,"model":"` + mockModel + `",` +
		`"choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Join(pieces[:tokens], "") + `","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null},` +
		`"logprobs":null,"finish_reason":"stop","stop_reason":null,"token_ids":null,"routed_experts":null}],` +
		`"service_tier":null,"system_fingerprint":"vllm-0.28.0-1a2b3c4d",` + fmt.Sprintf(`"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,`, mockPrompt, mockPrompt+tokens, tokens) + `"prompt_tokens_details":null,"completion_tokens_details":null},` +
		`"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}`
}

func embeddingsAnswer() string {
	b := []byte(`{"id":"embd-4f2c9a1b7d3e48f6","object":"list","created":1795219200,"model":"` + mockModel + `","data":[{"index":0,"object":"embedding","embedding":[`)
	for i := range 20 {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%.17f", 0.0123456789+float64(i)/700)
	}
	return string(b) + `],"note":"^"}],"usage":{"prompt_tokens":250,"total_tokens":250,"completion_tokens":0,"prompt_tokens_details":null}}`
}

// newScript writes the frames of vLLM's chat stream. A laden one has what a
// gateway asks for that judges: logprobs, five alternatives, token ids.
func newScript(scored bool) script {
	pre := `{"id":"` + mockID + `","object":"chat.completion.chunk","created":1795219200,"model":"` + mockModel + `","choices":[`
	ids := "null"
	if scored {
		ids = promptIDs()
	}
	s := script{
		role:   frame(pre + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":` + ids + `,"prompt_text":null}`),
		tokens: make([][]byte, mockLongest), finish: make([][]byte, mockLongest+1), usage: make([][]byte, mockLongest+1),
	}
	for i := range mockLongest {
		s.tokens[i] = frame(tokenFrame(pre, i, scored, `"finish_reason":null`))
		s.finish[i+1] = frame(tokenFrame(pre, i, scored, `"finish_reason":"stop","stop_reason":null`))
		s.usage[i+1] = frame(fmt.Sprintf(`%s],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d},"system_fingerprint":"vllm-0.28.0-1a2b3c4d"}`, pre, mockPrompt, mockPrompt+i+1, i+1))
	}
	return s
}

// pieces are the texts of tokens, of about the mean length of English ones, and about as hard
// to compress.
var pieces = func() []string {
	chance := rand.New(rand.NewPCG(1, 2))
	list := make([]string, mockLongest)
	for i := range list {
		text := []byte{' '}
		for range 1 + chance.IntN(3) {
			text = append(text, "bcdfghklmnprstvw"[chance.IntN(16)], "aeiou"[chance.IntN(5)])
		}
		list[i] = string(append(text, marker))
	}
	return list
}()

func tokenFrame(pre string, i int, scored bool, finish string) string {
	text := pieces[i%len(pieces)]
	logprobs, ids := "null", "null"
	if scored {
		logprobs, ids = `{"content":[`+tokenLogprobs(text, i)+`]}`, fmt.Sprintf("[%d]", 1000+i)
	}
	return pre + `{"index":0,"delta":{"content":"` + text + `"},"logprobs":` + logprobs + `,` + finish + `,"token_ids":` + ids + `}]}`
}

// tokenLogprobs are those of a model that is sure: the draft is accepted.
func tokenLogprobs(text string, i int) string {
	top := ""
	for k, lp := range []string{"-0.021345678269863129", "-4.6123456954956055", "-6.0371236801147461", "-7.4623456001281738", "-8.1248750686645508"} {
		t := text
		if k > 0 {
			t = pieces[(i+k)%len(pieces)]
			top += ","
		}
		top += logprobEntry(t, lp) + "}"
	}
	return logprobEntry(text, "-0.021345678269863129") + `,"top_logprobs":[` + top + `]}`
}

func logprobEntry(text, lp string) string {
	return `{"token":"` + text + `","logprob":` + lp + `,"bytes":` + string(intList([]byte(text)))
}

func promptIDs() string {
	ids := make([]int, mockPrompt)
	for i := range ids {
		ids[i] = 9000 + 31*i
	}
	return string(intList(ids))
}

func intList[T byte | int](list []T) []byte {
	b := []byte{'['}
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(v), 10)
	}
	return append(b, ']')
}

// frame is an event as an HTTP chunk of its own, which is how uvicorn sends it.
func frame(data string) []byte { return fmt.Appendf(nil, "%x\r\ndata: %s\n\n\r\n", len(data)+8, data) }

// serve answers one connection.
func (m *mock) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	w := newWire(c)
	var body, terms, out []byte
	for {
		head, err := w.head()
		if err != nil {
			return
		}
		if cap(body) < head.length {
			body = make([]byte, head.length)
		}
		body = body[:head.length]
		if _, err := io.ReadFull(w.in, body); err != nil {
			return
		}
		terms = append(append(terms[:0], body[:min(ends, len(body))]...), body[max(len(body)-ends, 0):]...)
		switch {
		case len(body) > 0 && !bytes.Contains(terms, []byte(mockAsked)):
			if scored := mockScores(body); scored != nil {
				_, err = c.Write(scored)
				break
			}
			_ = forward(c, m.behind, head.first, body) // who probes sees what went wrong
			return
		case bytes.Contains(terms, []byte(`"stream":true`)):
			out, err = m.stream(c, terms, out)
		default:
			_, err = c.Write(m.answer(head.first, terms))
		}
		if err != nil {
			return
		}
	}
}

func (m *mock) answer(line, terms []byte) []byte {
	_, path, _ := bytes.Cut(line, []byte(" "))
	path, _, _ = bytes.Cut(path, []byte(" "))
	switch string(path) {
	case "/v1/chat/completions":
		return m.chats[tokensOf(terms)]
	case "/v1/embeddings":
		return m.embeddings
	case "/v1/models":
		return m.models
	case "/metrics":
		return m.gauge
	case "/health":
		return answered("text/plain", "")
	}
	return []byte("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
}

// stream sends the script that a request chooses: paced, in a write for each token, or all of it in one write.
func (m *mock) stream(c net.Conn, terms, out []byte) ([]byte, error) {
	s := &m.plain
	if bytes.Contains(terms, []byte(`"logprobs":true`)) {
		s = &m.scored
	}
	n := tokensOf(terms)
	pause := time.Duration(numberAfter(terms, mockPause)) * time.Microsecond
	out = append(append(out[:0], streamHead...), s.role...)
	next := time.Now()
	for i := range n - 1 {
		out = append(out, s.tokens[i]...)
		if pause == 0 {
			continue
		}
		if _, err := c.Write(out); err != nil {
			return out, err
		}
		out = out[:0]
		next = next.Add(pause)
		time.Sleep(time.Until(next))
	}
	out = append(append(out, s.finish[n]...), s.usage[n]...)
	out = append(out, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"...)
	_, err := c.Write(out)
	return out, err
}

// tokensOf is how many tokens a request asks for.
func tokensOf(terms []byte) int { return min(max(numberAfter(terms, `"max_tokens":`), 1), mockLongest) }

// numberAfter is the decimal number behind the first occurrence of key, 0 for none.
func numberAfter(b []byte, key string) int {
	i := bytes.Index(b, []byte(key))
	if i < 0 {
		return 0
	}
	n := 0
	for _, c := range b[i+len(key):] {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}
