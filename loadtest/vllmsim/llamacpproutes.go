package vllmsim

import (
	"net/http"
	"strings"
	"time"
)

// llamaCard is the card of GET /v1/models. It tells the context that the model was trained with; that of a request is in
// GET /props.
type llamaCard struct {
	ID      string    `json:"id"`
	Aliases []string  `json:"aliases"`
	Tags    []string  `json:"tags"`
	Object  string    `json:"object"`
	Created int64     `json:"created"`
	OwnedBy string    `json:"owned_by"`
	Meta    llamaMeta `json:"meta"`
}

type llamaMeta struct {
	VocabType int `json:"vocab_type"`
	Vocab     int `json:"n_vocab"`
	Trained   int `json:"n_ctx_train"`
	Embedding int `json:"n_embd"`
	Params    int `json:"n_params"`
	Size      int `json:"size"`
}

// llamaInfo is the entry that Ollama's clients read.
type llamaInfo struct {
	Name         string   `json:"name"`
	Model        string   `json:"model"`
	ModifiedAt   string   `json:"modified_at"`
	Size         string   `json:"size"`
	Digest       string   `json:"digest"`
	Type         string   `json:"type"`
	Capabilities []string `json:"capabilities"`
}

func (s *Server) llamaModels(w http.ResponseWriter, _ *http.Request) {
	name := s.shownModel()
	s.writeFace(w, struct {
		Models []llamaInfo `json:"models"`
		Object string      `json:"object"`
		Data   []llamaCard `json:"data"`
	}{
		[]llamaInfo{{Name: name, Model: name, Type: "model", Capabilities: []string{"completion"}}}, "list",
		[]llamaCard{{ID: name, Aliases: []string{name}, Tags: []string{}, Object: "model", Created: time.Now().Unix(), OwnedBy: engineLlamaCpp,
			Meta: llamaMeta{VocabType: 2, Vocab: s.tok.Size(), Trained: s.opts.MaxModelLen, Embedding: 4096, Params: 8e9, Size: 5e9}}},
	})
}

// llamaProps tells the context of one slot.
func (s *Server) llamaProps(w http.ResponseWriter, _ *http.Request) {
	type settings struct {
		Params struct{} `json:"params"`
		Window int      `json:"n_ctx"`
	}
	s.writeFace(w, struct {
		Defaults settings `json:"default_generation_settings"`
		Slots    int      `json:"total_slots"`
		Alias    string   `json:"model_alias"`
		Path     string   `json:"model_path"`
		HasSlots bool     `json:"endpoint_slots"`
		HasProps bool     `json:"endpoint_props"`
		Metrics  bool     `json:"endpoint_metrics"`
		Template string   `json:"chat_template"`
		BOS      string   `json:"bos_token"`
		EOS      string   `json:"eos_token"`
		Build    string   `json:"build_info"`
		Sleeping bool     `json:"is_sleeping"`
	}{
		Defaults: settings{Window: s.window()}, Slots: s.profile.MaxSeqs, Alias: s.shownModel(), Path: "/models/" + s.shownModel() + ".gguf",
		HasSlots: true, Metrics: !s.missingFeatures.metrics, Template: "{# the simulator's own #}",
		BOS: s.tok.pieces[tokBOS], EOS: s.tok.pieces[tokEOT], Build: llamaBuild,
	})
}

func (s *Server) llamaSlots(w http.ResponseWriter, _ *http.Request) {
	type slot struct {
		ID          int  `json:"id"`
		Window      int  `json:"n_ctx"`
		Speculative bool `json:"speculative"`
		Processing  bool `json:"is_processing"`
	}
	running := s.life().sum().Running
	slots := make([]slot, s.profile.MaxSeqs)
	for i := range slots {
		slots[i] = slot{ID: i, Window: s.window(), Speculative: s.faults.get().Hazards.has(HazardConstantLogprobs), Processing: i < running}
	}
	s.writeFace(w, slots)
}

// llamaBody reads a body into v.
func (s *Server) llamaBody(w http.ResponseWriter, r *http.Request, v any) bool {
	body, err := readAny(r)
	if err == nil {
		err = decode(body, v)
	}
	if err != nil {
		s.writeError(w, err)
	}
	return err == nil
}

func (s *Server) llamaTokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Content      *string `json:"content"`
		AddSpecial   bool    `json:"add_special"`
		ParseSpecial *bool   `json:"parse_special"`
		WithPieces   bool    `json:"with_pieces"`
	}
	if !s.llamaBody(w, r, &q) {
		return
	}
	ids := []int32{}
	if q.Content != nil {
		if q.AddSpecial {
			ids = append(ids, tokBOS)
		}
		if q.ParseSpecial == nil || *q.ParseSpecial {
			ids = s.tok.appendSpecial(ids, *q.Content)
		} else {
			ids = s.tok.AppendEncode(ids, *q.Content)
		}
	}
	if !q.WithPieces {
		s.writeFace(w, struct {
			Tokens []int32 `json:"tokens"`
		}{s.wire.outAll(ids)})
		return
	}
	type piece struct {
		ID    int32 `json:"id"`
		Piece any   `json:"piece"` // a text, or bytes that are none
	}
	pieces := make([]piece, len(ids))
	for i, id := range ids {
		pieces[i] = piece{s.wire.out(id), s.tok.pieces[id]}
		if s.tok.shown(id) == "" {
			pieces[i].Piece = bytesOf(s.tok.pieces[id])
		}
	}
	s.writeFace(w, struct {
		Tokens []piece `json:"tokens"`
	}{pieces})
}

func (s *Server) llamaDetokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Tokens []int32 `json:"tokens"`
	}
	if s.llamaBody(w, r, &q) {
		s.writeFace(w, struct {
			Content string `json:"content"`
		}{s.tok.Decode(s.wire.inAll(q.Tokens), false)})
	}
}

// llamaTemplate renders a chat as text, without the first token, which /tokenize adds with add_special.
func (s *Server) llamaTemplate(w http.ResponseWriter, r *http.Request) {
	var q wireRequest
	if !s.llamaBody(w, r, &q) {
		return
	}
	if q.Messages == nil {
		s.writeError(w, llamaError(http.StatusBadRequest, "'messages' is required"))
		return
	}
	req := request{chat: true}
	err := q.llamaPrefill(s.faults.get().Hazards)
	if err == nil {
		err = s.chatPrompt(&q, &req)
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	s.writeFace(w, struct {
		Prompt string `json:"prompt"`
	}{strings.TrimPrefix(s.tok.Decode(req.prompts[0], false), s.tok.pieces[tokBOS])})
}

func (s *Server) llamaEmbeddings(w http.ResponseWriter, _ *http.Request) {
	s.writeError(w, llamaError(http.StatusNotImplemented, "This server does not support embeddings. Start it with `--embeddings`"))
}

// appendSpecial appends the ids of a text in which the names of special tokens stand for these.
func (t *Tokenizer) appendSpecial(dst []int32, text string) []int32 {
	for text != "" {
		at, id := len(text), int32(-1)
		for i := range int32(numSpecial) {
			if k := strings.Index(text, t.pieces[i]); k >= 0 && k < at {
				at, id = k, i
			}
		}
		dst = t.AppendEncode(dst, text[:at])
		if id < 0 {
			return dst
		}
		dst, text = append(dst, id), text[at+len(t.pieces[id]):]
	}
	return dst
}
