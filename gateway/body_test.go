package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestBodiesOfEverySizeAreReadWhole(t *testing.T) {
	const maximum = 1 << 20
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := bodyReader{max: maximum, wait: time.Minute}.take(w, r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	for _, size := range []int{0, 1, maxUnproved - 1, maxUnproved, maxUnproved + 1, 5*maxUnproved + 7, maximum, maximum + 1} {
		sent := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
		for name, body := range map[string]io.Reader{"told": bytes.NewReader(sent), "chunked": io.MultiReader(bytes.NewReader(sent))} {
			resp, err := http.Post(srv.URL, "application/json", body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if ok := resp.StatusCode == http.StatusOK; err != nil || ok != (size <= maximum) || ok && !bytes.Equal(got, sent) {
				t.Errorf("%d bytes, %s: status %d, %d bytes back, %v", size, name, resp.StatusCode, len(got), err)
			}
		}
	}
}
