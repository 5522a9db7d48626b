package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestItSaysWhereItListensAndStopsWhenTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- serve(ctx, []string{"--listen", "127.0.0.1:0", "--model", "tiny"}, w, io.Discard)
	}()
	line := make([]byte, 200)
	n, err := r.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " on ")
	resp, err := http.Get(url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("health %d", resp.StatusCode)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
}

func TestAnUnknownProfileEndsWithTheKnownOnes(t *testing.T) {
	var errs bytes.Buffer
	if c := serve(t.Context(), []string{"--profile", "tpu"}, io.Discard, &errs); c != 1 {
		t.Errorf("exit code %d", c)
	}
	if !strings.Contains(errs.String(), "a10g-8b") {
		t.Error(errs.String())
	}
}
