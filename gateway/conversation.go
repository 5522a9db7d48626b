package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/gateway/clientapi/responses"
	"github.com/foregate/foregate/gateway/conversations"
	"github.com/foregate/foregate/tiers/openai"
)

// conversationsPath makes conversations, which requests of the Responses API name; one of them is below it.
const conversationsPath = "/v1/conversations"

// makeConversation makes a conversation with the items of the body.
func (g *Gateway) makeConversation(in *admittedRequest, l *accessRecord, w http.ResponseWriter, r *http.Request) error {
	if !g.keepsResponses(l) {
		return &clientapi.EngineOnlyError{Field: "conversation", Reason: clientapi.ReasonState}
	}
	items, metadata, err := g.conversationItems(in)
	if err != nil {
		return err
	}
	c := map[string]any{"id": conversations.ConversationPrefix + l.ID, "object": "conversation", "created_at": l.Began.Unix(), "metadata": metadata}
	whole, err := json.Marshal(c)
	if err != nil {
		return err
	}
	turn := conversations.Turn{ID: conversations.Next(conversations.ID{}, l.ID), Input: items, Output: json.RawMessage("[]"), Whole: whole, Head: &conversations.Head{}}
	if err := g.opts.Conversations.Put(r.Context(), l.Caller.Tenant, turn, 0); err != nil {
		return stateProblem(err, "items")
	}
	return l.writeJSON(w, c)
}

// conversationItems are the items of the body of a new conversation. They are held to what a request may have.
func (g *Gateway) conversationItems(in *admittedRequest) (items []json.RawMessage, metadata json.RawMessage, err error) {
	// A request with these items is what is checked: the body has no model.
	request := fmt.Appendf(nil, `{"model":"-","metadata":%s}`, in.body)
	if _, err := openai.Peek(responsesPath, request, g.opts.Scan); err != nil {
		return nil, nil, withoutOffset(err)
	}
	o := clientapi.ReadObject(in.body)
	o.Only("items", "metadata")
	items = o.List("items")
	o.Object("metadata")
	if o.Err() != nil {
		return nil, nil, o.Err()
	}
	if metadata = json.RawMessage("{}"); o.Has("metadata") {
		metadata = o.Raw("metadata")
	}
	if len(items) == 0 {
		return items, metadata, nil
	}
	request = append(append([]byte(`{"model":"-","input":`), o.Raw("items")...), '}')
	if _, err := openai.Peek(responsesPath, request, g.opts.Scan); err != nil {
		return nil, nil, withoutOffset(err)
	}
	checked := *in
	checked.body = request
	_, err = g.translate(responses.API{}, &checked)
	return items, metadata, err
}
