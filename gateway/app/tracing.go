package app

import (
	"fmt"
	"os"

	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/gateway/tracing"
)

// makeTracer makes the exporter to a collector, if the file names one.
func (a *App) makeTracer() error {
	t := a.Options.File.Tracing
	if t.OTLP == "" {
		return nil
	}
	headers, err := collectorHeaders(t.HeadersFile)
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

// collectorHeaders reads a collector's headers from the file at path; "" is none.
func collectorHeaders(path string) (map[string]string, error) {
	if path == "" {
		return map[string]string{}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list, err := files.Headers(data)
	if err != nil {
		return nil, err
	}
	headers := make(map[string]string, len(list))
	for _, h := range list {
		headers[h.Name] = h.Value
	}
	return headers, nil
}
