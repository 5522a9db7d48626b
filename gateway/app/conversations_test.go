package app_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/internal/redistest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// keepers are replicas that store responses, and an engine whose last chat is known.
type keepers struct {
	replicas []*apptest.Replica
	asked    atomic.Pointer[string] // the messages of the last chat, as JSON
}

// startKeepers starts replicas with a Redis, as in the configuration.
func startKeepers(t *testing.T, n int, redis string, more ...string) *keepers {
	t.Helper()
	k := &keepers{}
	sim := vllmsim.Start(t, vllmsim.Options{Model: "m", TimeScale: 50})
	to, err := url.Parse(sim.URL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var chat struct{ Messages json.RawMessage }
		if json.Unmarshal(body, &chat) == nil && strings.HasSuffix(r.URL.Path, "/chat/completions") {
			messages := string(chat.Messages)
			k.asked.Store(&messages)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(engine.Close)
	config := conf("redis: {url: %q}\npools: {p: {model: m, backends: [%q]}}\nroutes: [{model: m, target: p}]\nidentity: {mode: keys}\ntenants:\n", redis, engine.URL)
	for _, tenant := range []string{"acme", "other", "quiet"} {
		config += fmt.Sprintf("  - {id: %s, keys_sha256: [\"%x\"], forget_responses: %v}\n", tenant, sha256.Sum256([]byte(tenant)), tenant == "quiet")
	}
	config += strings.Join(more, "")
	for range n {
		r := apptest.Serve(t, config)
		r.Ready(t)
		k.replicas = append(k.replicas, r)
	}
	return k
}

// response is an answer of the Responses API, or an error.
type response struct {
	ID       string
	Store    bool
	Previous string `json:"previous_response_id"`
	Output   []struct {
		ID      string
		Content []struct{ Text string }
	}
	Error struct{ Code, Message, Param string }
}

// ask sends a request as a tenant to a replica. The answer is read from the last event of a stream.
func (k *keepers) ask(t *testing.T, replica int, tenant, members string) (int, response) {
	t.Helper()
	status, _, body := apptest.Send(t, http.MethodPost, k.replicas[replica].URL+"/v1/responses", `{"model":"m","max_output_tokens":6,`+members+`}`, "Authorization", "Bearer "+tenant)
	if _, last, ok := strings.Cut(body, "event: response.incomplete\ndata: "); ok {
		var event struct{ Response json.RawMessage }
		if err := json.Unmarshal([]byte(last), &event); err != nil {
			t.Fatal(err)
		}
		body = string(event.Response)
	}
	var r response
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return status, r
}

// stored is ask until the answer is stored: on a busy machine Redis can be late.
func (k *keepers) stored(t *testing.T, replica int, tenant, members string) (r response) {
	t.Helper()
	apptest.Eventually(t, "the answer is stored", func() bool {
		var status int
		if status, r = k.ask(t, replica, tenant, members); status != http.StatusOK {
			t.Fatalf("%d %+v", status, r)
		}
		return r.Store
	})
	return r
}

// at calls a stored response.
func (k *keepers) at(t *testing.T, method string, replica int, tenant, id string) (int, string) {
	t.Helper()
	status, _, body := apptest.Send(t, method, k.replicas[replica].URL+"/v1/responses/"+id, "", "Authorization", "Bearer "+tenant)
	return status, body
}

func (r *response) text() string { return r.Output[0].Content[0].Text }

func TestAConversationGoesOnAtAnotherReplica(t *testing.T) {
	k := startKeepers(t, 3, "redis://"+redistest.Start(t).Addr)
	first := k.stored(t, 0, "acme", `"stream":true,"input":"who are you"`)
	k.replicas[0].Stop(t)
	second := k.stored(t, 1, "acme", `"input":"and then","previous_response_id":"`+first.ID+`"`)
	if second.Previous != first.ID {
		t.Errorf("%+v", second)
	}
	quoted, _ := json.Marshal(first.text())
	const question = `[{"content":"who are you","role":"user"},`
	if want := question + `{"content":` + string(quoted) + `,"role":"assistant"},{"content":"and then","role":"user"}]`; *k.asked.Load() != want {
		t.Errorf("the engine was asked\n%s, want\n%s", *k.asked.Load(), want)
	}
	status, third := k.ask(t, 2, "acme", `"store":false,"input":[{"type":"item_reference","id":"`+second.Output[0].ID+`"},{"id":"`+first.Output[0].ID+`"},{"role":"user","content":"x"}]`)
	if asked := *k.asked.Load(); status != http.StatusOK || third.Store || !strings.HasSuffix(asked, `,{"content":`+string(quoted)+`,"role":"assistant"},{"content":"x","role":"user"}]`) {
		t.Errorf("%d %+v: the engine was asked %s", status, third, asked)
	}
	if status, whole := k.at(t, http.MethodGet, 2, "acme", second.ID); status != http.StatusOK || !strings.Contains(whole, `"id":"`+second.ID+`"`) || !strings.Contains(whole, `"store":true`) {
		t.Errorf("%d %s", status, whole)
	}
	if status, _ := k.at(t, http.MethodGet, 2, "acme", third.ID); status != http.StatusNotFound {
		t.Errorf("a response that was not to be stored: %d", status)
	}
	forged := "resp_" + strings.Repeat("0", 32)
	for _, id := range []string{second.ID, forged, "resp_x", "resp_" + strings.Repeat("0", 32) + "_" + strings.Repeat("f", 32)} {
		who := "acme"
		if id == second.ID {
			who = "other"
		}
		if status, r := k.ask(t, 1, who, `"input":"x","previous_response_id":"`+id+`"`); status != http.StatusNotFound || r.Error.Code != "previous_response_not_found" || r.Error.Param != "previous_response_id" {
			t.Errorf("%s goes on from %s: %d %+v", who, id, status, r.Error)
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if status, body := k.at(t, method, 1, who, id); status != http.StatusNotFound {
				t.Errorf("%s: %s %s: %d %s", who, method, id, status, body)
			}
		}
	}
	if status, r := k.ask(t, 1, "acme", `"input":[{"type":"item_reference","id":"msg_1"}]`); status != http.StatusNotFound || r.Error.Param != "input[0].id" {
		t.Errorf("a forged item: %d %+v", status, r.Error)
	}
	if status, body := k.at(t, http.MethodDelete, 1, "acme", second.ID); status != http.StatusOK || !strings.Contains(body, `"deleted":true`) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := k.at(t, http.MethodGet, 2, "acme", second.ID); status != http.StatusNotFound {
		t.Errorf("a deleted response: %d", status)
	}
}

// TestItemsByReferenceAreReadAlone sends each turn as Vercel's AI SDK does: the user's items again, and all answers by reference.
func TestItemsByReferenceAreReadAlone(t *testing.T) {
	k := startKeepers(t, 1, "redis://"+redistest.Start(t).Addr, "limits: {body_bytes: 16KiB}")
	var input []string
	for range 20 {
		input = append(input, `{"role":"user","content":"`+strings.Repeat("word ", 60)+`"}`)
		r := k.stored(t, 0, "acme", `"input":[`+strings.Join(input, ",")+`]`)
		input = append(input, `{"type":"item_reference","id":"`+r.Output[0].ID+`"}`)
	}
}

func TestWithoutRedisResponsesAreStoredInTheReplica(t *testing.T) {
	k := startKeepers(t, 1, "none")
	first := k.stored(t, 0, "acme", `"input":"a"`)
	k.stored(t, 0, "acme", `"input":"b","previous_response_id":"`+first.ID+`"`)
	other := k.stored(t, 0, "other", `"input":"a"`)
	if status, _, body := apptest.Send(t, http.MethodPost, k.replicas[0].Admin+"/admin/cache/purge?tenant=acme", ""); status != http.StatusOK {
		t.Fatalf("purge: %d %s", status, body)
	}
	if status, _ := k.at(t, http.MethodGet, 0, "other", other.ID); status != http.StatusOK {
		t.Errorf("another tenant's after a purge: %d", status)
	}
	if status, _ := k.at(t, http.MethodGet, 0, "acme", first.ID); status != http.StatusNotFound {
		t.Errorf("after a purge: %d", status)
	}
}
