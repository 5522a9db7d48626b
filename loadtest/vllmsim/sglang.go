package vllmsim

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// This file is what SGLang's server reads and which routes it has; sglangwire.go is what it writes, and native.go its POST
// /generate. Read in sgl-project/sglang (doc.go names the files and commits). Not simulated: its Responses API, its
// score, rerank and session routes, adapters, and a stream of /generate.

// sglangVersion is the release whose wire is imitated.
const sglangVersion = "0.5.20"

var sglangTraits = traits{echoes: true, page: sglangPage}

type sglangWire struct{}

// routes implements wire.
func (sglangWire) routes(s *Server) map[string]route {
	health := onGet(s.serveHealth)
	return map[string]route{
		"/v1/chat/completions": s.generate(apiChat), "/v1/completions": s.generate(apiCompletion), "/generate": s.generate(apiNative),
		"/v1/models": onGet(s.sglangModels), "/health": health, "/health_generate": health, "/metrics": onGet(s.serveMetrics),
		"/tokenize": onPost(s.sglangTokenize), "/v1/tokenize": onPost(s.sglangTokenize),
		"/detokenize": onPost(s.sglangDetokenize), "/v1/detokenize": onPost(s.sglangDetokenize),
		"/model_info": onGet(s.sglangModelInfo), "/get_model_info": onGet(s.sglangModelInfo),
		"/server_info": onGet(s.sglangServerInfo), "/get_server_info": onGet(s.sglangServerInfo), "/get_load": onGet(s.sglangLoad),
	}
}

// take implements wire. The model's name is not looked at, but for an adapter's in it.
func (sglangWire) take(_ *Server, w *wireRequest, in intake) *apiError {
	if w.Model == "" {
		w.Model = "default"
	}
	ids, salt, priority, open, asked := w.ReturnTokenIDs, w.CacheSalt, w.Priority, w.ContinueFinalMessage, w.SkipSpecialTokens
	w.forget()
	w.ReturnTokenIDs, w.CacheSalt, w.Priority, w.SkipSpecialTokens = ids, salt, priority, asked
	w.StreamOptions = usageOption(w.StreamOptions)
	if in.api != apiChat {
		return nil
	}
	if len(w.Messages) == 0 {
		return refused("Messages cannot be empty.")
	}
	last := &w.Messages[len(w.Messages)-1]
	switch {
	case last.Role != "assistant":
	case open:
		w.prefill()
	default:
		last.Role = "user" // serving_chat.py: the last message is not to be gone on from
	}
	return nil
}

// prefill makes a last message of the assistant one to go on from.
func (w *wireRequest) prefill() {
	open := len(w.Messages) > 0 && w.Messages[len(w.Messages)-1].Role == "assistant"
	generation := !open
	w.ContinueFinalMessage, w.AddGenerationPrompt = open, &generation
}

// forget takes out what vLLM alone knows.
func (w *wireRequest) forget() {
	w.PromptLogprobs, w.ReturnTokenIDs, w.ReturnTokensAsTokenIDs, w.SkipSpecialTokens, w.IncludeStop = nil, false, false, nil, false
	w.AddSpecialTokens, w.TruncatePromptTokens, w.TruncationSide, w.StructuredOutputs, w.RequestID = nil, nil, nil, nil, ""
	w.CacheSalt, w.Priority, w.AddGenerationPrompt, w.ContinueFinalMessage, w.Detokenize = nil, 0, nil, false, nil
}

// fail implements wire: errors are flat.
func (sglangWire) fail(err *apiError) []byte {
	e := *err
	if long := err.long; long != nil {
		e.message = "The input (" + strconv.Itoa(long.prompt) + " tokens) is longer than the model's context length (" + strconv.Itoa(long.limit) + " tokens)."
		if long.prompt < long.limit {
			e.message = "Requested token count exceeds the model's maximum context length of " + strconv.Itoa(long.limit) +
				" tokens. You requested a total of " + strconv.Itoa(long.prompt+long.asked) + " tokens: " + strconv.Itoa(long.prompt) +
				" tokens from the input messages and " + strconv.Itoa(long.asked) +
				" tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit."
		}
		e.param = ""
	}
	if e.kind == kindSchema {
		e.kind = http.StatusText(http.StatusBadRequest)
	}
	return e.flat(nil)
}

// absent implements wire.
func (sglangWire) absent(w http.ResponseWriter, _ *http.Request, known bool) {
	frameworkAbsent(w, known)
}

func (s *Server) sglangModels(w http.ResponseWriter, _ *http.Request) {
	type card struct {
		ID      string  `json:"id"`
		Object  string  `json:"object"`
		Created int64   `json:"created"`
		OwnedBy string  `json:"owned_by"`
		Root    string  `json:"root"`
		Parent  *string `json:"parent"`
		Window  int     `json:"max_model_len"`
	}
	name := s.shownModel()
	s.writeFace(w, struct {
		Object string `json:"object"`
		Data   []card `json:"data"`
	}{"list", []card{{name, "model", time.Now().Unix(), engineSGLang, name, nil, s.opts.MaxModelLen}}})
}

func (s *Server) sglangModelInfo(w http.ResponseWriter, _ *http.Request) {
	s.writeFace(w, struct {
		Path       string `json:"model_path"`
		Tokenizer  string `json:"tokenizer_path"`
		Generation bool   `json:"is_generation"`
		Version    string `json:"weight_version"`
	}{s.shownModel(), s.shownModel(), true, "default"})
}

func (s *Server) sglangServerInfo(w http.ResponseWriter, _ *http.Request) {
	s.writeFace(w, struct {
		Path    string `json:"model_path"`
		Served  string `json:"served_model_name"`
		Window  int    `json:"context_length"`
		Tokens  int    `json:"max_total_num_tokens"`
		Running int    `json:"max_running_requests"`
		Version string `json:"version"`
	}{s.shownModel(), s.shownModel(), s.opts.MaxModelLen, s.poolTokens(), s.profile.MaxSeqs, sglangVersion})
}

func (s *Server) sglangLoad(w http.ResponseWriter, _ *http.Request) {
	type load struct {
		Rank    int `json:"dp_rank"`
		Reqs    int `json:"num_reqs"`
		Waiting int `json:"num_waiting_reqs"`
		Tokens  int `json:"num_tokens"`
	}
	var list []load
	for rank, st := range s.life().state() {
		list = append(list, load{rank, st.Running + st.Waiting, st.Waiting, st.KVBlocksUsed * BlockSize})
	}
	s.writeFace(w, list)
}

// poolTokens is how many tokens the KV memory holds.
func (s *Server) poolTokens() int { return (s.profile.Blocks - 1) * BlockSize }

func (s *Server) sglangTokenize(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	var q struct {
		wireRequest
		Text *string `json:"prompt"`
	}
	if err == nil {
		err = decode(body, &q)
	}
	var req request
	switch {
	case err != nil:
	case (q.Text == nil) == (q.Messages == nil):
		err = malformed("{'type': 'value_error', 'loc': ('body',), 'msg': \"Value error, Exactly one of 'prompt' or 'messages' must be provided.\"}")
	case q.Text != nil:
		var ids []int32
		if q.AddSpecialTokens == nil || *q.AddSpecialTokens {
			ids = []int32{tokBOS}
		}
		req.prompts = [][]int32{s.tok.AppendEncode(ids, *q.Text)}
	default:
		req.chat = true
		if err = (sglangWire{}).take(s, &q.wireRequest, intake{api: apiChat}); err == nil {
			err = s.chatPrompt(&q.wireRequest, &req)
		}
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	s.writeFace(w, struct {
		Tokens []int32 `json:"tokens"`
		Count  int     `json:"count"`
		Window int     `json:"max_model_len"`
	}{s.wire.outAll(req.prompts[0]), len(req.prompts[0]), s.opts.MaxModelLen})
}

// sglangDetokenize leaves special tokens out unless it is asked for them.
func (s *Server) sglangDetokenize(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	q := struct {
		Tokens *[]int32 `json:"tokens"`
		Skip   *bool    `json:"skip_special_tokens"`
	}{}
	if err == nil {
		err = decode(body, &q)
	}
	if err == nil && q.Tokens == nil {
		err = missing("tokens")
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	s.writeFace(w, struct {
		Text string `json:"text"`
	}{s.tok.Decode(s.wire.inAll(*q.Tokens), q.Skip == nil || *q.Skip)})
}

// sglangPage is GET /metrics, as Python's client writes it. Gauges are of now; the engine's are of its last report.
func sglangPage(s *Server) []byte {
	var b bytes.Buffer
	for rank, st := range s.life().state() {
		labels := `{dp_rank="` + strconv.Itoa(rank) + `",engine_type="unified",model_name="` + strings.ReplaceAll(s.shownModel(), `"`, `\"`) + `",tp_rank="0"} `
		used := st.KVBlocksUsed * BlockSize
		rate := 0.0
		if st.PrefixQueries > 0 {
			rate = float64(st.PrefixHits) / float64(st.PrefixQueries)
		}
		for _, m := range []struct {
			name, help, kind string
			value            float64
		}{
			{"num_running_reqs", "The number of running requests.", "gauge", float64(st.Running)},
			{"num_queue_reqs", "The number of requests in the waiting queue.", "gauge", float64(st.Waiting)},
			{"num_used_tokens", "The number of used tokens.", "gauge", float64(used)},
			{"token_usage", "The token usage.", "gauge", float64(st.KVBlocksUsed) / float64(st.KVBlocksTotal)},
			{"max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", "gauge", float64(s.poolTokens())},
			{"cache_hit_rate", "The prefix cache hit rate.", "gauge", rate},
			{"prompt_tokens_total", "Number of prefill tokens processed.", "counter", float64(st.PrefixQueries)},
			{"generation_tokens_total", "Number of generation tokens processed.", "counter", float64(st.GeneratedTokens)},
			{"cached_tokens_total", "Number of cached prompt tokens.", "counter", float64(st.PrefixHits)},
			{"num_requests_total", "Number of requests processed.", "counter", float64(st.Finished)},
			{"num_retracted_requests_total", "Total number of retracted requests.", "counter", float64(st.Preemptions)},
		} {
			if rank == 0 {
				writeHead(&b, "sglang:"+m.name, m.help, m.kind)
			}
			b.WriteString("sglang:" + m.name + labels + pyFloat(m.value) + "\n")
		}
	}
	return b.Bytes()
}
