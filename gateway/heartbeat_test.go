package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/engine"
)

// deadlines is a response whose writes have deadlines.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }

func TestAStreamThatIsSilentForTenSecondsGetsAComment(t *testing.T) {
	for name, c := range map[string]struct {
		early, stream bool
		before, want  string // until the headers, and in all
	}{
		"a stream":                {stream: true, want: "data: a\n\n: ping\n\n: ping\n\ndata: b\n\n"},
		"a stream, early headers": {early: true, stream: true, before: ": ping\n\n: ping\n\n", want: ": ping\n\n: ping\n\ndata: a\n\n: ping\n\n: ping\n\ndata: b\n\n"},
		"no stream":               {early: true, want: "data: a\n\ndata: b\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			live := setting(t, "stream.early_headers", map[bool]string{true: "yes", false: "no"}[c.early])
			synctest.Test(t, func(t *testing.T) {
				g := &Gateway{opts: Options{Settings: live}}
				w := deadlines{httptest.NewRecorder()}
				l := &accessRecord{}
				s := g.open(l, w, httptest.NewRequest(http.MethodPost, "/", http.NoBody), c.stream)
				time.Sleep(25 * time.Second)
				synctest.Wait()
				if got := w.Body.String(); got != c.before || s.began != (c.before != "") {
					t.Errorf("before the answer: %q, headers %v", got, s.began)
				}
				if err := s.Begin(tiers.ResponseHead{Stream: c.stream, Tier: "target"}); err != nil {
					t.Fatal(err)
				}
				for _, p := range []string{"data: a\n\n", "data: b\n\n"} {
					if err := s.Write([]byte(p)); err != nil {
						t.Fatal(err)
					}
					if p == "data: a\n\n" {
						time.Sleep(25 * time.Second)
					}
				}
				s.stop()
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := w.Body.String(); got != c.want {
					t.Errorf("the client got %q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestNoCommentIsWrittenWithinAnEventThatPassesThroughNorAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{opts: Options{Settings: settings.New(settings.Options{})}}
		w := deadlines{httptest.NewRecorder()}
		s := g.open(&accessRecord{}, w, httptest.NewRequest(http.MethodPost, "/", http.NoBody), false)
		if err := s.Begin(tiers.ResponseHead{ContentType: "text/event-stream"}); err != nil {
			t.Fatal(err)
		}
		_ = s.Write([]byte("data: ha"))
		time.Sleep(25 * time.Second)
		_ = s.Write([]byte("lf\r\n\r\n"))
		time.Sleep(15 * time.Second)
		s.breakOff(problemOf(&engine.Failure{Kind: engine.Stalled}))
		s.stop()
		time.Sleep(time.Minute)
		const begun = "data: half\r\n\r\n: ping\n\nevent: error\ndata: {\"error\""
		if got := w.Body.String(); len(got) < len(begun) || got[:len(begun)] != begun || got[len(got)-2:] != "\n\n" {
			t.Errorf("the client got %q", got)
		}
	})
}
