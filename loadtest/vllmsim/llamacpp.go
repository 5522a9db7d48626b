package vllmsim

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// This file is what llama.cpp's llama-server reads and which routes it has; llamacppwire.go is what it writes. Read in
// ggml-org/llama.cpp (doc.go names the files and commits). Not simulated: its own /completion, /infill, /v1/messages,
// /v1/responses, slots that are saved, LoRA adapters.

// llamaBuild is the build whose wire is imitated.
const llamaBuild = "b8766-00efb3e18"

var llamaTraits = traits{seats: 4, clips: true, thinks: thinksInReasoning, page: llamaPage}

type llamaWire struct{}

// routes implements wire.
func (llamaWire) routes(s *Server) map[string]route {
	chat, completion, models := s.generate(apiChat), s.generate(apiCompletion), onGet(s.llamaModels)
	return map[string]route{
		"/v1/chat/completions": chat, "/chat/completions": chat, "/v1/completions": completion,
		"/v1/models": models, "/models": models,
		"/health": onGet(s.llamaHealth), "/v1/health": onGet(s.llamaHealth),
		"/props": onGet(s.llamaProps), "/slots": onGet(s.llamaSlots), "/metrics": onGet(s.llamaMetrics),
		"/tokenize": onPost(s.llamaTokenize), "/detokenize": onPost(s.llamaDetokenize), "/apply-template": onPost(s.llamaTemplate),
		"/v1/embeddings": onPost(s.llamaEmbeddings), "/embeddings": onPost(s.llamaEmbeddings),
	}
}

// llamaError is an error of its own; its type follows from the status.
func llamaError(status int, message string) *apiError {
	return &apiError{status: status, message: message}
}

// take implements wire. The server has one model, and whoever asks for another is answered by this one.
func (llamaWire) take(s *Server, w *wireRequest, in intake) *apiError {
	w.Model, w.endless = "", true
	w.forget()
	w.MaxCompletionTokens, w.MinTokens, w.StopTokenIDs, w.Echo, w.StreamOptions = nil, 0, nil, false, usageOption(w.StreamOptions)
	w.llamaDefaults()
	if w.N != nil && *w.N > s.profile.MaxSeqs {
		return llamaError(http.StatusBadRequest, "n_cmpl cannot be greater than the number of slots, please increase -np")
	}
	if in.api != apiChat {
		return w.llamaCompletion()
	}
	if len(w.Tools) > 0 && w.Stream && string(w.Logprobs) == "true" {
		return llamaError(http.StatusBadRequest, "logprobs is not supported with tools + stream")
	}
	switch n := w.TopLogprobs; {
	case string(w.Logprobs) != "true" && n != nil:
		return llamaError(http.StatusBadRequest, "top_logprobs requires logprobs to be set to true")
	case string(w.Logprobs) == "true" && n == nil:
		w.TopLogprobs = limited(20)
	case n != nil && *n <= 0: // n_probs 0 asks for none at all
		w.Logprobs, w.TopLogprobs = nil, nil
	case n != nil:
		w.TopLogprobs = limited(*n)
	}
	return w.llamaPrefill(in.hazards)
}

// llamaCompletion reads n_probs.
func (w *wireRequest) llamaCompletion() *apiError {
	var n int
	if !isNull(w.Logprobs) {
		_ = json.Unmarshal(w.Logprobs, &n) // of another type it is left out
	}
	w.Logprobs = nil
	if n > 0 {
		w.Logprobs = json.RawMessage(strconv.Itoa(*limited(n)))
	}
	return nil
}

// llamaPrefill goes on from a last message of the assistant, without being asked to.
func (w *wireRequest) llamaPrefill(h Hazards) *apiError {
	before := len(w.Messages) - 2
	if !w.prefill() {
		return nil
	}
	if before >= 0 && w.Messages[before].Role == "assistant" {
		return llamaError(http.StatusBadRequest, "Cannot have 2 or more assistant messages at the end of the list.")
	}
	if h.has(HazardThinksFirst) && !w.quiet(engineLlamaCpp) {
		return llamaError(http.StatusBadRequest, "Assistant response prefill is incompatible with enable_thinking.")
	}
	return nil
}

// prefill makes a last message of the assistant one to go on from, and reports whether there is one.
func (w *wireRequest) prefill() bool {
	open := len(w.Messages) > 0 && w.Messages[len(w.Messages)-1].Role == "assistant"
	generation := !open
	w.ContinueFinalMessage, w.AddGenerationPrompt = open, &generation
	return open
}

// forget takes out what vLLM and SGLang alone know.
func (w *wireRequest) forget() {
	w.PromptLogprobs, w.ReturnTokenIDs, w.ReturnTokensAsTokenIDs, w.SkipSpecialTokens, w.IncludeStop = nil, false, false, nil, false
	w.AddSpecialTokens, w.TruncatePromptTokens, w.TruncationSide, w.StructuredOutputs, w.RequestID = nil, nil, nil, nil, ""
	w.CacheSalt, w.Priority, w.AddGenerationPrompt, w.ContinueFinalMessage, w.Detokenize = nil, 0, nil, false, nil
}

// usageOption keeps of the options of a stream the one that all engines know, and makes them fit any request.
func usageOption(o *streamOptions) *streamOptions {
	if o == nil || !o.IncludeUsage {
		return nil
	}
	return &streamOptions{IncludeUsage: true, anywhere: true}
}

// limited is a number of alternatives that the simulator can give.
func limited(n int) *int {
	n = min(n, maxLogprobs)
	return &n
}

// llamaDefaults are common_params_sampling's; a limit below 0 is none.
func (w *wireRequest) llamaDefaults() {
	fallback(&w.Temperature, 0.8)
	fallback(&w.TopP, 0.95)
	fallback(&w.TopK, 40)
	fallback(&w.MinP, 0.05)
	if w.MaxTokens != nil && *w.MaxTokens < 0 {
		w.MaxTokens = nil
	}
	if w.MaxTokens != nil && *w.MaxTokens == 0 {
		*w.MaxTokens = 1
	}
}

// fallback sets what was left out.
func fallback[T any](dst **T, v T) {
	if *dst == nil {
		*dst = &v
	}
}

// fail implements wire.
func (llamaWire) fail(err *apiError) []byte {
	kind, message := llamaKind(err), strings.TrimPrefix(err.message, "1 validation error:\n  ")
	if long := err.long; long != nil {
		b := []byte(`{"error":{"code":400,"message":"request (` + strconv.Itoa(long.prompt) + ` tokens) exceeds the available context size (` +
			strconv.Itoa(long.limit) + ` tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":`)
		b = strconv.AppendInt(b, int64(long.prompt), 10)
		return append(strconv.AppendInt(append(b, `,"n_ctx":`...), int64(long.limit), 10), "}}"...)
	}
	b := appendQuoted([]byte(`{"error":{"code":`+strconv.Itoa(err.status)+`,"message":`), message)
	return append(b, `,"type":"`+kind+`"}}`...)
}

// llamaKind is format_error_response's type of a status.
func llamaKind(err *apiError) string {
	switch err.status {
	case http.StatusBadRequest:
		return "invalid_request_error"
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusNotImplemented:
		return "not_supported_error"
	case http.StatusServiceUnavailable:
		return "unavailable_error"
	}
	return "server_error"
}

// absent implements wire. A wrong method is a wrong path.
func (f llamaWire) absent(w http.ResponseWriter, _ *http.Request, _ bool) {
	writeJSON(w, http.StatusNotFound, f.fail(llamaError(http.StatusNotFound, "File Not Found")))
}

func (s *Server) llamaHealth(w http.ResponseWriter, _ *http.Request) {
	if s.life().dead() {
		s.writeError(w, llamaError(http.StatusServiceUnavailable, "Loading model"))
		return
	}
	writeJSON(w, http.StatusOK, []byte(`{"status":"ok"}`))
}

func (s *Server) llamaMetrics(w http.ResponseWriter, r *http.Request) {
	if s.missingFeatures.metrics {
		s.writeError(w, llamaError(http.StatusNotImplemented, "This server does not support metrics endpoint. Start it with `--metrics`"))
		return
	}
	s.serveMetrics(w, r)
}

// llamaPage is GET /metrics. There is no usage of the KV memory in it.
func llamaPage(s *Server) []byte {
	var b bytes.Buffer
	st := s.life().sum()
	busy := 0.0
	if st.Steps > 0 {
		busy = float64(st.GeneratedTokens) / float64(st.Steps)
	}
	for _, m := range []struct {
		name, help, kind string
		value            float64
	}{
		{"prompt_tokens_total", "Number of prompt tokens processed.", "counter", float64(st.PrefixQueries - st.PrefixHits)},
		{"tokens_predicted_total", "Number of generation tokens processed.", "counter", float64(st.GeneratedTokens)},
		{"n_decode_total", "Total number of llama_decode() calls", "counter", float64(st.Steps)},
		{"n_tokens_max", "Largest observed n_tokens.", "counter", float64(st.KVBlocksUsed * BlockSize)},
		{"n_busy_slots_per_decode", "Average number of busy slots per llama_decode() call", "gauge", busy},
		{"requests_processing", "Number of requests processing.", "gauge", float64(st.Running)},
		{"requests_deferred", "Number of requests deferred.", "gauge", float64(st.Waiting)},
	} {
		name := "llamacpp:" + m.name
		b.WriteString("# HELP " + name + " " + m.help + "\n# TYPE " + name + " " + m.kind + "\n" + name + " " +
			strconv.FormatFloat(m.value, 'g', -1, 64) + "\n")
	}
	return b.Bytes()
}
