package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAClaimedLengthSetsAsideNoMoreThanTheStart(t *testing.T) {
	for claimed, want := range map[int64]int64{-1: 4 << 10, 0: 1, 100: 101, bodyStart - 1: bodyStart, bodyStart: bodyStart, 4 << 20: bodyStart, 1 << 62: bodyStart} {
		if got := firstBuffer(claimed); got != want {
			t.Errorf("%d claimed: %d, want %d", claimed, got, want)
		}
	}
}

func TestBodiesOfEverySizeAreReadWhole(t *testing.T) {
	const most = 1 << 20
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := readSlowly(http.NewResponseController(w), r, most, DefaultTimeouts())
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	for _, size := range []int{0, 1, bodyStart - 1, bodyStart, bodyStart + 1, 5*bodyStart + 7, most, most + 1} {
		sent := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
		for name, body := range map[string]io.Reader{"told": bytes.NewReader(sent), "chunked": io.MultiReader(bytes.NewReader(sent))} {
			resp, err := http.Post(srv.URL, "application/json", body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if ok := resp.StatusCode == http.StatusOK; err != nil || ok != (size <= most) || ok && !bytes.Equal(got, sent) {
				t.Errorf("%d bytes, %s: status %d, %d bytes back, %v", size, name, resp.StatusCode, len(got), err)
			}
		}
	}
}
