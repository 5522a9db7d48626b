package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

func TestAFileThatNamesBackendsIsFollowedWithoutCuttingAStream(t *testing.T) {
	sims := []*vllmsim.Server{
		vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: simSeed}),
		vllmsim.Start(t, vllmsim.Options{Model: "m", Seed: simSeed, TimeScale: simScale}),
	}
	file := filepath.Join(t.TempDir(), "backends")
	name := func(sims ...*vllmsim.Server) {
		t.Helper()
		text := "# who serves\n"
		for _, s := range sims {
			text += s.URL() + "\n"
		}
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	name()
	p := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
pools: {only: {model: m, discover: "file://%s"}}
routes: [{model: %s, target: only}]
drain: {delay: 0s, grace: 5s}
`, file, routeUsual))
	status, head, body := apptest.Send(t, http.MethodPost, p.URL+chat, chatBody(routeUsual))
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "no_backend") || head.Get("Retry-After") == "" {
		t.Errorf("with no backend at all: status %d, Retry-After %q: %s", status, head.Get("Retry-After"), body)
	}
	named := func(s *vllmsim.Server) func() bool {
		return func() bool {
			_, body := apptest.Get(t, p.Admin+"/admin/backends")
			return strings.Count(body, `"url":`) == 1 && strings.Contains(body, s.URL())
		}
	}
	name(sims[0])
	apptest.Eventually(t, "the backend of the file is there", named(sims[0]))
	ended := make(chan string)
	go func() { // about two seconds
		_, _, body := apptest.Send(t, http.MethodPost, p.URL+chat, chatBody(routeUsual, `"stream":true`, `"ignore_eos":true`, `"max_tokens":100`))
		ended <- body
	}()
	apptest.Eventually(t, "a stream runs", func() bool { return sims[0].State().Running == 1 })
	name(sims[1])
	apptest.Eventually(t, "the file's change is seen", named(sims[1]))
	if sims[0].State().Running != 1 {
		t.Fatal("the stream has ended before its backend left the file")
	}
	apptest.Post(t, p.URL+chat, chatBody(routeUsual, `"max_tokens":3`))
	if n := sims[1].State().Requests[chat]; n != 1 {
		t.Errorf("the new backend was sent %d requests", n)
	}
	if body := <-ended; !strings.HasSuffix(body, "data: [DONE]\n\n") || sims[0].State().Aborted != 0 {
		t.Errorf("the stream was cut: %.300s", body)
	}
	name()
	apptest.Eventually(t, "a file that names nobody is complained of", func() bool { return strings.Contains(p.Log.String(), "names no backends") })
	if !named(sims[1])() {
		t.Error("a file that names nobody emptied the pool")
	}
}
