package pair

import (
	_ "embed" // the questions
	"math/rand/v2"
	"regexp"
	"strings"
)

//go:embed questions.txt
var questionFile string

// question is one question of a run.
type question struct {
	kind    string   // such as capitals
	text    string   //
	answers []string // right ones, of which one suffices; nil: there is no right answer
}

// allQuestions reads the file of questions.
func allQuestions() (all []question) {
	kind, form := "", ""
	for line := range strings.Lines(questionFile) {
		line = strings.TrimSpace(line)
		if head, ok := strings.CutPrefix(line, "# "); ok {
			kind, form, _ = strings.Cut(head, ": ")
			continue
		}
		subject, answers, checked := strings.Cut(line, " = ")
		q := question{kind: kind, text: strings.Replace(form, "%s", subject, 1)}
		if checked {
			q.answers = strings.Split(answers, ", ")
		}
		all = append(all, q)
	}
	return all
}

// questions returns n questions, n at most [MaxRequests], in a random order that is the same in each run: any part of them is a
// random sample of all kinds.
func questions(n int) []question {
	all := allQuestions()
	dice := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same questions in each run
	dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n]
}

var (
	number  = regexp.MustCompile(`-?\d+`)
	digits  = regexp.MustCompile(`^-?\d+$`)
	letters = regexp.MustCompile(`[\pL\pN]+`)
)

// isRight reports whether a text has a right answer: a number must be the last number of the text, and words must be in it as
// whole words, in any case.
func (q *question) isRight(text string) bool {
	spaced := func(s string) string {
		return " " + strings.Join(letters.FindAllString(strings.ToLower(s), -1), " ") + " "
	}
	for _, a := range q.answers {
		if !digits.MatchString(a) {
			if strings.Contains(spaced(text), spaced(a)) {
				return true
			}
			continue
		}
		all := number.FindAllString(strings.ReplaceAll(text, ",", ""), -1)
		if len(all) > 0 && all[len(all)-1] == a {
			return true
		}
	}
	return false
}
