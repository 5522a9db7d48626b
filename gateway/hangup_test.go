package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
)

// TestAClientThatHangsUpBeforeTheFirstByteGetsNoTokensBack asks twice for most of a minute's tokens. The first time
// the client leaves while the engine works.
func TestAClientThatHangsUpBeforeTheFirstByteGetsNoTokensBack(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"llama-3","max_tokens":9000,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/completions":      `{"model":"llama-3","max_tokens":9000,"prompt":"hi","stream":true}`,
		"/v1/responses":        `{"model":"llama-3","max_output_tokens":9000,"input":"hi","top_logprobs":2}`,
	} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			working, stopped := make(chan struct{}, 1), make(chan struct{}, 1)
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != path {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				_, _ = io.Copy(io.Discard, r.Body) // only then does the server hear that the gateway leaves
				working <- struct{}{}
				<-r.Context().Done()
				stopped <- struct{}{}
			}))
			t.Cleanup(engine.Close)
			b := limited(t, engine.URL, func(o *Options) { o.Forward = []string{"/v1/responses"} }, identity.Tenant{ID: "acme", TPM: 10_000})
			limit, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			send := func(ctx context.Context) (reply, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+path, strings.NewReader(body))
				if err != nil {
					return reply{}, err
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-Tenant-ID", "acme")
				resp, err := b.client.Do(req)
				if err != nil {
					return reply{}, err
				}
				text, err := rest(resp)
				return reply{resp.StatusCode, resp.Header, text}, err
			}
			ctx, leave := context.WithCancel(limit)
			defer leave()
			var first sync.WaitGroup
			first.Go(func() {
				if r, err := send(ctx); err == nil {
					t.Errorf("%d %s before the client left", r.status, r.body)
				}
			})
			for _, come := range []chan struct{}{working, stopped} {
				select {
				case <-come:
				case <-limit.Done():
					t.Error("the engine was not asked, or not told to stop")
				}
				leave()
			}
			first.Wait()
			soon(t, "nothing is under way", b.idle)
			r, err := send(limit)
			if kind, _, _ := r.says(); err != nil || r.status != http.StatusTooManyRequests || kind != "tokens" {
				t.Errorf("as many tokens once more: %v, %d %s", err, r.status, r.body)
			}
		})
	}
}
