package llamatest

import "strings"

// Ids of the special tokens; the texts are those of Qwen.
const (
	begin  = 0 // in front of every text: add_bos_token
	finish = 1 // ends a turn, and so an answer
	turn   = 2 // begins a turn
)

// template is Qwen's way to write a chat, without tools.
const template = `{%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}`

// words are what answers are made of. Each begins with a space, so that a text has one way only to be cut into tokens
// of an answer: ids that were generated, and those of their text, are the same.
var words = strings.Fields(`the a and of to in is it that for on with as was at by this be from are or an not they
which one you had have but all were when there can more if about out who what some would time up people so said its no
yes into them other only new could these two may then do first any my now such like our over man even most made after
also did many before must through years where much your way well down should because each just those how too little
state good very make world still own see men work long get here between both life being under never day same another
know while last might us great old year off come since against go came right used take three`)

// vocabulary is a byte-level BPE: 256 bytes, and the beginnings of all words.
type vocabulary struct {
	tokens []string
	kinds  []int32 // 1 is a piece of text, 3 a control token
	merges []string
	spoken []bool // answers may have it
}

func newVocabulary() *vocabulary {
	v := &vocabulary{}
	for _, special := range []string{"<|begin|>", "<|im_end|>", "<|im_start|>"} {
		v.add(special, 3, special == "<|im_end|>")
	}
	for b := range 256 {
		v.add(byteText(byte(b)), 1, strings.IndexByte(".,", byte(b)) >= 0)
	}
	ids := map[string]int{}
	space := byteText(' ')
	for _, w := range words {
		for n := range len(w) {
			piece := space + w[:n+1]
			if _, known := ids[piece]; !known {
				ids[piece] = len(v.tokens)
				v.merges = append(v.merges, space+w[:n]+" "+w[n:n+1])
				v.add(piece, 1, false)
			}
		}
		v.spoken[ids[space+w]] = true
	}
	return v
}

func (v *vocabulary) add(token string, kind int32, spoken bool) {
	v.tokens, v.kinds, v.spoken = append(v.tokens, token), append(v.kinds, kind), append(v.spoken, spoken)
}

// byteText is how GPT-2's vocabulary writes a byte: itself where it can be seen, else a letter from U+0100 on.
func byteText(b byte) string {
	hidden := rune(0x100)
	for c := range rune(256) {
		visible := c >= '!' && c <= '~' || c >= 0xa1 && c <= 0xac || c >= 0xae
		switch {
		case c == rune(b) && visible:
			return string(c)
		case c == rune(b):
			return string(hidden)
		case !visible:
			hidden++
		}
	}
	return ""
}
