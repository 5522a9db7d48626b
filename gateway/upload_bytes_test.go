package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// TestBodiesAreChargedAsTheyCome sends bodies that claim much: nobody pays for what has not come, and whoever has
// shown that it comes pays for all of it, until its request is over.
func TestBodiesAreChargedAsTheyCome(t *testing.T) {
	b := limited(t, simulator(t).URL(), func(o *Options) { o.Limits.Bodies = 9 << 20 }, twoTenants...)
	const claimed = 4 << 20
	bytesHeld := func() int64 { return b.held().bytes }
	b.stalled(t, "greedy", claimed, 0)
	soon(t, "a claim costs next to nothing", func() bool { return bytesHeld() == minBuffer })
	b.stalled(t, "greedy", claimed, maxUnproved)
	soon(t, "a body that comes is charged whole", func() bool { return bytesHeld() == minBuffer+claimed })
	status, body := b.stalled(t, "greedy", claimed/2, maxUnproved)(20 * time.Second)
	if status != http.StatusTooManyRequests || !strings.Contains(body, `"code":"tenant_share"`) {
		t.Errorf("beyond its share: %d %s", status, body)
	}
	if r := b.as(t, "other", `,"pad":"`+strings.Repeat("x", 1<<20)+`","max_tokens":2`); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
	status, body = b.stalled(t, "other", 4<<20+500<<10, maxUnproved)(20 * time.Second)
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of more than half of the budget: %d %s", status, body)
	}
}

func TestSpentBytesAreToldAsTheGatewaysOwnLack(t *testing.T) {
	b := limited(t, simulator(t).URL(), func(o *Options) { o.Limits.Bodies = 3 << 20 }, twoTenants...)
	b.stalled(t, "greedy", 1<<20, maxUnproved)
	soon(t, "the first is charged", func() bool { return b.held().bytes >= 1<<20 })
	b.stalled(t, "other", 1<<20, maxUnproved)
	soon(t, "the second is charged", func() bool { return b.held().bytes >= 2<<20 })
	r := b.post(t, "third", `{"model":"llama-3","pad":"`+strings.Repeat("x", 1<<20)+`"}`)
	kind, code, _ := r.says()
	if r.status != http.StatusServiceUnavailable || kind != "overloaded_error" || code != "upload_overloaded" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if n := r.seconds(t); n < 1 || n > 10 {
		t.Errorf("retry after %d s", n)
	}
	if r := b.as(t, "third", short); r.status != http.StatusOK {
		t.Errorf("a small one: %d %s", r.status, r.body)
	}
}

// TestATranslationIsChargedBeforeItIsMade sends a body of very many objects, which would take hundreds of times its length: no
// retry can help.
func TestATranslationIsChargedBeforeItIsMade(t *testing.T) {
	b := limited(t, simulator(t).URL(), func(o *Options) { o.Limits.Bodies = 32 << 20 }, twoTenants...)
	for path, c := range map[string]struct{ head, tail string }{
		messagesPath:  {`{"model":"llama-3","max_tokens":2,"messages":[`, `{"role":"user","content":"hi"}]}`},
		responsesPath: {`{"model":"llama-3","max_output_tokens":2,"input":[`, `{"role":"user","content":"hi"}]}`},
	} {
		r := b.to(t, path, "greedy", c.head+strings.Repeat("{},", 1<<18)+c.tail)
		_, code, message := r.says()
		if r.status != http.StatusRequestEntityTooLarge || code != "body_too_large" || message != errTranslation.body.Message || r.head.Get("Retry-After") != "" {
			t.Errorf("%s: %d %v %s", path, r.status, r.head, r.body)
		}
		r = b.to(t, path, "greedy", c.head+`{"role":"user","content":"`+strings.Repeat("[{,", 1<<15)+`"},`+c.tail)
		if r.status != http.StatusOK {
			t.Errorf("%s: a long text: %d %s", path, r.status, r.body)
		}
	}
	soon(t, "all is given back", b.idle)
}

// TestATranslationThatFitsAnIdleGatewayIsMadeThere sends what is long and has few values. Beside an upload of the same tenant
// it does not fit, and the client is told to try again.
func TestATranslationThatFitsAnIdleGatewayIsMadeThere(t *testing.T) {
	b := limited(t, newSpeaker(t).URL, func(o *Options) {
		o.Limits.Bodies = 8 << 20
		o.Scan.Allow = func(string) []string { return []string{"image_url", "image", "input_image"} }
	}, twoTenants...)
	data := strings.Repeat("AAAA", 3<<16)
	bodies := map[string]string{
		"/v1/chat/completions": `{"model":"llama-3","max_tokens":2,"messages":[{"role":"user","content":"` + data + `"}]}`,
		messagesPath:           `{"model":"llama-3","max_tokens":2,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}]}]}`,
		responsesPath:          `{"model":"llama-3","max_output_tokens":2,"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + data + `"}]}]}`,
	}
	for path, body := range bodies {
		if r := b.to(t, path, "greedy", body); r.status != http.StatusOK {
			t.Errorf("%s: %d %.300s", path, r.status, r.body)
		}
	}
	soon(t, "all is given back", b.idle)
	b.stalled(t, "greedy", 1<<20, maxUnproved)
	soon(t, "the upload is charged", func() bool { return b.held().bytes >= 1<<20 })
	r := b.to(t, responsesPath, "greedy", bodies[responsesPath])
	if _, code, _ := r.says(); r.status != http.StatusTooManyRequests || code != "tenant_share" || r.head.Get("Retry-After") == "" {
		t.Errorf("beside an upload: %d %v %s", r.status, r.head, r.body)
	}
}

// TestABodyStaysChargedWhileItsAnswerIsMade lets a generation hang.
func TestABodyStaysChargedWhileItsAnswerIsMade(t *testing.T) {
	sim := simulator(t)
	sim.SetFault(vllmsim.Fault{Hang: "stream", AfterTokens: 3})
	b := startBench(t, sim.URL(), nil)
	stream := b.ask(t, true, 1000)
	if got := b.held(); got.requests != 1 || got.bytes == 0 {
		t.Errorf("%+v", got)
	}
	_ = stream.Body.Close()
	soon(t, "all is given back", b.idle)
}

// TestGenerationsOfOneTenantLeaveRoomForOthers lets the generations of one tenant hang.
func TestGenerationsOfOneTenantLeaveRoomForOthers(t *testing.T) {
	sim := simulator(t)
	sim.SetFault(vllmsim.Fault{Hang: "stream", AfterTokens: 1})
	b := limited(t, sim.URL(), func(o *Options) { o.Limits.InFlight = 3 }, twoTenants...)
	for range 2 {
		go func() {
			body := strings.NewReader(`{"model":"llama-3","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
			req, _ := http.NewRequest(http.MethodPost, b.url+"/v1/chat/completions", body)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("X-Tenant-ID", "greedy")
			if resp, err := b.client.Do(req.WithContext(t.Context())); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		}()
	}
	soon(t, "both are under way", func() bool { return b.held().requests == 2 })
	r := b.as(t, "greedy", short)
	if _, code, _ := r.says(); r.status != http.StatusTooManyRequests || code != "tenant_share" {
		t.Errorf("its third: %d %s", r.status, r.body)
	}
	sim.SetFault(vllmsim.Fault{})
	if r := b.as(t, "other", short); r.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", r.status, r.body)
	}
}
