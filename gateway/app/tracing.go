package app

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/foregate/foregate/gateway/tracing"
)

const (
	maxHeaderFile   = 16 << 10 // bytes
	maxTraceHeaders = 16
)

// makeTracer makes the exporter to a collector, if the file names one.
func (a *App) makeTracer() error {
	t := a.Options.File.Tracing
	if t.OTLP == "" {
		return nil
	}
	headers, err := traceHeaders(t.HeadersFile)
	if err != nil {
		return fmt.Errorf("tracing.headers_file: %w", err)
	}
	a.tracer, err = tracing.New(tracing.Options{
		URL: t.OTLP, Sample: t.Sample, Headers: headers, Version: a.Options.Version,
		Model:  func(pool string) string { return a.file().Pools[pool].Model },
		Logger: a.Options.Logger, Registerer: a.Options.Registerer,
	})
	return err
}

// traceHeaders reads the collector's headers from the file at path; "" is none.
func traceHeaders(path string) (map[string]string, error) {
	if path == "" {
		return map[string]string{}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseHeaders(data)
}

// parseHeaders parses "NAME: VALUE" lines; empty lines and lines that begin with # are ignored. Errors never
// repeat a line, because it may be a key.
func parseHeaders(data []byte) (map[string]string, error) {
	if len(data) > maxHeaderFile {
		return nil, fmt.Errorf("more than %d bytes", maxHeaderFile)
	}
	headers := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("line %d: want NAME: VALUE", n)
		}
		headers[name] = value
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case len(headers) == 0:
		return nil, errors.New("no header in it; want NAME: VALUE in each line")
	case len(headers) > maxTraceHeaders:
		return nil, fmt.Errorf("more than %d headers", maxTraceHeaders)
	}
	return headers, nil
}
