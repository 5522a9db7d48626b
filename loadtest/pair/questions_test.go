package pair

import (
	"fmt"
	"testing"
)

func TestEachQuestionWithARightAnswerHasOneThatPassesAndOthersThatDoNot(t *testing.T) {
	all := allQuestions()
	seen, tasks := map[string]bool{}, 0
	for i := range all {
		q := &all[i]
		if q.kind == "" || seen[q.text] {
			t.Errorf("%+v is there twice, or has no kind", q)
		}
		if seen[q.text] = true; q.answers == nil {
			continue
		}
		tasks++
		for _, a := range q.answers {
			if !q.isRight("The answer is **"+a+"**.") || a == "" {
				t.Errorf("%q: %q does not pass", q.text, a)
			}
		}
		if q.isRight("I do not know.") || q.isRight("") {
			t.Errorf("%q has no wrong answer", q.text)
		}
		var a, b, want int
		var sign string
		if n, err := fmt.Sscanf(q.text, "What is %d %1s %d?", &a, &sign, &b); err == nil && n == 3 {
			if want = a + b; sign == "-" {
				want = a - b
			}
			if q.answers[0] != fmt.Sprint(want) {
				t.Errorf("%q: %v, want %d", q.text, q.answers, want)
			}
		}
	}
	if tasks < 200 || len(all) < MaxRequests {
		t.Errorf("%d questions, %d of them with right answers; want %d, 200", len(all), tasks, MaxRequests)
	}
}

func TestARightAnswerIsTheLastNumberOrWholeWords(t *testing.T) {
	sum, word := question{answers: []string{"15"}}, question{answers: []string{"light", "New Delhi"}}
	for text, want := range map[string]bool{"12 + 3 = 15": true, "15 is 12 + 3": false, "150": false, "1,015": false, "It is 15.": true, "fifteen": false} {
		if sum.isRight(text) != want {
			t.Errorf("%q is not %v", text, want)
		}
	}
	for text, want := range map[string]bool{"Light.": true, "lighter": false, "new\ndelhi": true, "delhi": false} {
		if word.isRight(text) != want {
			t.Errorf("%q is not %v", text, want)
		}
	}
}

func TestQuestionsAreTheSameInEachRunAndOfAllKinds(t *testing.T) {
	kinds := map[string]int{}
	again := questions(MaxRequests)
	for i, q := range questions(100) {
		if kinds[q.kind]++; q.text != again[i].text {
			t.Fatalf("question %d is %q and %q", i, q.text, again[i].text)
		}
	}
	if len(kinds) < 10 {
		t.Errorf("a hundred questions are of the kinds %v", kinds)
	}
}
