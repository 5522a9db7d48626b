package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/gateway/clientapi/responses"
	"github.com/foregate/foregate/gateway/conversations"
	"github.com/foregate/foregate/tiers/openai"
)

// maxReferred bounds the responses that one request refers to: each is a read.
const maxReferred = 256

// sealingCost is how often what is stored is in memory while it is written, compressed and sealed.
const sealingCost = 4

// responseState is what is kept of a tenant's responses, for one request.
type responseState struct {
	g   *Gateway
	l   *accessRecord
	ctx context.Context // of the request: values for the calls
	in  *admittedRequest

	before conversations.ID                      // the response that the request goes on from; the zero ID is none
	id     conversations.ID                      // of the answer
	read   map[string]map[string]json.RawMessage // items of answers by the id of their response and their own
	bytes  int64                                 // of the items that the chat gets
	past   int64                                 // of these, of the conversation that the request goes on from
}

var _ responses.State = (*responseState)(nil)

// keepsResponses reports whether the answers of a request are stored, unless it says that they are not to be.
func (g *Gateway) keepsResponses(l *accessRecord) bool {
	s := g.opts.Conversations
	return s != nil && s.Config().Enabled && !l.Caller.Access.ForgetResponses
}

// translator returns what translates a request of an API.
func (g *Gateway) translator(ctx context.Context, api *clientAPI, in *admittedRequest, l *accessRecord) clientapi.API {
	if !api.stateful || !g.keepsResponses(l) {
		return api.API
	}
	return responses.API{State: &responseState{g: g, l: l, ctx: ctx, in: in}}
}

// Past implements [responses.State].
func (s *responseState) Past(id, field string) (items []json.RawMessage, err error) {
	at, ok := conversations.ParseID(id)
	if !ok {
		return nil, stateProblem(conversations.ErrMissing, field)
	}
	var turns [][]json.RawMessage // the last one first
	for turn, err := range s.g.opts.Conversations.Turns(s.ctx, s.l.Caller.Tenant, at) {
		if err != nil {
			return nil, stateProblem(err, field)
		}
		answer, ok := openai.Elements(turn.Output)
		if !ok {
			return nil, stateProblem(conversations.ErrMissing, field)
		}
		turns = append(turns, slices.Concat(turn.Input, answer))
		if err := s.charge(field, turns[len(turns)-1]...); err != nil { // before the next one is opened
			return nil, err
		}
	}
	slices.Reverse(turns)
	s.before, s.past = at, s.bytes
	return slices.Concat(turns...), nil
}

// Item implements [responses.State]. It is charged each time.
func (s *responseState) Item(response, id, field string) (json.RawMessage, error) {
	items, ok := s.read[response]
	if !ok {
		var err error
		if items, err = s.answer(response, field); err != nil {
			return nil, err
		}
	}
	item := items[id]
	if item == nil {
		return nil, clientapi.BadValue(field, "is the id of no item of its response.")
	}
	return item, s.charge(field, item)
}

// answer reads the items of a response's answer, by their ids.
func (s *responseState) answer(id, field string) (map[string]json.RawMessage, error) {
	if len(s.read) == maxReferred {
		return nil, clientapi.BadValue(field, "is of more responses than a request may refer to. Send the items themselves.")
	}
	at, ok := conversations.ParseID(id)
	if !ok {
		return nil, stateProblem(conversations.ErrMissing, field)
	}
	whole, err := s.g.opts.Conversations.Whole(s.ctx, s.l.Caller.Tenant, at)
	if err != nil {
		return nil, stateProblem(err, field)
	}
	before := s.in.reservation.bytes
	if err := s.in.reservation.borrow(int64(len(whole))); err != nil {
		return nil, err
	}
	members, _ := openai.Members(whole)
	output := bytes.Clone(members["output"])                 // the rest of the response is let go
	_ = s.in.reservation.charge(before + int64(len(output))) // less is never refused
	elements, ok := openai.Elements(output)
	if !ok {
		return nil, stateProblem(conversations.ErrMissing, field)
	}
	if s.read == nil {
		s.read = map[string]map[string]json.RawMessage{}
	}
	items := make(map[string]json.RawMessage, len(elements))
	for _, raw := range elements {
		items[clientapi.ReadObject(raw).Text("id")] = raw
	}
	s.read[id] = items
	return items, nil
}

// charge takes the memory for items that the chat gets, as if the client had sent them, until the request is translated.
func (s *responseState) charge(field string, items ...json.RawMessage) error {
	var needed, size int64
	for _, item := range items {
		size += int64(len(item))
		needed += translationCost(item)
	}
	if s.bytes += size; s.bytes > s.g.opts.Limits.Body {
		return stateProblem(conversations.ErrLarge, field)
	}
	return s.in.reservation.borrow(needed)
}

// Name implements [responses.State].
func (s *responseState) Name(request string) string {
	s.id = conversations.Next(s.before, request)
	return s.id.String()
}

// Keep implements [responses.State].
func (s *responseState) Keep(t responses.Turn) bool {
	size := len(t.Whole) + len(t.Output)
	for _, item := range t.Input {
		size += len(item)
	}
	before := s.in.reservation.bytes
	if s.in.reservation.borrow(int64(sealingCost*size)) != nil {
		return false
	}
	defer func() { _ = s.in.reservation.charge(before) }() // less is never refused
	turn := conversations.Turn{ID: s.id, Before: s.before, Input: t.Input, Output: t.Output, Whole: t.Whole}
	return s.g.opts.Conversations.Put(s.ctx, s.l.Caller.Tenant, turn, s.past) == nil
}

// errStateAway refuses a request that goes on from what cannot be read now.
var errStateAway = refuse("responses_unavailable", "Stored responses cannot be read now. Try again, or send the whole conversation as input.").after(time.Second)

// stateProblem is the refusal of a request that names a response in a field, "" for its path.
func stateProblem(err error, field string) error {
	const why = "it was not stored, has expired, or was deleted."
	switch {
	case errors.Is(err, conversations.ErrLarge):
		return refuse("context_length_exceeded", "The conversation is longer than a request may be. Send what of it matters as input.").of(field)
	case !errors.Is(err, conversations.ErrMissing):
		return errStateAway
	case field == "":
		return refuse("response_not_found", "There is no such response: "+why)
	}
	return refuse("previous_response_not_found", field+" is the id of nothing that is stored: "+why+" Send the whole conversation as input.").of(field)
}

// responseRoutes are the routes of stored responses.
func (g *Gateway) responseRoutes(r chi.Router) {
	r.Get(responsesPath+"/{id}", g.handle(g.storedResponse))
	r.Delete(responsesPath+"/{id}", g.handle(g.deleteStored))
}

// stored identifies the caller, and the response that the path names.
func (g *Gateway) stored(l *accessRecord, r *http.Request) (id conversations.ID, err error) {
	if l.Caller, err = g.opts.Identity.Identify(r); err != nil {
		return id, err
	}
	id, ok := conversations.ParseID(chi.URLParam(r, "id"))
	if !ok || !g.keepsResponses(l) {
		return id, stateProblem(conversations.ErrMissing, "")
	}
	return id, nil
}

// storedResponse shows a response as it was answered.
func (g *Gateway) storedResponse(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	id, err := g.stored(l, r)
	if err != nil {
		return err
	}
	place, err := g.bodies.begin(l.Caller.Tenant, 0)
	if err != nil {
		return err
	}
	defer place.release()
	whole, err := g.opts.Conversations.Whole(r.Context(), l.Caller.Tenant, id)
	if err != nil {
		return stateProblem(err, "")
	}
	if err := place.charge(int64(len(whole))); err != nil {
		return err
	}
	l.writeBody(w, whole)
	return nil
}

// deleteStored deletes a response.
func (g *Gateway) deleteStored(l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	id, err := g.stored(l, r)
	if err != nil {
		return err
	}
	if err := g.opts.Conversations.Delete(r.Context(), l.Caller.Tenant, id); err != nil {
		return stateProblem(err, "")
	}
	return l.writeJSON(w, map[string]any{"id": conversations.ResponsePrefix + id.String(), "object": "response", "deleted": true})
}
