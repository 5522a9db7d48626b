package deploy

import (
	"regexp"
	"slices"
	"strings"
)

// seriesUse is a metric as an expression names it, with the labels that it asks for.
type seriesUse struct {
	name   string
	labels []string
}

// promql is what an expression names. It is no parser: whether expressions parse is promtool's to say.
type promql struct {
	series []seriesUse
	groups []string // labels of by, on and their like
	made   []string // labels that label_replace makes
}

var (
	promWords  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|\[[^\]]*\]|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9][0-9a-zA-Z.]*|[=!]~|!=|[^\s]`)
	promIdent  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	promLabels = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	promOther  = []string{"and", "or", "unless", "bool", "offset", "inf", "nan"}
)

// readPromql tells what an expression names.
func readPromql(expr string) promql {
	var p promql
	words := promWords.FindAllString(expr, -1)
	at := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case !promIdent.MatchString(w), slices.Contains(promOther, strings.ToLower(w)):
		case slices.Contains(promLabels, w):
			if at(i+1) == "(" {
				for i += 2; i < len(words) && words[i] != ")"; i++ {
					if promIdent.MatchString(words[i]) {
						p.groups = append(p.groups, words[i])
					}
				}
			}
		case at(i+1) == "(" || slices.Contains(promLabels, at(i+1)): // a function, or an aggregation before its by
			if w == "label_replace" {
				p.made = append(p.made, madeLabel(words[i+1:]))
			}
		default:
			use := seriesUse{name: w}
			if at(i+1) == "{" {
				for i += 2; i < len(words) && words[i] != "}"; i++ {
					if promIdent.MatchString(words[i]) && slices.Contains([]string{"=", "!=", "=~", "!~"}, at(i+1)) {
						use.labels = append(use.labels, words[i])
					}
				}
			}
			p.series = append(p.series, use)
		}
	}
	return p
}

// madeLabel is the second argument of the label_replace whose parenthesis opens words.
func madeLabel(words []string) string {
	depth := 0
	for i, w := range words {
		switch w {
		case "(", "{":
			depth++
		case ")", "}":
			depth--
		case ",":
			if depth == 1 && i+1 < len(words) {
				return strings.Trim(words[i+1], `"`)
			}
		}
	}
	return ""
}
