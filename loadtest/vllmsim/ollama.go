package vllmsim

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// This file is what Ollama's server reads and which routes it has; ollamawire.go is what it writes. Read in ollama/ollama
// (doc.go names the files and commits). Not simulated: /api/chat, /api/generate, /api/embed, everything that pulls,
// makes or removes models, and OLLAMA_MAX_QUEUE.

// ollamaVersion is the release whose wire is imitated: from 0.12.11 on its OpenAI API has logprobs.
const ollamaVersion = "0.13.5"

// There is no /metrics.
var ollamaTraits = traits{seats: 1, clips: true, pretty: true, thinks: thinksInReasoning, overrun: overrunTruncate, loads: true, echoes: true,
	page: func(*Server) []byte { return nil }}

type ollamaWire struct{}

// routes implements wire.
func (ollamaWire) routes(s *Server) map[string]route {
	root := onGet(s.ollamaRoot)
	root.handlers["HEAD"] = s.ollamaRoot
	version := onGet(s.ollamaVersion)
	version.handlers["HEAD"] = s.ollamaVersion
	tags := onGet(s.ollamaTags)
	tags.handlers["HEAD"] = s.ollamaTags
	return map[string]route{
		"/": root, "/api/version": version, "/api/tags": tags, "/api/ps": onGet(s.ollamaPS), "/api/show": onPost(s.ollamaShow),
		"/v1/models": onGet(s.ollamaModels), "/v1/chat/completions": s.generate(apiChat), "/v1/completions": s.generate(apiCompletion),
	}
}

// tagged is a model's name with its tag.
func tagged(name string) string {
	if strings.Contains(name[strings.LastIndexByte(name, '/')+1:], ":") {
		return name
	}
	return name + ":latest"
}

// take implements wire. What is not in its structs is left out without a word.
func (ollamaWire) take(s *Server, w *wireRequest, in intake) *apiError {
	w.forget()
	w.MaxCompletionTokens, w.MinTokens, w.IgnoreEOS, w.StopTokenIDs, w.N, w.ToolChoice, w.Echo, w.endless = nil, 0, false, nil, nil, nil, false, true
	w.MinP, w.TopK = nil, nil
	fallback(&w.TopK, 40)
	w.StreamOptions = usageOption(w.StreamOptions)
	if n := w.MaxTokens; n != nil && *n < 1 {
		w.MaxTokens = nil
	}
	if err := w.ollamaThinking(); err != nil {
		return err
	}
	if in.api == apiChat {
		if err := w.ollamaChat(); err != nil {
			return err
		}
	} else if err := w.ollamaCompletion(in.body); err != nil {
		return err
	}
	if w.Model == "" {
		return &apiError{status: http.StatusBadRequest, message: "model is required"}
	}
	if tagged(w.Model) != tagged(s.opts.Model) {
		return &apiError{status: http.StatusNotFound, message: "model '" + w.Model + "' not found"}
	}
	return nil
}

func (w *wireRequest) ollamaThinking() *apiError {
	if e := w.ReasoningEffort; e != nil && *e != "" && *e != "high" && *e != "medium" && *e != "low" && *e != "none" {
		return &apiError{status: http.StatusBadRequest,
			message: "invalid reasoning value: '" + *e + `' (must be "high", "medium", "low", or "none")`}
	}
	return nil
}

func (w *wireRequest) ollamaChat() *apiError {
	if len(w.Messages) == 0 {
		return &apiError{status: http.StatusBadRequest, message: "[] is too short - 'messages'"}
	}
	w.prefill()
	n := 0
	if w.TopLogprobs != nil {
		n = *w.TopLogprobs
	}
	switch {
	case n < 0 || n > maxLogprobs:
		return &apiError{status: http.StatusBadRequest, message: "top_logprobs must be between 0 and 20"}
	case string(w.Logprobs) != "true":
		w.Logprobs, w.TopLogprobs = nil, nil
	}
	return nil
}

// ollamaCompletion takes texts alone. Its prompt goes through the chat's template, as a message of the user; no logprobs come
// out.
func (w *wireRequest) ollamaCompletion(body []byte) *apiError {
	var q struct {
		Prompt any `json:"prompt"`
	}
	_ = json.Unmarshal(body, &q) // it has been read before
	if _, text := q.Prompt.(string); !text {
		kind := "array"
		if _, list := q.Prompt.([]any); !list {
			kind = "value"
		}
		return &apiError{status: http.StatusBadRequest,
			message: "json: cannot unmarshal " + kind + " into Go struct field CompletionRequest.prompt of type string"}
	}
	w.Logprobs, w.TopLogprobs = nil, nil
	return nil
}

// ollamaPrompt is what the template makes of the prompt of /v1/completions.
func (t *Tokenizer) ollamaPrompt(text string) []int32 {
	return t.Chat([]Message{{Role: "user", Content: text}})
}

// cutToFit is what Ollama does with a chat that is longer than its context, silently: the oldest messages go, but those of
// the system and the last one stay; what is still too long loses its beginning. Half the context is left for the answer,
// where Ollama shifts its memory.
func (s *Server) cutToFit(w *wireRequest, r *request, ids []int32) ([]int32, *apiError) {
	if s.face == nil || s.face.overrun != overrunTruncate || len(ids) < s.window() {
		return ids, nil
	}
	for i := 0; i < len(w.Messages)-1 && r.chat && len(ids) >= s.window(); {
		if w.Messages[i].Role == "system" {
			i++
			continue
		}
		w.Messages = append(w.Messages[:i:i], w.Messages[i+1:]...)
		var err *apiError
		if ids, err = s.tok.render(w.templateInput()); err != nil {
			return nil, err
		}
	}
	if room := s.window() / 2; len(ids) >= s.window() {
		ids = append(ids[:1:1], ids[len(ids)-room+1:]...)
	}
	return ids, nil
}

// fail implements wire.
func (ollamaWire) fail(err *apiError) []byte {
	kind := "api_error"
	switch err.status {
	case http.StatusBadRequest:
		kind = "invalid_request_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	}
	b := appendQuoted([]byte(`{"error":{"message":`), err.message)
	return append(b, `,"type":"`+kind+`","param":null,"code":null}}`...)
}

// absent implements wire: gin's answers.
func (ollamaWire) absent(w http.ResponseWriter, _ *http.Request, known bool) {
	w.Header().Set("Content-Type", "text/plain")
	if known {
		w.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = w.Write([]byte("405 method not allowed"))
		return
	}
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte("404 page not found"))
}

func (s *Server) ollamaRoot(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("Ollama is running"))
}

func (s *Server) ollamaVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte(`{"version":"`+ollamaVersion+`"}`))
}

func (s *Server) ollamaModels(w http.ResponseWriter, _ *http.Request) {
	s.writePlainModel(w, plainModel{tagged(s.opts.Model), "model", ollamaMade.Unix(), "library"})
}

// ollamaMade is when the model's files were written.
var ollamaMade = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type ollamaDetails struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Size         string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
}

// ollamaModel is an entry of /api/tags, and of /api/ps while it is in memory.
type ollamaModel struct {
	Name     string        `json:"name"`
	Model    string        `json:"model"`
	Modified *time.Time    `json:"modified_at,omitempty"`
	Size     int64         `json:"size"`
	Digest   string        `json:"digest"`
	Details  ollamaDetails `json:"details"`
	Expires  *time.Time    `json:"expires_at,omitempty"`
	VRAM     *int64        `json:"size_vram,omitempty"`
	Window   int           `json:"context_length,omitempty"`
}

func (s *Server) ollamaEntry() ollamaModel {
	return ollamaModel{Name: tagged(s.opts.Model), Model: tagged(s.opts.Model), Size: 5e9,
		Digest:  strconv.FormatUint(hashString(s.opts.Seed, s.opts.Model), 16),
		Details: ollamaDetails{Format: "gguf", Family: "llama", Families: []string{"llama"}, Size: "8.0B", Quantization: "Q4_K_M"}}
}

type ollamaList struct {
	Models []ollamaModel `json:"models"`
}

func (s *Server) ollamaTags(w http.ResponseWriter, _ *http.Request) {
	e, made := s.ollamaEntry(), ollamaMade
	e.Modified = &made
	s.writeFace(w, ollamaList{[]ollamaModel{e}})
}

// ollamaPS lists the model while it is in memory, with the context that it has there.
func (s *Server) ollamaPS(w http.ResponseWriter, _ *http.Request) {
	list := ollamaList{[]ollamaModel{}}
	if s.loaded.Load() {
		e, expires, vram := s.ollamaEntry(), time.Now().Add(5*time.Minute), int64(5e9)
		e.Expires, e.VRAM, e.Window = &expires, &vram, s.window()
		list.Models = append(list.Models, e)
	}
	s.writeFace(w, list)
}

// ollamaShow tells the context that the model was trained with.
func (s *Server) ollamaShow(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model string `json:"model"`
		Name  string `json:"name"`
	}
	body, err := readAny(r)
	if err == nil {
		err = decode(body, &q)
	}
	name := q.Model
	if name == "" {
		name = q.Name
	}
	switch {
	case err != nil:
		writeJSON(w, http.StatusBadRequest, s.face.encode(map[string]string{"error": err.message}))
		return
	case tagged(name) != tagged(s.opts.Model):
		writeJSON(w, http.StatusNotFound, s.face.encode(map[string]string{"error": "model '" + name + "' not found"}))
		return
	}
	s.writeFace(w, struct {
		Details      ollamaDetails  `json:"details"`
		Info         map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
		Modified     time.Time      `json:"modified_at"`
	}{s.ollamaEntry().Details, map[string]any{"general.architecture": "llama", "llama.context_length": s.opts.MaxModelLen},
		[]string{"completion", "tools"}, ollamaMade})
}
