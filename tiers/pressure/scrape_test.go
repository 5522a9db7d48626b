package pressure

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/dialect"
)

func backend(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func scraper(t *testing.T, timeout time.Duration) *Scraper {
	t.Helper()
	s := NewScraper(timeout, nil)
	t.Cleanup(s.Close)
	return s
}

func TestScrapeReadsMetrics(t *testing.T) {
	url := backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" || !strings.HasPrefix(r.Header.Get("Accept"), "text/plain") {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		_, _ = w.Write(sample(t, "v1.txt"))
	})
	before := time.Now()
	r, err := scraper(t, 10*time.Second).Scrape(t.Context(), url, dialect.Of(dialect.VLLM), before)
	if err != nil {
		t.Fatal(err)
	}
	if r.Running != 37 || !r.At.Equal(before) {
		t.Errorf("got %+v", r)
	}
}

func TestScrapeRefusesWhatIsNoReading(t *testing.T) {
	var canary bool
	elsewhere := backend(t, func(http.ResponseWriter, *http.Request) { canary = true })
	for name, h := range map[string]http.HandlerFunc{
		"not found": http.NotFound,
		"error":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"redirect":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) },
		"empty":     func(http.ResponseWriter, *http.Request) {},
		"a page":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html></html>") },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "vllm:kv_cache_usage_perc 0.5\n")
		},
		"10 MB": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "vllm:kv_cache_usage_perc 0.5\n")
			_, _ = io.WriteString(w, strings.Repeat("# filler, and more of it\n", 10<<20/25))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := scraper(t, 10*time.Second).Scrape(t.Context(), backend(t, h), dialect.Of(dialect.VLLM), time.Now()); err == nil {
				t.Errorf("accepted as %+v", r)
			}
		})
	}
	if canary {
		t.Error("a redirect was followed")
	}
}

func TestScrapeOfASilentOrEndlessBackendEndsAtTheTimeout(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "# still going\n")
				_ = http.NewResponseController(w).Flush()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := scraper(t, 50*time.Millisecond).Scrape(t.Context(), backend(t, h), dialect.Of(dialect.VLLM), time.Now())
			if err == nil || time.Since(start) > 2*time.Second {
				t.Errorf("%v after %s", err, time.Since(start))
			}
		})
	}
}

func TestHealthTellsTheStatus(t *testing.T) {
	code := http.StatusOK
	url := backend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			w.WriteHeader(code)
		}
	})
	s := scraper(t, 10*time.Second)
	if err := s.Health(t.Context(), url, dialect.Of(dialect.VLLM)); err != nil {
		t.Error(err)
	}
	code = http.StatusServiceUnavailable
	var status *StatusError
	if err := s.Health(t.Context(), url, dialect.Of(dialect.VLLM)); !errors.As(err, &status) || status.Code != code {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Health(ctx, url, dialect.Of(dialect.VLLM)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAnOutsiderIsAskedNothing(t *testing.T) {
	asked := false
	url := backend(t, func(http.ResponseWriter, *http.Request) { asked = true })
	s := scraper(t, 10*time.Second)
	if err := s.Health(t.Context(), url, dialect.Of(dialect.OpenAI)); err != nil || asked {
		t.Errorf("asked %v, %v", asked, err)
	}
	if err := s.Health(t.Context(), "http://127.0.0.1:1", dialect.Of(dialect.OpenAI)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("of a port that nobody listens on: %v", err)
	}
}

func TestTheKindOfAServerIsFoundByTheFirstAnswerThatTellsIt(t *testing.T) {
	const list = `{"object":"list","data":[{"id":"m","owned_by":"us"}]}`
	for name, c := range map[string]struct {
		answers map[string]string // a status, or a body
		want    dialect.Kind
		fails   bool
	}{
		"by its owner":                     {map[string]string{"/v1/models": strings.Replace(list, "us", "llamacpp", 1)}, dialect.LlamaCpp, false},
		"another path is broken":           {map[string]string{"/v1/models": list, "/metrics": "500", "/props": "502", "/version": `{"version":"0.26"}`}, dialect.VLLM, false},
		"only a list":                      {map[string]string{"/v1/models": list}, dialect.OpenAI, false},
		"it loads":                         {map[string]string{"/v1/models": "503"}, "", true},
		"it refuses the key":               {map[string]string{"/v1/models": "401", "/version": `{"version":"0.26"}`}, dialect.VLLM, true},
		"it lists no models and says more": {map[string]string{"/get_model_info": `{"model_path":"m"}`}, dialect.SGLang, false},
		"nothing is there":                 {nil, "", false},
	} {
		url := backend(t, func(w http.ResponseWriter, r *http.Request) {
			a, has := c.answers[r.URL.Path]
			status, err := strconv.Atoi(a)
			switch {
			case !has:
				w.WriteHeader(http.StatusNotFound)
			case err == nil:
				w.WriteHeader(status)
			default:
				_, _ = io.WriteString(w, a)
			}
		})
		f, err := scraper(t, 10*time.Second).Identify(t.Context(), url)
		if (err != nil) != c.fails || !c.fails && f.Kind != c.want {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func TestOneTokenIsRequestedAsEachEngineTakesIt(t *testing.T) {
	var got string
	url := backend(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.URL.Path + " " + string(body)
	})
	for engine, want := range map[dialect.Kind]string{
		dialect.VLLM:     `/v1/completions {"max_tokens":1,"model":"m","prompt":[1]}`,
		dialect.LlamaCpp: `/v1/completions {"max_tokens":1,"model":"m","prompt":[1]}`,
		dialect.OpenAI:   `/v1/chat/completions {"max_tokens":1,"messages":[{"content":"1","role":"user"}],"model":"m"}`,
	} {
		if err := scraper(t, 10*time.Second).Probe(t.Context(), url, Question{Model: "m"}, dialect.Of(engine)); err != nil || got != want {
			t.Errorf("%s: %v, %s", engine, err, got)
		}
	}
}
