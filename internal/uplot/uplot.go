// Package uplot holds uPlot, the library that draws the charts of the console, as it
// was published. README.md says which version that is.
package uplot

import "embed"

// Files are the library's script, its style sheet, its licence, and their checksums.
//
//go:embed uPlot.iife.min.js uPlot.min.css LICENSE README.md
var Files embed.FS
