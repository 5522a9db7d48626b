package app

import (
	"fmt"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/contentlog"
)

// makeContentLog makes the export of content, if the file names a collector for it.
func (a *App) makeContentLog() error {
	e := a.Options.File.Export
	if e.OTLPLogs == "" {
		return nil
	}
	headers, err := collectorHeaders(e.HeadersFile)
	if err != nil {
		return fmt.Errorf("export.headers_file: %w", err)
	}
	a.content, err = contentlog.New(contentlog.Options{
		URL: e.OTLPLogs, Share: e.Share, Headers: headers, Version: a.Options.Version,
		Input: e.Content != config.ContentNone, Output: e.Content == config.ContentFull,
		Logger: a.Options.Logger, Registerer: a.Options.Registerer,
	})
	return err
}
