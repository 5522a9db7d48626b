package pressure

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
)

// maxIdentity bounds what is read of an answer that may tell the kind of an engine, in bytes: hosted APIs list their
// hundreds of models in about 500 kB.
const maxIdentity = 4 << 20

// Identify asks a server what kind of engine it is, each question within the timeout. The error says that it could not be
// asked now: no answer, or /v1/models answers with a refusal of the credentials or an error of the server.
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
		if path == dialect.ModelsPath && cannotAnswer(a.Status) {
			return dialect.Finding{}, &StatusError{http.MethodGet, strings.TrimSuffix(baseURL, "/") + path, a.Status}
		}
		answers = append(answers, a)
	}
	return dialect.Find(answers), nil
}

// cannotAnswer reports whether a status says only that the server cannot answer now, or not us.
func cannotAnswer(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented || credentials.RefusedBy(status) != nil
}

// answer asks one question.
func (s *Scraper) answer(ctx context.Context, baseURL, path string) (dialect.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	url := strings.TrimSuffix(baseURL, "/") + path
	resp, err := s.request(ctx, url)
	if err != nil {
		return dialect.Answer{}, err
	}
	defer closeBody(resp.Body)
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxIdentity))
	if err != nil {
		return dialect.Answer{}, fmt.Errorf("GET %s: %w", url, err)
	}
	return dialect.Answer{Path: path, Status: resp.StatusCode, Body: body}, nil
}
