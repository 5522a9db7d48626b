package http1

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestTheRestOfABodyIsSentInItsOrder(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.ContentLength != int64(len(body)) {
			http.Error(w, "wrong length", http.StatusBadRequest)
			return
		}
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	tr := newTransport(t, Options{})
	for _, size := range []int{0, 1, 20, inlineBody, inlineBody + 1, largeBody, 100_000, 1 << 20} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(i * i / 7)
		}
		for _, pieces := range []int{1, 2, 6, 7, 8, 20} {
			req := &Request{Base: srv.URL, Path: "/x", Body: body[:size/(pieces+1)]}
			for i := range pieces {
				req.More = append(req.More, body[(i+1)*size/(pieces+1):(i+2)*size/(pieces+1)])
			}
			more := bytes.Join(req.More, nil)
			resp, got, err := post(t, tr, req)
			if err != nil || resp.Status != http.StatusOK || !bytes.Equal(body, got) || !bytes.Equal(bytes.Join(req.More, nil), more) {
				t.Errorf("%d bytes, %d pieces: status %d, %d bytes: %v", size, pieces, resp.Status, len(got), err)
			}
		}
	}
}
