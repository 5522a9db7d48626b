package accept

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// script is a class of letters.
type script uint8

const (
	latin script = iota
	han
	kana
	hangul
	cyrillic
	greek
	arabic
	hebrew
	devanagari
	thai
	scripts // how many there are
)

// tables says which letters a script has, but for those of Latin.
var tables = [scripts]*unicode.RangeTable{
	han: unicode.Han, hangul: unicode.Hangul, cyrillic: unicode.Cyrillic, greek: unicode.Greek, arabic: unicode.Arabic,
	hebrew: unicode.Hebrew, devanagari: unicode.Devanagari, thai: unicode.Thai,
}

const (
	scriptQuestion = 8       // letters of a question that tell what it is written in
	scriptAnswer   = 24      // and of an answer
	maxOtherScript = 8 << 10 // bytes of either that are looked at
)

// otherScript reports whether an answer is not written as its question is: seven tenths of
// its letters are of a script that has less than a twentieth of the question's; or it is
// Chinese, without any kana, where the question was Japanese. Code in fences is passed over.
// What is written in the same script, it cannot tell apart; and a request for a translation
// looks like a mistake: the check is a route's choice.
func otherScript(answer, question []byte) bool {
	asked, letters := letterCounts(question)
	if letters < scriptQuestion {
		return false
	}
	given, all := letterCounts(answer)
	if all < scriptAnswer {
		return false
	}
	for s := range scripts {
		if 10*given[s] < 7*all {
			continue
		}
		japanese := 10*asked[kana] >= letters
		if s == kana && 20*asked[han] >= letters {
			continue // kana answers what is written in characters only, as headlines are
		}
		return 20*asked[s] < letters || s == han && japanese && 50*given[kana] < all
	}
	return false
}

// letterCounts counts a text's letters by script, and all of them.
func letterCounts(text []byte) (count [scripts]int, all int) {
	text = text[:min(len(text), maxOtherScript)]
	fenced := false
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		if _, n, _ := fence(line, !fenced); n >= minFence {
			fenced = !fenced
			continue
		}
		for !fenced && len(line) > 0 {
			r, n := utf8.DecodeRune(line)
			line = line[n:]
			if s := scriptOf(r); s < scripts {
				count[s]++
				all++
			}
		}
	}
	return count, all
}

// scriptOf is the class of a letter; scripts for what is none, or of none of them.
func scriptOf(r rune) script {
	switch {
	case r < 0x80:
		if 'a' <= r|0x20 && r|0x20 <= 'z' {
			return latin
		}
		return scripts
	case unicode.In(r, unicode.Hiragana, unicode.Katakana):
		return kana
	case !unicode.IsLetter(r):
		return scripts
	}
	for s := han; s < scripts; s++ {
		if tables[s] != nil && unicode.Is(tables[s], r) {
			return s
		}
	}
	if unicode.Is(unicode.Latin, r) {
		return latin
	}
	return scripts
}
