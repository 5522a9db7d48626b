package pressure

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
)

// maxIdentity bounds what is read of an answer that may tell the kind of an engine, in bytes. vLLM's own metrics come
// within the first 20 kB, after those of its Python process.
const maxIdentity = 256 << 10

// Identify asks a server what kind of engine it is, each question within the timeout. The error says that it could not be
// asked now: no answer, an error of its own, or credentials that it refuses on every path.
func (s *Scraper) Identify(ctx context.Context, baseURL string) (dialect.Finding, error) {
	var answers []dialect.Answer
	for _, path := range dialect.Questions {
		a, err := s.answer(ctx, baseURL, path)
		if err != nil {
			return dialect.Finding{}, err
		}
		if f := dialect.Tell(a); f.Kind != "" {
			return f, nil
		}
		answers = append(answers, a)
	}
	if first := answers[0]; first.Status != 200 {
		if err := (&StatusError{"GET", strings.TrimSuffix(baseURL, "/") + first.Path, first.Status}); err.Unwrap() != nil {
			return dialect.Finding{}, err
		}
	}
	return dialect.Find(answers), nil
}

// answer asks one question. Answers that say nothing of the kind of an engine, only that it cannot answer now, are errors.
func (s *Scraper) answer(ctx context.Context, baseURL, path string) (dialect.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config().OrDefaults().Timeout)
	defer cancel()
	url := strings.TrimSuffix(baseURL, "/") + path
	resp, err := s.request(ctx, url)
	if err != nil {
		return dialect.Answer{}, err
	}
	defer closeBody(resp.Body)
	if resp.StatusCode == 429 || resp.StatusCode >= 500 && resp.StatusCode != 501 {
		return dialect.Answer{}, &StatusError{Method: "GET", URL: url, Code: resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxIdentity))
	if err != nil {
		return dialect.Answer{}, fmt.Errorf("GET %s: %w", url, err)
	}
	return dialect.Answer{Path: path, Status: resp.StatusCode, Body: body}, nil
}
