package gateway

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/internal/panics"
)

// badWriter has deadlines that nobody keeps.
type badWriter struct{ *httptest.ResponseRecorder }

func (badWriter) SetReadDeadline(time.Time) error { return nil }

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
