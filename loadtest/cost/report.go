// Package cost measures what the gateway costs beside a reverse proxy written in Go (the yardstick) and beside nginx, in the
// same run. What measures is a benchmark (make bench, make cost): every measured process runs alone on one core; the clients, the
// engine and Redis run on another one. The yardstick and the engine are processes of the test binary in a role. Replicas that are
// measured together share their core.
//
// Outside of the tests there is only [Report], what the benchmark found, so that the page of proofs can show it.
package cost

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Report is what a run of the benchmark found.
type Report struct {
	Rounds int      `json:"rounds"`
	Rows   []Row    `json:"rows"`
	Delays []Delay  `json:"delays,omitempty"`
	Memory []Memory `json:"memory,omitempty"`
}

// Row is CPU time of the gateway beside another process, or beside another load of the gateway, per request or token.
type Row struct {
	Title  string    `json:"title"`
	Goal   float64   `json:"goal,omitempty"` // the highest ratio that is wanted; 0 is none
	Own    []float64 `json:"own"`            // µs, of each round
	Beside []float64 `json:"beside"`         // µs, of each round
}

// Delay is what the gateway adds to the time that a client waits for the engine, at the median, µs.
type Delay struct {
	Title         string  `json:"title"`
	Goal          float64 `json:"goal,omitempty"`
	OverYardstick float64 `json:"over_yardstick"`
	Gateway       float64 `json:"gateway"` // over the engine itself
}

// Memory is resident memory, MiB.
type Memory struct {
	Title string  `json:"title"`
	Goal  float64 `json:"goal,omitempty"`
	MiB   float64 `json:"mib"`
}

// Read reads what [Report.Write] wrote.
func Read(file string) (*Report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, row := range r.Rows {
		if len(row.Own) != len(row.Beside) || len(row.Own) == 0 {
			return nil, fmt.Errorf("%s: row %q has %d and %d rounds", file, row.Title, len(row.Own), len(row.Beside))
		}
	}
	return &r, nil
}

// Write writes the report to a file.
func (r *Report) Write(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	return errors.Join(err, os.WriteFile(file, append(text, '\n'), 0o644)) //nolint:gosec // figures that everybody may read
}
