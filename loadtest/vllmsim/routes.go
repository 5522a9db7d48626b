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
	"time"
)

// maxBody bounds what a client can make the simulator hold; vLLM itself has no limit.
const maxBody = 256 << 20

// readBody reads a JSON body; anything but application/json is refused, as vLLM does.
func readBody(r *http.Request) ([]byte, *apiError) {
	if ct, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || ct != "application/json" {
		return nil, &apiError{status: http.StatusBadRequest, kind: "Bad Request",
			message: "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"}
	}
	return readAny(r)
}

// readAny reads a body of any type.
func readAny(r *http.Request) ([]byte, *apiError) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, &apiError{status: http.StatusRequestEntityTooLarge, kind: "Bad Request", message: "body too large"}
		}
		return nil, malformed("{'type': 'json_invalid', 'msg': 'JSON decode error'}")
	}
	return body, nil
}

func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	now := strconv.FormatInt(time.Now().Unix(), 10)
	b := []byte(`{"object":"list","data":[{"id":`)
	b = appendQuoted(b, s.shownModel())
	b = append(b, `,"object":"model","created":`+now+`,"owned_by":"`+s.missingFeatures.owner()+`","root":`...)
	b = appendQuoted(b, s.opts.Model)
	b = append(b, `,"parent":null,"max_model_len":`...)
	b = strconv.AppendInt(b, int64(s.opts.MaxModelLen), 10)
	b = append(b, `,"permission":[{"id":"modelperm-`+strconv.FormatUint(mix(s.nonce, s.ids.Add(1)), 16)...)
	b = append(b, `","object":"model_permission","created":`+now+`,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}]}]}`...)
	writeJSON(w, http.StatusOK, b)
}

// shownModel is the name of the model that is there now.
func (s *Server) shownModel() string {
	_, swapped := s.speaker(s.faults.get().Hazards)
	return cmp.Or(swapped, s.opts.Model)
}

func (s *Server) serveHealth(w http.ResponseWriter, _ *http.Request) {
	if s.life().dead() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (s *Server) serveVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte(`{"version":"`+serverVersion+`"}`))
}

// serveLoad shows 0, as vLLM does without --enable-server-load-tracking.
func (s *Server) serveLoad(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte(`{"server_load":0}`))
}

func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	f := s.faults.get()
	if f.Metrics == "missing" {
		s.absent(w, nil, false)
		return
	}
	page, err := s.metricsPage()
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
		page = spoil(page)
	}
	if f.KVUsage != nil {
		page = lie(page, *f.KVUsage)
	}
	_, _ = w.Write(page)
}

// metricsPage is the engine's page of metrics.
func (s *Server) metricsPage() ([]byte, error) {
	if s.face != nil {
		return s.face.page(s), nil
	}
	return s.life().expose()
}

// lie shows another KV usage than the true one.
func lie(page []byte, usage float64) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "vllm:kv_cache_usage_perc{") || strings.HasPrefix(line, "sglang:token_usage{") {
			line = line[:strings.LastIndexByte(line, ' ')+1] + pyFloat(usage) + "\n"
		}
		b.WriteString(line)
	}
	return []byte(b.String())
}

// spoil makes every sample NaN.
func spoil(page []byte) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(page)) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && line[0] != '#' {
			line = line[:at] + " NaN\n"
		}
		b.WriteString(line)
	}
	return []byte(b.String())
}

func (s *Server) serveTokenize(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	var q struct {
		wireRequest
		PromptText      *string `json:"prompt"`
		ReturnTokenStrs bool    `json:"return_token_strs"`
	}
	if err == nil {
		err = decode(body, &q)
	}
	if err == nil && q.Model != "" && q.Model != s.opts.Model {
		err = noModel(q.Model)
	}
	var req request
	switch {
	case err != nil:
	case q.Messages != nil && !s.opts.SGLang:
		req.chat = true
		if err = q.checkChat(); err == nil {
			err = s.chatPrompt(&q.wireRequest, &req)
		}
	case q.PromptText == nil:
		err = missing("prompt")
	default:
		ids := []int32{}
		if q.AddSpecialTokens == nil || *q.AddSpecialTokens {
			ids = append(ids, tokBOS)
		}
		req.prompts = [][]int32{s.tok.AppendEncode(ids, *q.PromptText)}
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s.tokenized(req.prompts[0], q.ReturnTokenStrs))
}

func (s *Server) tokenized(ids []int32, strs bool) []byte {
	b := []byte(`{"count":`)
	b = strconv.AppendInt(b, int64(len(ids)), 10)
	b = append(b, `,"max_model_len":`...)
	b = strconv.AppendInt(b, int64(s.opts.MaxModelLen), 10)
	b = appendIDs(append(b, `,"tokens":`...), s.wire.outAll(ids))
	b = append(b, `,"token_strs":`...)
	if !strs {
		return append(b, "null}"...)
	}
	b = append(b, '[')
	for i, id := range ids {
		b = appendQuoted(appendComma(b, i), s.tok.shown(id))
	}
	return append(b, "]}"...)
}

func (s *Server) serveDetokenize(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	var q struct {
		Model  string   `json:"model"`
		Tokens *[]int32 `json:"tokens"`
	}
	if err == nil {
		err = decode(body, &q)
	}
	switch {
	case err != nil:
	case q.Model != "" && q.Model != s.opts.Model:
		err = noModel(q.Model)
	case q.Tokens == nil:
		err = missing("tokens")
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	b := appendQuoted([]byte(`{"prompt":`), s.tok.Decode(s.wire.inAll(*q.Tokens), false))
	writeJSON(w, http.StatusOK, append(b, '}'))
}

// serveEmbeddings answers with unit vectors made of hashes. A generative vLLM has no such route; it is here so that a
// gateway's embeddings path has something to talk to.
func (s *Server) serveEmbeddings(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	var q struct {
		Model      string          `json:"model"`
		Input      json.RawMessage `json:"input"`
		Dimensions int             `json:"dimensions"`
	}
	if err == nil {
		err = decode(body, &q)
	}
	if err == nil && q.Model != "" && q.Model != s.opts.Model {
		err = noModel(q.Model)
	}
	var list []promptInput
	if err == nil {
		list, err = promptList(q.Input)
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	dims, total := 256, 0
	if q.Dimensions > 0 {
		dims = min(q.Dimensions, 4096)
	}
	b := []byte(`{"id":"embd-` + strconv.FormatUint(mix(s.nonce, s.ids.Add(1)), 16) + `","object":"list","created":`)
	b = strconv.AppendInt(b, time.Now().Unix(), 10)
	b = appendQuoted(append(b, `,"model":`...), s.opts.Model)
	b = append(b, `,"data":[`...)
	for i, p := range list {
		ids := s.wire.inAll(p.ids)
		if !p.asIDs {
			ids = s.tok.Encode(p.text)
		}
		total += len(ids)
		b = append(appendComma(b, i), `{"index":`+strconv.Itoa(i)+`,"object":"embedding","embedding":[`...)
		b = appendVector(b, hashIDs(s.opts.Seed, ids), dims)
		b = append(b, "]}"...)
	}
	n := strconv.Itoa(total)
	b = append(b, `],"usage":{"prompt_tokens":`+n+`,"total_tokens":`+n+`,"completion_tokens":0,"prompt_tokens_details":null}}`...)
	writeJSON(w, http.StatusOK, b)
}

func appendVector(b []byte, h uint64, dims int) []byte {
	v := make([]float64, dims)
	var sum float64
	for i := range v {
		v[i] = unit(mix(h, uint64(i))) - 0.5
		sum += v[i] * v[i]
	}
	for i := range v {
		b = appendFloat(appendComma(b, i), math.Round(v[i]/math.Sqrt(sum)*1e8)/1e8)
	}
	return b
}
