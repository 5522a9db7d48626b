package vllmsim

import (
	"fmt"
	"strings"
)

// Special tokens. Their texts never come out of encoding a message: only the template writes them.
const (
	tokBOS         = 0
	tokEndOfText   = 1
	tokStartHeader = 2
	tokEndHeader   = 3
	tokEOT         = 4 // the model's end of sequence
	tokPythonTag   = 6
	numSpecial     = 16
	firstByte      = numSpecial // the 256 byte tokens follow the special ones
	firstPiece     = firstByte + 256
)

// The word classes of the toy grammar. The language model goes from class to class, so that answers read like prose.
const (
	clsOther uint8 = iota
	clsSpecial
	clsByte
	clsDet
	clsAdj
	clsNoun
	clsVerb
	clsPrep
	clsAdv
	clsComma
	clsEnd
	clsCap  // " The": opens a sentence after another one
	clsCap0 // "The": opens a sentence after a line break
	clsNL
	clsBullet
	clsSpace
	numClasses
)

const (
	wordsDet  = `the a this that each every its our their some any no one`
	wordsAdj  = `small large new old quick slow quiet simple clear careful common rare local remote early late open closed deep shallow strong weak bright dark warm cold direct steady useful shared exact rough smooth sharp plain modern typical possible likely certain whole partial empty full main final first second next previous average higher lower better different similar several other public private secure stable fresh busy idle heavy light natural formal hidden visible central outer inner good long short red blue green`
	wordsNoun = `model token server request answer question river mountain city garden letter number system network queue cache memory engine signal window bridge harbor forest street teacher student doctor writer reader market village country morning evening winter summer story poem song paper table chair kitchen machine wheel road train station ticket result reason example pattern method process problem solution idea plan goal rule limit cost price value weight size shape color sound picture camera screen keyboard program function variable loop array string object file folder database record query index key lock door house room wall roof floor light fire water air stone metal glass wood sand field animal bird fish horse dog cat tree flower leaf root seed bread milk fruit sugar salt coffee tea energy power force motion speed distance point line circle angle team group family friend child person user client company office project budget report meeting message world time day year way thing part place case week hand eye life word side head`
	wordsVerb = `builds reads writes sends keeps holds opens closes moves turns makes takes gives shows tells asks answers finds loses starts stops runs waits watches follows leads carries brings leaves enters crosses reaches covers protects repairs cleans measures counts compares checks tests proves explains describes contains includes needs uses changes improves reduces increases limits allows prevents creates destroys connects separates joins splits stores loads serves handles accepts rejects returns is has was remains becomes means requires depends`
	wordsPrep = `of in on at with without from to into over under between through during before after about against near behind beyond across and or but because while`
	wordsAdv  = `often rarely always never quickly slowly carefully usually almost quite very already still again soon later together alone exactly roughly directly however therefore instead clearly`
	wordsCap  = `The A This That Each Every Its Our Their Some It We They You There Here When In For As However If Most Many Another One`
	wordsMore = `build read write send keep hold open close move turn make take give show tell ask find lose start stop run wait watch follow lead carry bring leave enter cross reach protect repair clean measure count compare check test prove explain describe contain include need use change improve reduce increase allow prevent create connect join store load serve handle accept reject return be are were been being have had do does did done can could will would should may might must not than then so just only also even more most less much many few what which who whom whose where when why how all both such same own too now here there he she it they we you I me him her us them my your his hello world please thanks yes system user assistant tool ipython name arguments parameters type properties required description weather location city unit celsius true false null error data text list value content role import def class return if else for while try except func var let const int float string bool print main self new public static void package go python json http https www com org example sum list describe summarize summarise translate write code capital France Paris London Berlin Tokyo English French German language country largest three four five six seven eight nine ten hundred thousand million percent`
	suffixes  = `s es ed er est ing ly tion sion ment ness able ible al ial ful less ous ive ize ise ity ty ant ent ance ence ism ist th st nd rd 's 't 're 've 'll 'm`
	puncts    = `. , ; : ! ? ( ) [ ] { } < > / \ | @ # $ % ^ & * - _ = + ~ " ' … — – “ ” ‘ ’ " ... -- --- ** __ == != <= >= => -> :: && || ++ += -= // /* */ () [] {} (); ); }; }, ", ": "," ":" {" "} [" "] '' "" <!-- --> </ /> #! ## ### ` + "` ```"
	codeBits  = `func(|return nil|err != nil|if err|:= range|fmt.|fmt.Println(|import (|package main|def __init__(|self.|print(|console.log(|const |let |var |async |await |public static|#include <|std::|int main(|SELECT |FROM |WHERE |INSERT INTO|<div>|</div>|<html>|http://|https://|www.|.com|.org|.go|.py|.js|.md|0x|\n\n\n|    return|    if|	if|	return| => {| -> | == | != | && | || | += | {}`
	cjkPieces = `的 一 是 不 了 人 我 在 有 他 这 中 大 来 上 国 个 到 说 们 为 子 和 你 地 出 道 也 时 年 得 就 那 要 下 以 生 会 自 着 去 之 过 家 学 对 可 她 里 后 小 么 心 多 天 而 能 好 都 然 没 日 于 起 还 发 成 事 只 作 当 想 看 文 无 开 手 十 用 主 行 方 又 如 前 所 本 见 经 头 面 公 同 三 已 老 从 动 两 长 数据 模型 中国 你好 世界 问题 时间 の に は を た が で て と し れ さ ある いる する こと です ます 日本 東京 한국 안녕 하세요 이 는 을 다`
)

// splitChars are characters that no piece holds: the model writes them byte by byte, so detokenisers must wait for them.
var splitChars = []string{
	"😀", "🎉", "🚀", "🌍", "💡", "🔥", "🙂", "📚", "🧪", "🌊", "👍", "🤖", "🦊", "🍞",
	"鯨", "麒", "麟", "螢", "鑫", "龘", "뷁", "쀍", "∮", "⇌", "✨", "☕", "⚙",
}

// words adds every word of list in the four ways it appears in prose; cls is the class of the form with a leading space.
func (t *Tokenizer) words(list string, cls uint8) {
	for w := range strings.FieldsSeq(list) {
		t.add(" "+w, cls)
		t.add(w, clsOther)
		up := strings.ToUpper(w[:1]) + w[1:]
		t.add(" "+up, clsOther)
		t.add(up, clsOther)
	}
}

// buildVocab fills the tables: special tokens, bytes, then pieces. The order fixes the ids, so append only.
func (t *Tokenizer) buildVocab() {
	for _, s := range []string{
		"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>",
		"<|python_tag|>", "<|pad|>",
	} {
		t.addSpecial(s)
	}
	for i := len(t.pieces); i < numSpecial; i++ {
		t.addSpecial(fmt.Sprintf("<|reserved_%d|>", i))
	}
	for b := range 256 {
		t.add(string([]byte{byte(b)}), clsByte)
	}
	// Single characters of the grammar are byte tokens already; give them their class.
	t.reclass(" ", clsSpace)
	t.reclass(",", clsComma)
	t.reclass(".", clsEnd)
	t.reclass("!", clsEnd)
	t.reclass("?", clsEnd)
	t.reclass("\n", clsNL)
	t.add("\n\n", clsNL)
	t.add("- ", clsBullet)
	for w := range strings.FieldsSeq(wordsCap) {
		t.add(" "+w, clsCap)
		t.add(w, clsCap0)
	}
	t.words(wordsDet, clsDet)
	t.words(wordsAdj, clsAdj)
	t.words(wordsNoun, clsNoun)
	t.words(wordsVerb, clsVerb)
	t.words(wordsPrep, clsPrep)
	t.words(wordsAdv, clsAdv)
	t.words(wordsMore, clsOther)
	t.addRest()
}

// addRest adds what prompts need and answers do not: plurals, suffixes, numbers, punctuation, code, CJK, white space.
func (t *Tokenizer) addRest() {
	for w := range strings.FieldsSeq(wordsNoun) {
		t.add(" "+w+"s", clsOther)
		t.add(w+"s", clsOther)
	}
	for _, list := range []string{suffixes, puncts, cjkPieces} {
		for w := range strings.FieldsSeq(list) {
			t.add(w, clsOther)
		}
	}
	for w := range strings.SplitSeq(codeBits, "|") {
		t.add(strings.ReplaceAll(w, `\n`, "\n"), clsOther)
	}
	for i := range 1000 {
		if i < 100 {
			t.add(fmt.Sprintf("%02d", i), clsOther)
		}
		t.add(fmt.Sprintf("%03d", i), clsOther)
	}
	for n := 2; n <= 16; n++ {
		t.add(strings.Repeat(" ", n), clsOther)
		t.add(strings.Repeat("\t", n), clsOther)
	}
	const consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
	for _, c := range consonants {
		for _, v := range vowels {
			t.add(string([]rune{c, v}), clsOther)
			t.add(string([]rune{v, c}), clsOther)
			for _, e := range "nrstl" {
				t.add(string([]rune{c, v, e}), clsOther)
			}
		}
	}
}
