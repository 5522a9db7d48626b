package accept

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"
)

// refusals are how refusals open, in lower case and with straight apostrophes. They say that
// something will not be done, not only that somebody is sorry. English, German, French,
// Spanish, Chinese, Japanese, Portuguese.
var refusals = [][]string{
	{
		"i'm sorry, but i can't", "i'm sorry, but i cannot", "i'm sorry, i can't", "i am sorry, but i can", "sorry, but i can't",
		"sorry, i can't", "i can't help with", "i can't assist", "i cannot assist", "i cannot help", "i can't provide", "i cannot provide",
		"i'm unable to", "i am unable to", "i won't be able to", "i'm not able to", "i cannot fulfill", "i can't fulfill", "as an ai language model", "as an ai,",
	},
	{
		"es tut mir leid, aber ich kann", "tut mir leid, aber ich kann", "tut mir leid, ich kann", "leider kann ich", "ich kann dir dabei nicht",
		"ich kann ihnen dabei nicht", "ich kann dabei nicht", "ich kann diese anfrage nicht", "ich bin nicht in der lage", "ich darf nicht",
		"ich darf dir", "ich darf ihnen", "es ist mir nicht möglich", "als ki-sprachmodell", "als ki kann ich",
	},
	{
		"je suis désolé, mais je ne peux", "je suis désolée, mais je ne peux", "désolé, mais je ne peux", "désolé, je ne peux", "je regrette, mais je ne",
		"je ne peux pas vous aider", "je ne peux pas t'aider", "je ne peux pas répondre", "je ne peux pas fournir", "je ne suis pas en mesure",
		"je ne suis pas capable", "il m'est impossible", "en tant que modèle de langage", "en tant qu'ia", "malheureusement, je ne peux",
	},
	{
		"lo siento, pero no puedo", "lo siento, no puedo", "lo lamento, pero no puedo", "lamento no poder", "perdona, pero no puedo", "no puedo ayudarte",
		"no puedo ayudarle", "no puedo proporcionar", "no puedo cumplir", "no me es posible", "no estoy en condiciones de", "no soy capaz de",
		"como modelo de lenguaje", "como ia, no", "desafortunadamente, no puedo",
	},
	{
		"很抱歉，我无法", "很抱歉，我不能", "抱歉，我无法", "抱歉，我不能", "对不起，我无法", "对不起，我不能", "对不起，但我", "抱歉，但我", "我无法协助", "我无法提供",
		"我不能提供", "我无法回答", "我无法满足", "作为一个人工智能", "作为一个ai", "作为ai", "作为一名人工智能",
	},
	{
		"申し訳ありませんが、", "申し訳ございませんが、", "すみませんが、その", "すみませんが、お", "ごめんなさい、その", "恐れ入りますが、", "残念ながら、その", "残念ですが、その",
		"そのご依頼にはお応え", "そのリクエストには", "お手伝いできません", "お答えできません", "aiとして", "aiアシスタントとして", "私はaiなので",
	},
	{
		"desculpe, mas não posso", "desculpe, não posso", "desculpe, mas eu não posso", "sinto muito, mas não posso", "sinto muito, não posso", "lamento, mas não posso",
		"não posso ajudar", "não posso fornecer", "não posso atender", "não consigo ajudar", "não sou capaz de", "não me é possível",
		"infelizmente, não posso", "como modelo de linguagem", "como uma ia", "como ia,",
	},
}

// refusalHead is how many bytes at the start of an answer are looked at: more than the
// longest opener has.
const refusalHead = 96

// isRefusal reports whether an answer opens as a refusal does.
func isRefusal(text []byte) bool {
	var room [refusalHead + utf8.UTFMax]byte
	head := opening(room[:0], text)
	return slices.ContainsFunc(refusals, func(language []string) bool {
		return slices.ContainsFunc(language, func(opener string) bool {
			return len(head) >= len(opener) && string(head[:len(opener)]) == opener
		})
	})
}

// opening appends the start of an answer as [refusals] are written: without the white
// space, quotes and emphasis before it, in lower case, white space as one space.
func opening(dst, text []byte) []byte {
	text = bytes.TrimLeft(text, " \t\r\n\"'*_#>-“”„«")
	space := false
	for len(text) > 0 && len(dst) < refusalHead {
		r, n := utf8.DecodeRune(text)
		text = text[n:]
		switch {
		case unicode.IsSpace(r):
			space = true
			continue
		case r == '’' || r == 'ʼ' || r == '`':
			r = '\''
		}
		if space {
			dst, space = append(dst, ' '), false
		}
		dst = utf8.AppendRune(dst, unicode.ToLower(r))
	}
	return dst
}
