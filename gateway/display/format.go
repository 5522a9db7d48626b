package display

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration formats seconds in one or two units.
func Duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Count formats a number with its noun.
func Count(n int, one, many string) string {
	return fmt.Sprintf("%d %s", n, Plural(n, one, many))
}

// Percent formats a share with two decimals at most.
func Percent(share float64) string {
	return strconv.FormatFloat(math.Round(1e4*share)/100, 'f', -1, 64) + " %"
}

// List lists the first few names, and the number of the others.
func List(names []string) string {
	const maxNamed = 8
	switch n := len(names); {
	case n == 1:
		return names[0]
	case n <= maxNamed:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}

// Plural is one where n is 1, else many.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Dollars formats an amount with cents, and an amount below one dollar with its first digits.
func Dollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return fmt.Sprintf("$%.2g", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

// OneDecimal formats a number with at most one decimal place.
func OneDecimal(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", math.Round(10*v)/10), ".0")
}
