package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/internal/panics"
)

// badReader panics when it is read, badWriter when it is written to.
type (
	badReader struct{}
	badWriter struct{ *httptest.ResponseRecorder }
)

func (badReader) Read([]byte) (int, error)         { panic("of a body") }
func (badWriter) Write([]byte) (int, error)        { panic("of a client's connection") }
func (badWriter) SetReadDeadline(time.Time) error  { return nil }
func (badWriter) SetWriteDeadline(time.Time) error { return nil }

// panicked is what a call panicked with, nil if it did not.
func panicked(do func()) (what any) {
	defer func() { what = recover() }()
	do()
	return nil
}

func TestAPanicOfABodyGivesItsPlaceBack(t *testing.T) {
	g := makeBench(t, simulator(t).URL(), nil)
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", io.NopCloser(badReader{}))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Content-Type", "application/json")
	var err error
	if panicked(func() { _, err = g.enter(&accessRecord{}, badWriter{httptest.NewRecorder()}, r) }) == nil {
		t.Fatal("no panic, but", err)
	}
	if !g.idle() {
		t.Errorf("%+v is held for ever", g.held())
	}
}

func TestAPanicAtAClientThatSharesItsAnswerIsItsRequests(t *testing.T) {
	w := badWriter{httptest.NewRecorder()}
	d := (&sink{w: w, rc: *http.NewResponseController(w)}).Detach()
	d.Write([]byte("text"))
	if panicked(func() { _ = d.Close() }) == nil {
		t.Error("the request does not hear of its panic")
	}
}

func TestAPanicOfWhatALoopStartsIsCountedAndGoesNoFurther(t *testing.T) {
	over := make(chan struct{})
	g := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Background = append(o.Background, BackgroundTask{Name: "parent", Run: func(ctx context.Context) error {
			var child sync.WaitGroup
			child.Go(func() {
				defer panics.Recover(ctx)
				panic("a bug in what a loop starts")
			})
			child.Wait()
			close(over)
			<-ctx.Done()
			return nil
		}})
	})
	<-over
	if got := testutil.ToFloat64(g.metrics.panics); got != 1 {
		t.Errorf("%v panics were counted, want 1", got)
	}
}
