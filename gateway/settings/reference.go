package settings

import "github.com/foregate/foregate/internal/words"

// maxShown bounds how much of a foreign name or value is shown, in bytes.
const maxShown = 64

// show makes foreign text safe for a log field, a label and a terminal.
func show(s string) string { return words.Clip(s, maxShown) }

// showValue is show for a value. A value that is too long to be read is not shown: how much of it is
// available depends on how it was read.
func showValue(s string) string {
	if len(s) > maxValue {
		return "…"
	}
	return show(s)
}
