package vllmsim

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// maxBody bounds what a client can make the simulator hold; vLLM itself has no limit.
const maxBody = 256 << 20

// readBody reads a JSON body; anything but application/json is refused, as vLLM does.
func readBody(r *http.Request) ([]byte, *apiError) {
	if ct, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || ct != "application/json" {
		return nil, &apiError{status: http.StatusBadRequest, kind: kindSchema, message: "Unsupported Media Type: Only 'application/json' is allowed"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, &apiError{status: http.StatusRequestEntityTooLarge, kind: kindSchema, message: "body too large"}
		}
		return nil, malformed("json_invalid", "body.0", "JSON decode error")
	}
	return body, nil
}

// into reads a JSON body into v.
func into(r *http.Request, v any) *apiError {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	return decode(body, v)
}

// checkModel refuses another model's name.
func (s *Server) checkModel(name string) *apiError {
	if name != "" && name != s.opts.Model && s.opts.Engine != engineSGLang {
		return noModel(name, s.opts.Model)
	}
	return nil
}

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusOK)
}

func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	f := s.faults.get()
	page, err := s.face.page(s)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	switch f.Metrics {
	case "garbage":
		page = []byte("vllm:num_requests_running{engine=\"0\" 3.0\n<html>502 Bad Gateway</html>\n\x00\xff")
	case "frozen":
		s.faults.mu.Lock()
		page = s.faults.frozen
		s.faults.mu.Unlock()
	case "nan":
		page = falsify(page, "", "NaN")
	}
	if f.KVUsage != nil {
		page = falsify(page, "vllm:kv_cache_usage_perc{", strconv.FormatFloat(*f.KVUsage, 'g', -1, 64))
	}
	_, _ = w.Write(page)
}

// falsify shows another value in the samples that begin with prefix.
func falsify(page []byte, prefix, value string) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(page)) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' && strings.HasPrefix(line, prefix) {
			line = line[:at+1] + value + "\n"
		}
		b.WriteString(line)
	}
	return []byte(b.String())
}

// tokenizeRequest is the body of /tokenize: a text or a chat.
type tokenizeRequest struct {
	wireRequest
	Text *string `json:"prompt"`
}

// serveTokenize answers with the ids of a text or of a chat.
func (s *Server) serveTokenize(w http.ResponseWriter, r *http.Request) {
	var q tokenizeRequest
	err := into(r, &q)
	if err == nil {
		err = s.checkModel(q.Model)
	}
	var ids []int32
	if err == nil {
		ids, err = s.tokenize(&q)
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Count   int             `json:"count"`
		Window  int             `json:"max_model_len"`
		Tokens  []int32         `json:"tokens"`
		Strings json.RawMessage `json:"token_strs,omitempty"` // of vLLM
	}{len(ids), s.opts.MaxModelLen, s.wire.outAll(ids), s.nullOfVLLM()})
}

func (s *Server) tokenize(q *tokenizeRequest) ([]int32, *apiError) {
	switch {
	case q.Messages != nil:
		var req request
		err := cmp.Or(s.face.take(s, &q.wireRequest, intake{api: apiChat}), q.checkChat())
		if err == nil {
			err = s.chatPrompt(&q.wireRequest, &req)
		}
		if err != nil {
			return nil, err
		}
		return req.prompts[0], nil
	case q.Text == nil:
		return nil, missing("prompt").also("missing", "body.messages", "Field required")
	}
	ids := []int32{}
	if q.AddSpecialTokens == nil || *q.AddSpecialTokens {
		ids = append(ids, tokBOS)
	}
	return s.tok.AppendEncode(ids, *q.Text), nil
}

// serveDetokenize answers with the text of ids. SGLang calls it text, and leaves special tokens out.
func (s *Server) serveDetokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model  string   `json:"model"`
		Tokens *[]int32 `json:"tokens"`
	}
	err := into(r, &q)
	if err == nil {
		err = s.checkModel(q.Model)
	}
	if err == nil && q.Tokens == nil {
		err = missing("tokens")
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	name := "text"
	if s.vllm() {
		name = "prompt"
	}
	writeJSON(w, http.StatusOK, map[string]string{name: s.tok.Decode(s.wire.inAll(*q.Tokens), !s.vllm())})
}

// serveEmbeddings answers with unit vectors made of hashes. A generative vLLM has no such route; it is here so that a
// gateway's embeddings path has something to talk to.
func (s *Server) serveEmbeddings(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Model      string          `json:"model"`
		Input      json.RawMessage `json:"input"`
		Dimensions int             `json:"dimensions"`
	}
	err := into(r, &q)
	if err == nil {
		err = s.checkModel(q.Model)
	}
	var list []promptInput
	if err == nil {
		list, err = promptList(q.Input)
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	type embedding struct {
		Index  int       `json:"index"`
		Object string    `json:"object"`
		Vector []float64 `json:"embedding"`
	}
	var total int
	var data []embedding
	for i, p := range list {
		ids := s.wire.inAll(p.ids)
		if !p.asIDs {
			ids = s.tok.Encode(p.text)
		}
		total += len(ids)
		data = append(data, embedding{i, "embedding", vector(hashIDs(s.opts.Seed, ids), min(cmp.Or(max(q.Dimensions, 0), 256), 4096))})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "model": s.opts.Model, "data": data, "usage": spend{prompt: total}.body()})
}

// vector is a unit vector made of a hash.
func vector(h uint64, dims int) []float64 {
	v := make([]float64, dims)
	var sum float64
	for i := range v {
		v[i] = unit(mix(h, uint64(i))) - 0.5
		sum += v[i] * v[i]
	}
	for i := range v {
		v[i] = math.Round(v[i]/math.Sqrt(sum)*1e8) / 1e8
	}
	return v
}
