package gateway

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

func TestProbesMayAskForTheHeadAlone(t *testing.T) {
	g := startBench(t, simulator(t).URL(), nil)
	for _, base := range []string{g.url, "http://" + g.AdminAddr().String()} {
		for method, want := range map[string]int{http.MethodGet: 200, http.MethodHead: 200, http.MethodPost: 405, http.MethodDelete: 405} {
			for _, path := range []string{"/livez", "/readyz"} {
				if got, _ := g.status(t, method, base+path); got != want {
					t.Errorf("%s %s%s: %d, want %d", method, base, path, got, want)
				}
			}
		}
	}
	if got, allow := g.status(t, http.MethodPost, g.url+"/livez"); got != 405 || allow != "GET, HEAD" {
		t.Errorf("POST /livez: %d, Allow %q", got, allow)
	}
	if got, allow := g.status(t, http.MethodHead, g.url+"/v1/models"); got != 405 || allow != "GET" {
		t.Errorf("HEAD /v1/models: %d, Allow %q", got, allow)
	}
}

func TestReadyTellsHowMuchRedisThereIsAndDoesNotMind(t *testing.T) {
	var rung atomic.Value
	g := startBench(t, simulator(t).URL(), func(o *Options) { o.Rung = func() string { return rung.Load().(string) } })
	for _, mode := range []string{"shared", "degraded", "local"} {
		rung.Store(mode)
		resp, err := g.client.Get(g.url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		body, err := rest(resp)
		if err != nil || resp.StatusCode != http.StatusOK || body != "ok\nredis: "+mode+"\n" {
			t.Errorf("%s: %d %q, %v", mode, resp.StatusCode, body, err)
		}
	}
}

// status sends a request without a body.
func (b *bench) status(t *testing.T, method, url string) (code int, allow string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rest(resp); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Allow")
}

func TestWhatReadySaysIsAMetricToo(t *testing.T) {
	var why atomic.Pointer[string]
	b := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Ready = func() error {
			if w := why.Load(); w != nil {
				return errors.New(*w)
			}
			return nil
		}
	})
	for _, c := range []struct {
		why  *string
		want float64
	}{{nil, 1}, {new("no backend"), 0}, {nil, 1}} {
		why.Store(c.why)
		families, err := b.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "foregate_ready" })
		if i < 0 || families[i].GetMetric()[0].GetGauge().GetValue() != c.want {
			t.Errorf("want %g, got %v", c.want, families)
		}
	}
}
