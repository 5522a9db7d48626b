package accept

import (
	"bytes"
	"compress/flate"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// prose is n bytes of text that no check objects to.
func prose(n int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s number %d was seen near the %s. ", []string{"A heron", "One fox", "The owl", "Every hare"}[i*7%4], i*i+3, []string{"river", "mill", "old gate", "barn", "road"}[i*3%5])
	}
	return []byte(b.String()[:n])
}

func TestAStructureThatDoesNotHoldIsNamed(t *testing.T) {
	prompt := prose(2000)
	for name, c := range map[string]struct {
		draft Draft
		want  string
	}{
		"prose":                          {Draft{Text: prose(3000), Finish: "stop"}, ""},
		"no end":                         {Draft{Text: prose(100)}, ReasonCut},
		"a content filter":               {Draft{Text: prose(100), Finish: "content_filter"}, ReasonCut},
		"nothing":                        {Draft{Finish: "stop"}, ReasonEmpty},
		"white space":                    {Draft{Text: []byte(" \n\t\u3000"), Finish: "stop"}, ReasonEmpty},
		"a call":                         {Draft{Calls: 1, Finish: "tool_calls"}, ""},
		"a call where one was demanded":  {Draft{Calls: 1, Finish: "stop"}, ""},
		"a call's finish without a call": {Draft{Text: prose(100), Finish: "tool_calls"}, ReasonCut},
		"a call that was cut":            {Draft{Calls: 1, Finish: "length"}, ReasonCut},
		"a call in a JSON mode":          {Draft{Calls: 1, Finish: "tool_calls", WantJSON: true}, ""},
		"JSON in a fence":                {Draft{Text: []byte("```json\n{}\n```"), Finish: "stop", WantJSON: true}, ReasonInvalid},
		"bytes that say the same":        {Draft{Text: bytes.Repeat([]byte("It is what it is. "), 40), Finish: "stop"}, ReasonCompressible},
		"an open fence":                  {Draft{Text: []byte("Look:\n```go\nx := 1\n"), Finish: "stop"}, ReasonFence},
		"an open fence, cut":             {Draft{Text: []byte("Look:\n```go\nx := 1\n"), Finish: "length"}, ""},
		"an open fence, stopped there":   {Draft{Text: []byte("Look:\n```go\nx := 1\n"), Finish: "stop", Stopped: true}, ""},
		"a refusal":                      {Draft{Text: []byte("I’m sorry, but I can’t help with that."), Finish: "stop", Refusals: true}, ReasonRefusal},
		"a refusal, allowed":             {Draft{Text: []byte("I’m sorry, but I can’t help with that."), Finish: "stop"}, ""},
		"an echo":                        {Draft{Text: prompt[300:700], PromptText: prompt, Finish: "stop"}, ReasonEcho},
		"an echo, prompt unknown":        {Draft{Text: prompt[300:700], Finish: "stop"}, ""},
		"Chinese for English":            {Draft{Text: []byte("法国的首都是巴黎，它位于塞纳河畔，是该国最大的城市，也是政治和文化的中心。"), Question: []byte("What is the capital of France?"), Finish: "stop"}, ReasonLanguage},
		"Chinese, question unknown":      {Draft{Text: []byte("法国的首都是巴黎，它位于塞纳河畔，是该国最大的城市，也是政治和文化的中心。"), Finish: "stop"}, ""},
	} {
		if got := c.draft.fault(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// count is the ids from..from+n-1.
func count(from, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(from + i)
	}
	return out
}

func TestADraftThatLoopsIsRefusedNearItsEnd(t *testing.T) {
	for gram := minGram; gram <= maxGram; gram++ {
		phrase := count(7, gram)
		loop := slices.Concat(count(1000, 50), slices.Repeat(phrase, maxRepeats))
		if !Repeats(loop) || Repeats(loop[:len(loop)-1]) {
			t.Errorf("a phrase of %d tokens: %t with its end, %t without", gram, Repeats(loop), Repeats(loop[:len(loop)-1]))
		}
		if !Repeats(slices.Concat(loop, count(5000, 20))) {
			t.Errorf("a phrase of %d tokens is not seen behind other words", gram)
		}
		if Repeats(slices.Concat(loop, count(5000, nearEnd))) {
			t.Errorf("a phrase of %d tokens far from the end counts", gram)
		}
		if Repeats(slices.Concat(slices.Repeat(phrase, maxRepeats-1), []int32{1}, phrase)) {
			t.Errorf("a phrase of %d tokens that was broken off counts", gram)
		}
	}
	if Repeats(nil) || Repeats(slices.Repeat(count(7, maxGram+1), 8)) {
		t.Error("no ids, or a phrase too long, count")
	}
	if !Repeats(slices.Repeat([]int32{3}, minGram*maxRepeats)) {
		t.Error("one token over and over does not count")
	}
}

func TestALoopIsSeenWhileItIsWritten(t *testing.T) {
	ids := slices.Concat(count(1000, 300), slices.Repeat(count(7, 5), maxRepeats), count(5000, 10))
	var l RepetitionDetector
	for i, id := range ids {
		if got, want := l.Add(id), i == 319; got != want {
			t.Errorf("token %d: %t", i, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { l.Add(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOnlyTheEndOfATextIsSqueezed(t *testing.T) {
	loop := bytes.Repeat([]byte("and then it rained "), 60)
	for name, c := range map[string]struct {
		text []byte
		want bool
	}{
		"a loop":            {loop, true},
		"words, then loop":  {slices.Concat(prose(900), loop), true},
		"a loop, then more": {slices.Concat(loop, prose(400)), false},
		"short":             {loop[:compressedTail-1], false},
		"prose":             {prose(4000), false},
		"a table":           {[]byte(strings.Repeat("| 12 | x |\n| 7 | yes |\n", 3) + string(prose(500))), false},
	} {
		if got := isCompressible(c.text); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// words are n bytes of words that are no more alike than those of a language.
func words(n int) []byte {
	chance := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for len(text) < n {
		for range 1 + chance.IntN(3) {
			text = append(text, "bcdfghklmnprstvw"[chance.IntN(16)], "aeiou"[chance.IntN(5)])
		}
		text = append(text, ' ')
	}
	return text[:n]
}

// deflated is the size of what DEFLATE makes of a text.
func deflated(text []byte) int {
	var out counter
	w, _ := flate.NewWriter(&out, flate.DefaultCompression)
	_, _ = w.Write(text)
	_ = w.Close()
	return int(out)
}

func TestATextIsSqueezedOnlyIfThatCouldMatter(t *testing.T) {
	texts := [][]byte{prose(512), bytes.Repeat([]byte("a"), 512), bytes.Repeat([]byte("ab"), 256), make([]byte, 512)}
	chance := rand.New(rand.NewPCG(1, 2))
	for letters := 1; letters < 256; letters = letters*3/2 + 1 {
		for run := 1; run < 64; run *= 2 {
			text := make([]byte, 0, 600)
			for len(text) < 512 { // new letters, then some that came before
				text = append(text, byte(chance.IntN(letters)))
				from := chance.IntN(len(text))
				text = append(text, text[from:min(from+chance.IntN(run), len(text))]...)
			}
			texts = append(texts, text[:512])
		}
	}
	for _, text := range texts {
		size := deflated(text)
		if bound := literalBits(text); bound > 8*float64(size) {
			t.Errorf("%q: %d bytes, but at least %.0f bits", text, size, bound)
		}
		if got, want := isCompressible(text), size*maxCompression < compressedTail; got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
	if literalBits(words(512)) < 8*compressedTail/maxCompression {
		t.Error("words are squeezed")
	}
}

func TestAFenceIsOpenUntilOneOfItsKindEndsIt(t *testing.T) {
	for text, want := range map[string]bool{
		"":                                    false,
		"no code":                             false,
		"```\nx\n```":                         false,
		"```\nx":                              true,
		"```":                                 true,
		"```go\nx\n```\nand\n```sh\ny":        true,
		"```go\nx\n```\nand\n```sh\ny\n```\n": false,
		"````md\n```\nx\n```\n````":           false,
		"````md\n```\nx\n```\n":               true,
		"~~~\nx\n```\n~~~":                    false,
		"```\n~~~\n":                          true,
		"```\nx\n``` not an end":              true,
		"say ```x``` inline":                  false,
		"```x``` begins a line":               false,
		"1. Do:\n   ```sh\n   ls\n   ```\n2. Done":    false,
		"- ```sh\n  ls\n  ```\n":                      false,
		"- 1) ```sh\n  ls\n":                          true,
		"> ```\n> x\n> ```":                           false,
		"```\r\nx\r\n```\r\n":                         false,
		"```diff\n- ```\n+ x\n```":                    false,
		"``\nx":                                       false,
		"- - - - -":                                   false,
		"10":                                          false,
		strings.Repeat("- ", 2000) + "```\nx":         true,
		strings.Repeat("```\n", 501):                  true,
		"    ```\n    deep in a list\n    ```\nfine.": false,
	} {
		if got := fenceOpen([]byte(text)); got != want {
			t.Errorf("%.60q: %t", text, got)
		}
	}
}

func TestRefusalsAreToldByHowTheyOpen(t *testing.T) {
	for text, want := range map[string]bool{
		"I'm sorry, but I can't help with that.":   true,
		" **I’m  SORRY,\nbut I cannot** do it.":    true,
		"Es tut mir leid, aber ich kann das nicht": true,
		"Désolé, mais je ne peux pas faire cela":   true,
		"DÉSOLÉ, JE NE PEUX PAS":                   true,
		"Lo siento, pero no puedo hacerlo":         true,
		"抱歉，我无法回答这个问题。":                            true,
		"申し訳ありませんが、それはできません。":                      true,
		"Desculpe, mas não posso ajudar":           true,
		"I'm sorry to hear that. Try this:":        false,
		"Sorry is a word of four letters... five.": false,
		"You cannot assist a function like that":   false,
		"Leider regnet es":                         false,
		"I'm":                                      false,
		"":                                         false,
		"\xff\xfe":                                 false,
	} {
		if got := isRefusal([]byte(text)); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestEveryOpenerIsFoundAsItIsWritten(t *testing.T) {
	for _, language := range refusals {
		if len(language) < 12 {
			t.Errorf("%q and others are only %d", language[0], len(language))
		}
		for _, opener := range language {
			if !isRefusal([]byte(opener)) || !isRefusal([]byte(strings.ToUpper(opener)+" …")) {
				t.Errorf("%q is not found", opener)
			}
			if len(opener) > refusalHead {
				t.Errorf("%q is longer than what is looked at", opener)
			}
		}
	}
}

func TestAnEchoIsMoreThanHalfOfTheAnswer(t *testing.T) {
	prompt := prose(3000)
	own := bytes.ToUpper(prose(6000)[3000:]) // shares no long run with the prompt
	for name, c := range map[string]struct {
		answer, prompt []byte
		want           bool
	}{
		"a copy":                   {prompt[1000:1500], prompt, true},
		"a little more than half":  {slices.Concat(own[:400], prompt[501:1001], own[400:460]), prompt, true},
		"a little less than half":  {slices.Concat(own[:400], prompt[501:900], own[400:460]), prompt, false},
		"pieces":                   {slices.Concat(prompt[10:110], own[:40], prompt[700:800], own[50:90], prompt[300:400]), prompt, true},
		"its own words":            {own, prompt, false},
		"short":                    {prompt[:minEcho-1], prompt, false},
		"no prompt":                {own, nil, false},
		"a short prompt":           {own, prompt[:20], false},
		"a copy twice":             {slices.Concat(prompt[200:500], prompt[200:500]), prompt, true},
		"beyond what is looked at": {prompt[:500], slices.Concat(prompt[:500], bytes.Repeat(own, 30)[:echoPrompt]), false},
		"one letter over and over": {bytes.Repeat([]byte("a"), 500), bytes.Repeat([]byte("a"), 5000), true},
	} {
		if got := isEcho(c.answer, c.prompt); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAnAnswerIsWrittenAsItsQuestionIs(t *testing.T) {
	const (
		english  = "Paris is the capital of France and its largest city by far."
		chinese  = "巴黎是法国的首都，也是法国最大的城市，位于塞纳河畔，人口超过两百万。"
		japanese = "パリはフランスの首都であり、国内で最も大きな都市です。セーヌ川のほとりにあります。"
		russian  = "Париж является столицей Франции и её крупнейшим городом."
	)
	for name, c := range map[string]struct {
		question, answer string
		want             bool
	}{
		"the same":                        {"What is the capital of France?", english, false},
		"Russian for English":             {"What is the capital of France?", russian, true},
		"English for Russian":             {"Назови столицу Франции", english, true},
		"Chinese for Japanese":            {"フランスの首都はどこですか？", chinese, true},
		"Japanese for Japanese":           {"フランスの首都はどこですか？", japanese, false},
		"Japanese for characters only":    {"法国首都何处在哪里呢", japanese, false},
		"Chinese for Chinese":             {"法国的首都是哪里？请回答", chinese, false},
		"both in the question":            {"Translate into Russian: столица Франции", russian, false},
		"code for Chinese":                {"请写一个快速排序的函数", "如下所示，这是一个快速排序函数的实现，可以直接使用：\n```python\ndef sort(values): return sorted(values)\n```\n希望对你有帮助。", false},
		"too little of an answer":         {"Назови столицу Франции", "Paris", false},
		"too little of a question":        {"2+2?", russian, false},
		"numbers":                         {"Назови столицу Франции", strings.Repeat("12 ", 90), false},
		"Greek for Greek":                 {"Ποια είναι η πρωτεύουσα;", "Η πρωτεύουσα της Γαλλίας είναι το Παρίσι και βρίσκεται στον Σηκουάνα.", false},
		"accents are Latin":               {"Où est la tour Eiffel, exactement ?", "Elle se trouve à Paris, près de la Seine, érigée en été.", false},
		"Hangul for Latin":                {"Where is the Eiffel tower?", "에펠탑은 프랑스 파리에 있으며 센강 근처의 샹드마르스 공원에 서 있는 철제 탑입니다.", true},
		"bytes that are no text at all":   {"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7", "\xff\xfe", false},
		"a mix that nothing dominates in": {"Назови столицу", "Paris Париж Paris Париж Paris Париж Paris Париж", false},
	} {
		if got := otherScript([]byte(c.answer), []byte(c.question)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// FuzzStructure: no draft, prompt or question makes a check panic; a text that is all
// copied from the prompt is an echo; and looking at a loop as it is written says the same
// as looking at its end.
func FuzzStructure(f *testing.F) {
	f.Add([]byte("```\nx"), []byte("say"), []byte("what?"), []byte{1, 2, 3})
	f.Add(prose(700), prose(900), []byte("Где?"), bytes.Repeat([]byte{1, 2, 3, 4}, 5))
	f.Add([]byte("I’m sorry, but"), bytes.Repeat([]byte("ab"), 90), []byte("\xff"), []byte{})
	f.Fuzz(func(t *testing.T, text, prompt, question, ids []byte) {
		d := Draft{Text: text, Finish: "stop", Refusals: true, PromptText: prompt, Question: question}
		for _, id := range ids {
			d.IDs = append(d.IDs, int32(id))
		}
		reason := d.fault()
		if reason == "" && (len(bytes.TrimSpace(text)) == 0 || Repeats(d.IDs)) {
			t.Fatalf("%q passed", text)
		}
		if d.Finish = "length"; d.fault() == ReasonFence {
			t.Fatal("an open fence counts in an answer that was cut")
		}
		if len(prompt) >= minEcho && len(prompt) <= echoPrompt && !isEcho(prompt, prompt) {
			t.Fatalf("%q is no echo of itself", prompt)
		}
		var l RepetitionDetector
		looped := false
		for _, id := range d.IDs[max(len(ids)-nearEnd, 0):] {
			looped = l.Add(id) || looped
		}
		if looped != Repeats(d.IDs) {
			t.Fatalf("ids %v", ids)
		}
		if got, want := isCompressible(text), len(text) >= compressedTail && deflated(text[len(text)-compressedTail:])*maxCompression < compressedTail; got != want {
			t.Fatalf("%q is compressible: %t", text, got)
		}
		if n := opening(nil, text); !utf8.Valid(n) || len(n) > refusalHead+utf8.UTFMax {
			t.Fatalf("the opening %q", n)
		}
	})
}

func BenchmarkStructure(b *testing.B) {
	d := Draft{Text: prose(4000), IDs: count(1, 1000), Finish: "stop", Refusals: true, PromptText: bytes.ToUpper(prose(8000)), Question: []byte("What was seen?")}
	b.ReportAllocs()
	for b.Loop() {
		if reason := d.fault(); reason != "" {
			b.Fatal(reason)
		}
	}
}

func BenchmarkCompressible(b *testing.B) {
	for name, text := range map[string][]byte{"words": words(600), "formula": prose(600)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if isCompressible(text) {
					b.Fatal("it is not")
				}
			}
		})
	}
}

func BenchmarkLoops(b *testing.B) {
	var l RepetitionDetector
	b.ReportAllocs()
	for i := int32(0); b.Loop(); i++ {
		l.Add(i % 3000)
	}
}
