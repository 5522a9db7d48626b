package loadtest

import (
	"encoding/json"
	"math"
	"strconv"
)

// chart is what page.js draws with uPlot: lines over one axis.
type chart struct {
	X, Y   axis
	Stairs bool // from value to value in steps, as a distribution is drawn
	Series []plotLine
	Marks  []mark  `json:",omitempty"`
	Warm   float64 `json:",omitempty"` // the warm-up's end on the x axis
	None   string  `json:",omitempty"` // what to say when there are no lines
}

// axis is a scale, its name and how its values are written.
type axis struct {
	Name     string
	Kind     axisKind
	Log      bool `json:",omitempty"`
	Min, Max float64
}

// axisKind says how the values of an axis are written.
type axisKind string

const (
	plainAxis axisKind = "plain"
	shareAxis axisKind = "share" // of 0 … 1, as percent
	millisec  axisKind = "ms"    // in the unit that is shortest
)

// plotLine is one line.
type plotLine struct {
	Label  string
	Colour string // a custom property of page.css
	Thin   bool   `json:",omitempty"`
	X, Y   values // as many of each; where Y is NaN the line has a gap
}

// add appends a point.
func (s *plotLine) add(x, y float64) { s.X, s.Y = append(s.X, x), append(s.Y, y) }

// gap breaks the line.
func (s *plotLine) gap(x float64) { s.add(x, math.NaN()) }

// mark is a sign at a place.
type mark struct {
	X, Y  float64
	Label string
}

// values are numbers of a chart. Five digits of each are written, and null for what is no number.
type values []float64

// MarshalJSON writes the numbers as a list.
func (v values) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, x := range v {
		if i > 0 {
			out = append(out, ',')
		}
		if finite(x) != x {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, x, 'g', 5, 64)
		}
	}
	return append(out, ']'), nil
}

var _ json.Marshaler = values{}

// bar is one line of a chart of bars: parts beside each other.
type bar struct {
	Name, Text, Title string // Text stands behind the bar
	Parts             []part
}

// part is a piece of a bar.
type part struct {
	Colour string
	Width  float64 // percent of the longest bar that there may be
}

// piece is a part of a bar whose longest may be top.
func piece(colour string, value, top float64) part {
	return part{colour, 100 * min(max(finite(value/max(top, 1e-12)), 0), 1)}
}
